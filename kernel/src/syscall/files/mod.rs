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
mod open;
mod poll;
mod select;
mod size;
mod socket;
mod stat;
mod transfer;
mod vmsplice;
mod xattr;

use super::Call;
use super::door::{flag_arguments, only};
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
#[cfg(target_arch = "x86_64")]
use names::UnlinkFlags;
#[cfg(target_arch = "x86_64")]
use open::PipeFlags;
use syscalls::Sysno;

/// fstatat(2) goes by two names.
#[cfg(target_arch = "x86_64")]
const FSTATAT: Sysno = Sysno::newfstatat;
#[cfg(target_arch = "aarch64")]
const FSTATAT: Sysno = Sysno::fstatat;

/// Answers a call on files, or passes it on.
pub fn call(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    match sysno {
        Sysno::read => call.run(transfer::read),
        Sysno::write => call.run(transfer::write),
        Sysno::readv => call.run(transfer::readv),
        Sysno::writev => call.run(transfer::writev),
        Sysno::pread64 => call.run(transfer::pread),
        Sysno::pwrite64 => call.run(transfer::pwrite),
        Sysno::preadv => call.run(transfer::preadv),
        Sysno::pwritev => call.run(transfer::pwritev),
        Sysno::preadv2 => call.run(transfer::preadv2),
        Sysno::pwritev2 => call.run(transfer::pwritev2),
        Sysno::sendfile => call.run(copy::sendfile),
        Sysno::copy_file_range => call.run(copy::copy_file_range),
        Sysno::splice => call.run(copy::splice),
        Sysno::lseek => call.run(transfer::lseek),

        Sysno::vmsplice => call.run(vmsplice::vmsplice),

        Sysno::openat => call.run(open::openat),
        Sysno::openat2 => call.run(open::openat2),
        Sysno::memfd_create => call.run(open::memfd_create),
        Sysno::pipe2 => call.run(open::pipe2),

        Sysno::epoll_create1 => call.run(epoll::epoll_create1),
        Sysno::epoll_ctl => call.run(epoll::epoll_ctl),
        Sysno::epoll_pwait => call.run(epoll::epoll_pwait),
        Sysno::epoll_pwait2 => call.run(epoll::epoll_pwait2),
        Sysno::eventfd2 => call.run(event::eventfd2),
        Sysno::timerfd_create => call.run(event::timerfd_create),
        Sysno::timerfd_settime => call.run(event::timerfd_settime),
        Sysno::timerfd_gettime => call.run(event::timerfd_gettime),

        Sysno::socket => call.run(socket::socket),
        Sysno::socketpair => call.run(socket::socketpair),
        Sysno::shutdown => call.run(socket::shutdown),
        Sysno::bind => call.run(socket::bind),
        Sysno::listen => call.run(socket::listen),
        Sysno::connect => call.run(socket::connect),
        Sysno::accept => call.run(socket::accept),
        Sysno::accept4 => call.run(socket::accept4),
        Sysno::getsockname => call.run(socket::getsockname),
        Sysno::getpeername => call.run(socket::getpeername),
        Sysno::getsockopt => call.run(socket::getsockopt),
        Sysno::setsockopt => call.run(socket::setsockopt),

        Sysno::sendto => call.run(message::sendto),
        Sysno::recvfrom => call.run(message::recvfrom),
        Sysno::sendmsg => call.run(message::sendmsg),
        Sysno::recvmsg => call.run(message::recvmsg),
        Sysno::sendmmsg => call.run(message::sendmmsg),
        Sysno::recvmmsg => call.run(message::recvmmsg),

        Sysno::close => call.run(descriptors::close),
        Sysno::close_range => call.run(descriptors::close_range),
        Sysno::dup => call.run(descriptors::dup),
        Sysno::dup3 => call.run(descriptors::dup3),
        Sysno::fcntl => call.run(descriptors::fcntl),
        Sysno::flock => call.run(descriptors::flock),
        Sysno::ioctl => call.run(descriptors::ioctl),

        Sysno::fstat => call.run(stat::fstat),
        FSTATAT => call.run(stat::fstatat),
        Sysno::statx => call.run(stat::statx),
        Sysno::statfs => call.run(stat::statfs),
        Sysno::fstatfs => call.run(stat::fstatfs),
        Sysno::getxattr | Sysno::setxattr | Sysno::removexattr => call.run(xattr::of_path),
        Sysno::lgetxattr | Sysno::lsetxattr | Sysno::lremovexattr => call.run(xattr::of_link),
        Sysno::fgetxattr | Sysno::fsetxattr | Sysno::fremovexattr => call.run(xattr::of_open),
        Sysno::listxattr => call.run(xattr::list),
        Sysno::llistxattr => call.run(xattr::list_of_link),
        Sysno::flistxattr => call.run(xattr::list_of_open),
        Sysno::faccessat => call.run(stat::faccessat),
        Sysno::faccessat2 => call.run(stat::faccessat2),
        Sysno::readlinkat => call.run(stat::readlinkat),

        Sysno::fchmod => call.run(attributes::fchmod),
        Sysno::fchmodat => call.run(attributes::fchmodat),
        Sysno::fchown => call.run(attributes::fchown),
        Sysno::fchownat => call.run(attributes::fchownat),
        Sysno::utimensat => call.run(attributes::utimensat),
        Sysno::umask => call.run(attributes::umask),

        Sysno::truncate => call.run(size::truncate),
        Sysno::ftruncate => call.run(size::ftruncate),
        Sysno::fallocate => call.run(size::fallocate),
        Sysno::fsync | Sysno::fdatasync => call.run(size::fsync),
        Sysno::syncfs => call.run(size::syncfs),
        Sysno::fadvise64 => call.run(size::fadvise),

        Sysno::mkdirat => call.run(names::mkdirat),
        Sysno::mknodat => call.run(names::mknodat),
        Sysno::unlinkat => call.run(names::unlinkat),
        Sysno::linkat => call.run(names::linkat),
        Sysno::symlinkat => call.run(names::symlinkat),
        Sysno::renameat2 => call.run(names::renameat2),
        Sysno::renameat => call.run(names::renameat),

        Sysno::getdents64 => call.run(directories::getdents64),
        Sysno::getcwd => call.run(directories::getcwd),
        Sysno::chdir => call.run(directories::chdir),
        Sysno::fchdir => call.run(directories::fchdir),
        Sysno::chroot => call.run(directories::chroot),

        Sysno::mount => call.run(mounts::mount),
        Sysno::umount2 => call.run(mounts::umount),

        Sysno::ppoll => call.run(poll::ppoll),
        Sysno::pselect6 => call.run(select::pselect),

        Sysno::sync => Ok(0),
        Sysno::pivot_root => Err(Errno::EINVAL),
        _ => legacy(sysno, call),
    }
}

