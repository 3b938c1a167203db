//! Reading what is known of a file: stat(2), access(2), readlink(2), statfs(2).

use super::{AtFlags, locate, locate_here, place_of, read_path};
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::base::user_ptr::{UserBytes, UserPtr, UserStr};
use crate::fs::kinds::hugefile::HUGETLBFS_MAGIC;
use crate::fs::open::io::Sink;
use crate::fs::tree::clock::Time;
use crate::fs::tree::inode::{FileKind, Inode, Location};
use crate::fs::tree::path::NAME_MAX;
use crate::fs::{DirFd, Fd};
use crate::process::task::Task;
use crate::syscall::door::flag_arguments;
use linux_raw_sys::general as c;
use mm::addr::PAGE_SIZE;

/// st_blocks counts these.
const BLOCK: u64 = 512;

/// Flags of fstatat(2) and statx(2) for finding the file.
const LOOKUP: AtFlags = AtFlags::SYMLINK_NOFOLLOW
    .union(AtFlags::EMPTY_PATH)
    .union(AtFlags::NO_AUTOMOUNT);

/// fstat(2).
pub fn fstat(task: &Task, fd: Fd, into: UserPtr<c::stat>) -> Result<u64> {
    write_stat(&task.files().get(fd)?.place, into)
}

/// fstatat(2).
pub fn fstatat(
    task: &Task,
    dir: DirFd,
    path: UserStr,
    into: UserPtr<c::stat>,
    flags: AtFlags,
) -> Result<u64> {
    flags.only(LOOKUP)?;
    write_stat(&locate(task, dir, path, flags)?, into)
}

fn blocks(inode: &dyn Inode) -> u64 {
    inode
        .object()
        .map_or(0, |object| object.pages() * (PAGE_SIZE / BLOCK))
}

/// st_blksize: the size of its pages.
fn block_size(inode: &dyn Inode) -> u64 {
    let huge = inode.object().and_then(|object| object.huge_order());
    huge.unwrap_or_default().bytes()
}

fn write_stat(place: &Location, into: UserPtr<c::stat>) -> Result<u64> {
    let node = place.inode.node();
    let attributes = node.attributes();
    let mut stat: c::stat = uaccess::zeroed();
    stat.st_dev = node.device;
    stat.st_ino = node.number;
    stat.st_nlink = attributes.links as _;
    stat.st_mode = node.mode();
    stat.st_uid = attributes.uid;
    stat.st_gid = attributes.gid;
    stat.st_rdev = place.inode.device().encode();
    stat.st_size = place.inode.size() as _;
    stat.st_blksize = block_size(&*place.inode) as _;
    stat.st_blocks = blocks(&*place.inode) as _;
    (stat.st_atime, stat.st_atime_nsec) = (
        attributes.accessed.seconds as _,
        attributes.accessed.nanos.into(),
    );
    (stat.st_mtime, stat.st_mtime_nsec) = (
        attributes.modified.seconds as _,
        attributes.modified.nanos.into(),
    );
    (stat.st_ctime, stat.st_ctime_nsec) = (
        attributes.changed.seconds as _,
        attributes.changed.nanos.into(),
    );
    into.write(&stat).map(|()| 0)
}

fn statx_time(time: Time) -> c::statx_timestamp {
    c::statx_timestamp {
        tv_sec: time.seconds,
        tv_nsec: time.nanos,
        __reserved: 0,
    }
}

bitflags::bitflags! {
    /// STATX_*: what is asked for, all of which is always given.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct StatxMask: u32 {
        /// STATX__RESERVED: EINVAL.
        const RESERVED = c::STATX__RESERVED;
    }

    /// R_OK, W_OK, X_OK.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AccessMode: u32 {
        /// R_OK.
        const READ = c::R_OK;
        /// W_OK.
        const WRITE = c::W_OK;
        /// X_OK.
        const EXECUTE = c::X_OK;
    }
}

flag_arguments!(StatxMask: ignored, AccessMode: invalid);

