//! System calls on files: one source file per family, one function per call.

mod address;
mod attributes;
mod control;
mod copy;
mod descriptors;
mod directories;
mod epoll;
mod event;
mod message;
mod mounts;
mod names;
#[cfg(target_arch = "x86_64")]
pub(super) mod old;
mod open;
mod poll;
mod select;
mod size;
mod socket;
mod stat;
mod swap;
mod transfer;
mod vmsplice;
mod xattr;

use super::door::{flag_arguments, only};
use super::rows::rows;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserStr;
use crate::fs::OpenFile;
use crate::fs::tree::inode::Location;
use crate::fs::tree::path::{self, Last, PATH_MAX, Walked};
use crate::fs::{DirFd, Fd, OpenFlags};
use crate::process::task::Task;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general as c;

rows! {
    /// Answers a call on files, or passes it on.
    call, otherwise;

    read => transfer::read;
    write => transfer::write;
    readv => transfer::readv;
    writev => transfer::writev;
    pread64 => transfer::pread;
    pwrite64 => transfer::pwrite;
    preadv => transfer::preadv;
    pwritev => transfer::pwritev;
    preadv2 => transfer::preadv2;
    pwritev2 => transfer::pwritev2;
    sendfile => copy::sendfile;
    copy_file_range => copy::copy_file_range;
    splice => copy::splice;
    lseek => transfer::lseek;

    vmsplice => vmsplice::vmsplice;

    openat => open::openat;
    openat2 => open::openat2;
    memfd_create => open::memfd_create;
    pipe2 => open::pipe2;

    epoll_create1 => epoll::epoll_create1;
    epoll_ctl => epoll::epoll_ctl;
    epoll_pwait => epoll::epoll_pwait, NOT_RESTARTED;
    epoll_pwait2 => epoll::epoll_pwait2, NOT_RESTARTED;
    eventfd2 => event::eventfd2;
    timerfd_create => event::timerfd_create;
    timerfd_settime => event::timerfd_settime;
    timerfd_gettime => event::timerfd_gettime;

    socket => socket::socket;
    socketpair => socket::socketpair;
    shutdown => socket::shutdown;
    bind => socket::bind;
    listen => socket::listen;
    connect => socket::connect;
    accept => socket::accept;
    accept4 => socket::accept4;
    getsockname => socket::getsockname;
    getpeername => socket::getpeername;
    getsockopt => socket::getsockopt;
    setsockopt => socket::setsockopt;

    sendto => message::sendto;
    recvfrom => message::recvfrom;
    sendmsg => message::sendmsg;
    recvmsg => message::recvmsg;
    sendmmsg => message::sendmmsg;
    recvmmsg => message::recvmmsg;

    close => descriptors::close;
    close_range => descriptors::close_range;
    dup => descriptors::dup;
    dup3 => descriptors::dup3;
    fcntl => descriptors::fcntl;
    flock => descriptors::flock;
    ioctl => descriptors::ioctl;

    fstat => stat::fstat;
    #[cfg(target_arch = "x86_64")]
    newfstatat => stat::fstatat;
    #[cfg(target_arch = "aarch64")]
    fstatat => stat::fstatat;
    statx => stat::statx;
    statfs => stat::statfs;
    fstatfs => stat::fstatfs;
    getxattr | setxattr | removexattr => xattr::of_path;
    lgetxattr | lsetxattr | lremovexattr => xattr::of_link;
    fgetxattr | fsetxattr | fremovexattr => xattr::of_open;
    listxattr => xattr::list;
    llistxattr => xattr::list_of_link;
    flistxattr => xattr::list_of_open;
    faccessat => stat::faccessat;
    faccessat2 => stat::faccessat2;
    readlinkat => stat::readlinkat;

    fchmod => attributes::fchmod;
    fchmodat => attributes::fchmodat;
    fchown => attributes::fchown;
    fchownat => attributes::fchownat;
    utimensat => attributes::utimensat;
    umask => attributes::umask;

    truncate => size::truncate;
    ftruncate => size::ftruncate;
    fallocate => size::fallocate;
    fsync | fdatasync => size::fsync;
    syncfs => size::syncfs;
    sync_file_range => size::sync_file_range;
    fadvise64 => size::fadvise;

    mkdirat => names::mkdirat;
    mknodat => names::mknodat;
    unlinkat => names::unlinkat;
    linkat => names::linkat;
    symlinkat => names::symlinkat;
    renameat2 => names::renameat2;
    renameat => names::renameat;

    getdents64 => directories::getdents64;
    getcwd => directories::getcwd;
    chdir => directories::chdir;
    fchdir => directories::fchdir;
    chroot => directories::chroot;

    mount => mounts::mount;
    umount2 => mounts::umount;
    swapon => swap::swapon;
    swapoff => swap::swapoff;

    ppoll => poll::ppoll, NOT_RESTARTED;
    pselect6 => select::pselect, NOT_RESTARTED;

    sync => |_: &Task| Ok(0);
    pivot_root => |_: &Task| Err(Errno::EINVAL);
}