/// Calls that only x86_64 has.
#[cfg(target_arch = "x86_64")]
fn legacy(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    const CWD: DirFd = DirFd::Cwd;
    match sysno {
        Sysno::open => {
            call.run(|task: &Task, path, flags, mode| open::openat(task, CWD, path, flags, mode))
        }
        Sysno::creat => call.run(|task: &Task, path, mode| {
            let flags = OpenFlags::CREAT | OpenFlags::WRONLY | OpenFlags::TRUNC;
            open::openat(task, CWD, path, flags, mode)
        }),
        Sysno::pipe => call.run(|task: &Task, at| open::pipe2(task, at, PipeFlags::empty())),
        Sysno::dup2 => call.run(descriptors::dup2),
        Sysno::stat => call
            .run(|task: &Task, path, into| stat::fstatat(task, CWD, path, into, AtFlags::empty())),
        Sysno::lstat => call.run(|task: &Task, path, into| {
            stat::fstatat(task, CWD, path, into, AtFlags::SYMLINK_NOFOLLOW)
        }),
        Sysno::access => call.run(|task: &Task, path, mode| stat::faccessat(task, CWD, path, mode)),
        Sysno::readlink => {
            call.run(|task: &Task, path, into, size| stat::readlinkat(task, CWD, path, into, size))
        }
        Sysno::chmod => {
            call.run(|task: &Task, path, mode| attributes::fchmodat(task, CWD, path, mode))
        }
        Sysno::chown => call.run(|task: &Task, path, uid, gid| {
            attributes::fchownat(task, CWD, path, uid, gid, AtFlags::empty())
        }),
        Sysno::lchown => call.run(|task: &Task, path, uid, gid| {
            attributes::fchownat(task, CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
        }),
        Sysno::utime => call.run(attributes::utime),
        Sysno::utimes => {
            call.run(|task: &Task, path, times| attributes::futimesat(task, CWD, path, times))
        }
        Sysno::futimesat => call.run(attributes::futimesat),
        Sysno::mkdir => call.run(|task: &Task, path, mode| names::mkdirat(task, CWD, path, mode)),
        Sysno::mknod => call
            .run(|task: &Task, path, mode, device| names::mknodat(task, CWD, path, mode, device)),
        Sysno::rmdir => {
            call.run(|task: &Task, path| names::unlinkat(task, CWD, path, UnlinkFlags::REMOVEDIR))
        }
        Sysno::unlink => {
            call.run(|task: &Task, path| names::unlinkat(task, CWD, path, UnlinkFlags::empty()))
        }
        Sysno::link => call
            .run(|task: &Task, from, to| names::linkat(task, CWD, from, CWD, to, AtFlags::empty())),
        Sysno::symlink => {
            call.run(|task: &Task, target, path| names::symlinkat(task, target, CWD, path))
        }
        Sysno::rename => {
            call.run(|task: &Task, from, to| names::renameat(task, CWD, from, CWD, to))
        }
        Sysno::getdents => call.run(directories::getdents),
        Sysno::epoll_create => call.run(epoll::epoll_create),
        Sysno::epoll_wait => call.run(epoll::epoll_wait),
        Sysno::eventfd => call.run(event::eventfd),
        Sysno::poll => call.run(poll::poll),
        Sysno::select => call.run(select::select),
        _ => super::other(sysno, call),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn legacy(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    super::other(sysno, call)
}

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
