//! What a file is: the stat family, access, readlink, statfs.

use super::{check_flags, locate, place_of, read_path};
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::fs::open::io::Sink;
use crate::fs::tree::clock::Time;
use crate::fs::tree::inode::{Inode, Kind};
use crate::fs::tree::mount::Location;
use crate::fs::tree::path::NAME_MAX;
use crate::fs::{DirFd, Fd};
use crate::process::task::Task;
use linux_raw_sys::general as c;
use mm::addr::PAGE_SIZE;

/// st_blocks counts these.
const BLOCK: u64 = 512;

/// fstat(2).
pub fn fstat(task: &Task, fd: Fd, at: u64) -> Result<u64> {
    write_stat(&task.files().get(fd)?.place, at)
}

/// fstatat(2).
pub fn fstatat(task: &Task, dir: DirFd, path: u64, at: u64, flags: u64) -> Result<u64> {
    check_flags(
        flags,
        c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH | c::AT_NO_AUTOMOUNT,
    )?;
    write_stat(&locate(task, dir, path, flags)?, at)
}

fn blocks(inode: &dyn Inode) -> u64 {
    inode
        .object()
        .map_or(0, |object| object.pages() * (PAGE_SIZE / BLOCK))
}

fn write_stat(place: &Location, at: u64) -> Result<u64> {
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
    stat.st_blksize = PAGE_SIZE as _;
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
    uaccess::write(at, &stat).map(|()| 0)
}

fn statx_time(time: Time) -> c::statx_timestamp {
    c::statx_timestamp {
        tv_sec: time.seconds,
        tv_nsec: time.nanos,
        __reserved: 0,
    }
}

/// statx(2).
pub fn statx(task: &Task, dir: DirFd, path: u64, flags: u64, mask: u64, at: u64) -> Result<u64> {
    let sync = c::AT_STATX_SYNC_TYPE;
    check_flags(
        flags,
        c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH | c::AT_NO_AUTOMOUNT | sync,
    )?;
    if mask as u32 & c::STATX__RESERVED != 0 || flags as u32 & sync == sync {
        return Err(Errno::EINVAL);
    }
    let place = locate(task, dir, path, flags)?;
    let node = place.inode.node();
    let attributes = node.attributes();
    let device = place.inode.device();
    let mut statx: c::statx = uaccess::zeroed();
    statx.stx_mask = c::STATX_BASIC_STATS | c::STATX_MNT_ID;
    statx.stx_blksize = PAGE_SIZE as u32;
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
    uaccess::write(at, &statx).map(|()| 0)
}

/// faccessat2(2): root may read and write all, and run what anybody may run.
pub fn faccessat(task: &Task, dir: DirFd, path: u64, mode: u64, flags: u64) -> Result<u64> {
    check_flags(
        flags,
        c::AT_EACCESS | c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH,
    )?;
    let mode = check_flags(mode, c::R_OK | c::W_OK | c::X_OK)?;
    let place = locate(task, dir, path, flags)?;
    let node = place.inode.node();
    if mode & c::X_OK != 0 && node.kind == Kind::Regular && !node.permits(0o111) {
        return Err(Errno::EACCES);
    }
    if mode & c::W_OK != 0 && !matches!(node.kind, Kind::Char | Kind::Fifo | Kind::Socket) {
        place.check_writable()?;
    }
    Ok(0)
}

/// readlinkat(2): no NUL at the end.
pub fn readlinkat(task: &Task, dir: DirFd, path: u64, at: u64, size: u64) -> Result<u64> {
    if size as i32 <= 0 {
        return Err(Errno::EINVAL);
    }
    let flags = c::AT_SYMLINK_NOFOLLOW | c::AT_EMPTY_PATH;
    let by_path = !read_path(path)?.is_empty();
    let place = if by_path {
        locate(task, dir, path, flags.into())?
    } else {
        place_of(task, dir)?
    };
    if place.inode.node().kind != Kind::Symlink {
        return Err(if by_path {
            Errno::EINVAL
        } else {
            Errno::ENOENT
        });
    }
    let text = place.inode.link_text()?;
    let len = text.len().min(size as usize);
    Ok(Sink::user(at, len as u64)?.give(&text[..len])? as u64)
}

/// statfs(2).
pub fn statfs(task: &Task, path: u64, at: u64) -> Result<u64> {
    write_statfs(&locate(task, DirFd::Cwd, path, 0)?, at)
}

/// fstatfs(2).
pub fn fstatfs(task: &Task, fd: Fd, at: u64) -> Result<u64> {
    write_statfs(&task.files().get(fd)?.place, at)
}

fn write_statfs(place: &Location, at: u64) -> Result<u64> {
    let fs = &place.mount.fs;
    let mut statfs: c::statfs = uaccess::zeroed();
    statfs.f_type = fs.magic as _;
    statfs.f_bsize = PAGE_SIZE as _;
    statfs.f_frsize = PAGE_SIZE as _;
    statfs.f_namelen = NAME_MAX as _;
    statfs.f_flags = place.mount.flags() as _;
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
    uaccess::write(at, &statfs).map(|()| 0)
}