/// statx(2).
pub fn statx(
    task: &Task,
    dir: DirFd,
    path: UserStr,
    flags: AtFlags,
    mask: StatxMask,
    into: UserPtr<c::statx>,
) -> Result<u64> {
    let sync = AtFlags::STATX_FORCE_SYNC | AtFlags::STATX_DONT_SYNC;
    flags.only(LOOKUP | sync)?;
    if mask.contains(StatxMask::RESERVED) || flags.contains(sync) {
        return Err(Errno::EINVAL);
    }
    let place = locate(task, dir, path, flags)?;
    let node = place.inode.node();
    let attributes = node.attributes();
    let device = place.inode.device();
    let mut statx: c::statx = uaccess::zeroed();
    statx.stx_mask = c::STATX_BASIC_STATS | c::STATX_MNT_ID;
    statx.stx_blksize = block_size(&*place.inode) as u32;
    statx.stx_nlink = attributes.links;
    statx.stx_uid = attributes.uid;
    statx.stx_gid = attributes.gid;
    statx.stx_mode = node.mode() as u16;
    statx.stx_ino = node.number;
    statx.stx_size = place.inode.size();
    statx.stx_blocks = blocks(&*place.inode);
    statx.stx_atime = statx_time(attributes.accessed);
    statx.stx_mtime = statx_time(attributes.modified);
    statx.stx_ctime = statx_time(attributes.changed);
    (statx.stx_rdev_major, statx.stx_rdev_minor) = (device.0, device.1);
    statx.stx_dev_minor = node.device as u32;
    statx.stx_mnt_id = place.mount.id.into();
    into.write(&statx).map(|()| 0)
}

/// faccessat(2), without flags as the system call is.
pub fn faccessat(task: &Task, dir: DirFd, path: UserStr, mode: AccessMode) -> Result<u64> {
    faccessat2(task, dir, path, mode, AtFlags::empty())
}

/// faccessat2(2): root may read and write every file, and execute one that has an x bit.
pub fn faccessat2(
    task: &Task,
    dir: DirFd,
    path: UserStr,
    mode: AccessMode,
    flags: AtFlags,
) -> Result<u64> {
    flags.only(AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
    let place = locate(task, dir, path, flags)?;
    let node = place.inode.node();
    if mode.contains(AccessMode::EXECUTE) && node.kind == FileKind::Regular && !node.permits(0o111)
    {
        return Err(Errno::EACCES);
    }
    if mode.contains(AccessMode::WRITE)
        && !matches!(
            node.kind,
            FileKind::Char | FileKind::Fifo | FileKind::Socket
        )
    {
        place.check_writable()?;
    }
    Ok(0)
}

/// readlinkat(2): no NUL at the end.
pub fn readlinkat(
    task: &Task,
    dir: DirFd,
    path: UserStr,
    into: UserPtr<u8>,
    size: i32,
) -> Result<u64> {
    let size = usize::try_from(size).ok().filter(|size| *size > 0);
    let size = size.ok_or(Errno::EINVAL)?;
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let by_path = !read_path(path)?.is_empty();
    let place = if by_path {
        locate(task, dir, path, flags)?
    } else {
        place_of(task, dir)?
    };
    if place.inode.node().kind != FileKind::Symlink {
        return Err(if by_path {
            Errno::EINVAL
        } else {
            Errno::ENOENT
        });
    }
    let text = place.link_text()?;
    let len = text.len().min(size);
    let into = UserBytes {
        first: into,
        len: len as u64,
    };
    Ok(Sink::user(into)?.give(&text[..len])? as u64)
}

/// statfs(2).
pub fn statfs(task: &Task, path: UserStr, into: UserPtr<c::statfs>) -> Result<u64> {
    write_statfs(&locate_here(task, path)?, into)
}

/// fstatfs(2).
pub fn fstatfs(task: &Task, fd: Fd, into: UserPtr<c::statfs>) -> Result<u64> {
    write_statfs(&task.files().get(fd)?.place, into)
}

fn write_statfs(place: &Location, into: UserPtr<c::statfs>) -> Result<u64> {
    let fs = &place.mount.fs;
    let mut statfs: c::statfs = uaccess::zeroed();
    let file = place.inode.object().and_then(|object| object.huge_order());
    // A memfd of huge pages is on no mount of such.
    statfs.f_type = file.map_or(fs.magic, |_| HUGETLBFS_MAGIC) as _;
    let quota = fs.quota.as_ref().and_then(|quota| quota.huge_order());
    let block = file.or(quota).unwrap_or_default().bytes();
    statfs.f_bsize = block as _;
    statfs.f_frsize = block as _;
    statfs.f_namelen = NAME_MAX as _;
    statfs.f_flags = place.mount.flags().bits() as _;
    statfs.f_fsid.val = [fs.device as i32, 0];
    if let Some(quota) = &fs.quota {
        let (total, left) = quota.figures();
        statfs.f_blocks = total as _;
        statfs.f_bfree = left as _;
        statfs.f_bavail = left as _;
        let (total, left) = quota.inodes();
        statfs.f_files = total as _;
        statfs.f_ffree = left as _;
    }
    into.write(&statfs).map(|()| 0)
}
