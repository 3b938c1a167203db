//! Making, linking, removing, renaming.

use super::{check_flags, locate, read_path, walk};
use crate::base::errno::{Errno, Result};
use crate::fs::DirFd;
use crate::fs::tree::inode::{Device, Kind, New};
use crate::fs::tree::names::{self, Rename};
use crate::fs::tree::path::Last;
use crate::process::task::Task;
use linux_raw_sys::general as c;

fn masked(task: &Task, mode: u64, bits: u32) -> u32 {
    mode as u32 & bits & !task.fs().umask()
}

/// mkdirat(2).
pub fn mkdirat(task: &Task, dir: DirFd, path: u64, mode: u64) -> Result<u64> {
    let walked = walk(task, dir, path, Last::Keep)?;
    names::create(&walked, New::Directory, masked(task, mode, 0o1777)).map(|_| 0)
}

/// mknodat(2).
pub fn mknodat(task: &Task, dir: DirFd, path: u64, mode: u64, device: u64) -> Result<u64> {
    let new = match Kind::from_mode(mode as u32).ok_or(Errno::EINVAL)? {
        Kind::Regular => New::Regular,
        Kind::Directory | Kind::Symlink => return Err(Errno::EPERM),
        kind @ (Kind::Char | Kind::Block) => New::Special(kind, Device::decode(device)),
        kind => New::Special(kind, Device::default()),
    };
    let walked = walk(task, dir, path, Last::Keep)?;
    names::create(&walked, new, masked(task, mode, 0o7777)).map(|_| 0)
}

/// unlinkat(2).
pub fn unlinkat(task: &Task, dir: DirFd, path: u64, flags: u64) -> Result<u64> {
    let flags = check_flags(flags, c::AT_REMOVEDIR)?;
    let walked = walk(task, dir, path, Last::Keep)?;
    names::remove(&walked, flags != 0).map(|()| 0)
}

/// linkat(2).
pub fn linkat(
    task: &Task,
    from_dir: DirFd,
    from: u64,
    to_dir: DirFd,
    to: u64,
    flags: u64,
) -> Result<u64> {
    let flags = check_flags(flags, c::AT_SYMLINK_FOLLOW | c::AT_EMPTY_PATH)?;
    let follow = if flags & c::AT_SYMLINK_FOLLOW != 0 {
        0
    } else {
        c::AT_SYMLINK_NOFOLLOW
    };
    let file = locate(
        task,
        from_dir,
        from,
        u64::from(follow | flags & c::AT_EMPTY_PATH),
    )?;
    let walked = walk(task, to_dir, to, Last::Keep)?;
    names::link(&walked, &file).map(|()| 0)
}

/// symlinkat(2).
pub fn symlinkat(task: &Task, target: u64, dir: DirFd, path: u64) -> Result<u64> {
    let target = read_path(target)?;
    if target.is_empty() {
        return Err(Errno::ENOENT);
    }
    let walked = walk(task, dir, path, Last::Keep)?;
    names::create(&walked, New::Symlink(target), 0o777).map(|_| 0)
}

/// renameat2(2).
pub fn renameat(
    task: &Task,
    from_dir: DirFd,
    from: u64,
    to_dir: DirFd,
    to: u64,
    flags: u64,
) -> Result<u64> {
    let how = match flags as u32 {
        0 => Rename::Replace,
        c::RENAME_NOREPLACE => Rename::NoReplace,
        c::RENAME_EXCHANGE => Rename::Exchange,
        _ => return Err(Errno::EINVAL),
    };
    let from = walk(task, from_dir, from, Last::Keep)?;
    let to = walk(task, to_dir, to, Last::Keep)?;
    names::rename(&from, &to, how).map(|()| 0)
}