#[cfg(not(target_arch = "x86_64"))]
use super::other as otherwise;
/// Calls that only x86_64 has.
#[cfg(target_arch = "x86_64")]
use old::call as otherwise;

bitflags::bitflags! {
    /// AT_*, of which each call knows some.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct AtFlags: u32 {
        /// AT_SYMLINK_NOFOLLOW.
        const SYMLINK_NOFOLLOW = c::AT_SYMLINK_NOFOLLOW;
        /// AT_EACCESS: as the effective user.
        const EACCESS = c::AT_EACCESS;
        /// AT_SYMLINK_FOLLOW, for linkat(2).
        const SYMLINK_FOLLOW = c::AT_SYMLINK_FOLLOW;
        /// AT_NO_AUTOMOUNT, without effect.
        const NO_AUTOMOUNT = c::AT_NO_AUTOMOUNT;
        /// AT_EMPTY_PATH: an empty path means the descriptor itself.
        const EMPTY_PATH = c::AT_EMPTY_PATH;
        /// AT_STATX_FORCE_SYNC, without effect.
        const STATX_FORCE_SYNC = c::AT_STATX_FORCE_SYNC;
        /// AT_STATX_DONT_SYNC, without effect.
        const STATX_DONT_SYNC = c::AT_STATX_DONT_SYNC;
    }
}

flag_arguments!(AtFlags: kept, OpenFlags: ignored);

impl AtFlags {
    /// EINVAL when there are others than `known`.
    pub fn only(self, known: AtFlags) -> Result<AtFlags> {
        only(self, known)
    }
}

/// A path argument.
fn read_path(path: UserStr) -> Result<Vec<u8>> {
    path.read(PATH_MAX)
}

/// Where a path of the *at calls starts: EBADF.
fn start_of(task: &Task, dir: DirFd, path: &[u8]) -> Result<Location> {
    // An absolute path does not look at the number.
    match dir {
        DirFd::Open(fd) if path.first() != Some(&b'/') => Ok(task.files().get(fd)?.place.clone()),
        _ => Ok(task.fs().cwd()),
    }
}

/// Walks a path argument as far as its last name.
fn walk(task: &Task, dir: DirFd, path: UserStr, last: Last) -> Result<Walked> {
    let path = read_path(path)?;
    path::walk(&task.fs(), start_of(task, dir, &path)?, &path, last)
}

/// The file a path argument leads to; with AT_EMPTY_PATH among `flags`, an empty path means `dir`
/// itself.
fn locate(task: &Task, dir: DirFd, path: UserStr, flags: AtFlags) -> Result<Location> {
    let may_be_empty = flags.contains(AtFlags::EMPTY_PATH);
    let path = match path.given() {
        None if may_be_empty => Vec::new(),
        _ => read_path(path)?,
    };
    if path.is_empty() && may_be_empty {
        return place_of(task, dir);
    }
    let last = if flags.contains(AtFlags::SYMLINK_NOFOLLOW) {
        Last::Keep
    } else {
        Last::Follow
    };
    path::resolve(&task.fs(), start_of(task, dir, &path)?, &path, last)
}

/// The file a path argument leads to from the working directory.
fn locate_here(task: &Task, path: UserStr) -> Result<Location> {
    locate(task, DirFd::Cwd, path, AtFlags::empty())
}

fn place_of(task: &Task, dir: DirFd) -> Result<Location> {
    match dir {
        DirFd::Cwd => Ok(task.fs().cwd()),
        DirFd::Open(fd) => Ok(task.files().get(fd)?.place.clone()),
    }
}

/// An open file that was not opened with O_PATH; EBADF.
pub(super) fn usable(task: &Task, fd: Fd) -> Result<Arc<OpenFile>> {
    let file = task.files().get(fd)?;
    file.usable()?;
    Ok(file)
}
