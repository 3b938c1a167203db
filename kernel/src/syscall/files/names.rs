//! Names in directories: mkdir(2), mknod(2), unlink(2), link(2), symlink(2), rename(2).

use super::{AtFlags, locate, read_path, walk};
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserStr;
use crate::fs::DirFd;
use crate::fs::tree::inode::{Device, FileKind, New};
use crate::fs::tree::names::{self, Rename};
use crate::fs::tree::path::Last;
use crate::process::task::Task;
use crate::syscall::door::flag_arguments;
use linux_raw_sys::general as c;

fn masked(task: &Task, mode: u32, bits: u32) -> u32 {
    mode & bits & !task.fs().umask()
}

/// mkdirat(2).
pub fn mkdirat(task: &Task, dir: DirFd, path: UserStr, mode: u32) -> Result<u64> {
    let walked = walk(task, dir, path, Last::Keep)?;
    names::create(&walked, New::Directory, masked(task, mode, 0o1777)).map(|_| 0)
}

/// mknodat(2).
pub fn mknodat(task: &Task, dir: DirFd, path: UserStr, mode: u32, device: u32) -> Result<u64> {
    let new = match FileKind::from_mode(mode).ok_or(Errno::EINVAL)? {
        FileKind::Regular => New::Regular,
        FileKind::Directory | FileKind::Symlink => return Err(Errno::EPERM),
        kind @ (FileKind::Char | FileKind::Block) => {
            New::Special(kind, Device::decode(device.into()))
        }
        kind => New::Special(kind, Device::default()),
    };
    let walked = walk(task, dir, path, Last::Keep)?;
    names::create(&walked, new, masked(task, mode, 0o7777)).map(|_| 0)
}

bitflags::bitflags! {
    /// Flags of unlinkat(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct UnlinkFlags: u32 {
        /// AT_REMOVEDIR: as rmdir(2).
        const REMOVEDIR = c::AT_REMOVEDIR;
    }

    /// RENAME_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct RenameFlags: u32 {
        /// RENAME_NOREPLACE.
        const NOREPLACE = c::RENAME_NOREPLACE;
        /// RENAME_EXCHANGE.
        const EXCHANGE = c::RENAME_EXCHANGE;
    }
}

flag_arguments!(UnlinkFlags: invalid, RenameFlags: invalid);

/// unlinkat(2).
pub fn unlinkat(task: &Task, dir: DirFd, path: UserStr, flags: UnlinkFlags) -> Result<u64> {
    let walked = walk(task, dir, path, Last::Keep)?;
    names::remove(&walked, flags.contains(UnlinkFlags::REMOVEDIR)).map(|()| 0)
}

/// linkat(2).
pub fn linkat(
    task: &Task,
    from_dir: DirFd,
    from: UserStr,
    to_dir: DirFd,
    to: UserStr,
    flags: AtFlags,
) -> Result<u64> {
    let flags = flags.only(AtFlags::SYMLINK_FOLLOW | AtFlags::EMPTY_PATH)?;
    let mut how = flags & AtFlags::EMPTY_PATH;
    how.set(
        AtFlags::SYMLINK_NOFOLLOW,
        !flags.contains(AtFlags::SYMLINK_FOLLOW),
    );
    let file = locate(task, from_dir, from, how)?;
    let walked = walk(task, to_dir, to, Last::Keep)?;
    names::link(&walked, &file).map(|()| 0)
}

/// symlinkat(2).
pub fn symlinkat(task: &Task, target: UserStr, dir: DirFd, path: UserStr) -> Result<u64> {
    let target = read_path(target)?;
    if target.is_empty() {
        return Err(Errno::ENOENT);
    }
    let walked = walk(task, dir, path, Last::Keep)?;
    names::create(&walked, New::Symlink(target), 0o777).map(|_| 0)
}

/// renameat(2).
pub fn renameat(
    task: &Task,
    from_dir: DirFd,
    from: UserStr,
    to_dir: DirFd,
    to: UserStr,
) -> Result<u64> {
    renameat2(task, from_dir, from, to_dir, to, RenameFlags::empty())
}

/// renameat2(2).
pub fn renameat2(
    task: &Task,
    from_dir: DirFd,
    from: UserStr,
    to_dir: DirFd,
    to: UserStr,
    flags: RenameFlags,
) -> Result<u64> {
    let how = match flags {
        RenameFlags::NOREPLACE => Rename::NoReplace,
        RenameFlags::EXCHANGE => Rename::Exchange,
        none if none.is_empty() => Rename::Replace,
        _ => return Err(Errno::EINVAL),
    };
    let from = walk(task, from_dir, from, Last::Keep)?;
    let to = walk(task, to_dir, to, Last::Keep)?;
    names::rename(&from, &to, how).map(|()| 0)
}
