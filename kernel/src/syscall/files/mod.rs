//! System calls on files, by what they are about: one file per family, one function per call.

mod attributes;
mod descriptors;
mod directories;
mod message;
mod mounts;
mod names;
mod open;
mod poll;
mod size;
mod socket;
mod stat;
mod transfer;
mod vmsplice;

use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::fs::OpenFile;
use crate::fs::tree::mount::Location;
use crate::fs::tree::path::{self, Last, PATH_MAX, Walked};
use crate::fs::{DirFd, Fd};
use crate::process::task::Task;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general as c;
use syscalls::Sysno;

/// fstatat(2) goes by two names.
#[cfg(target_arch = "x86_64")]
const FSTATAT: Sysno = Sysno::newfstatat;
#[cfg(target_arch = "aarch64")]
const FSTATAT: Sysno = Sysno::fstatat;

/// The call, if it is about files.
pub fn call(task: &Task, sysno: Sysno, args: &[u64; 6]) -> Option<Result<u64>> {
    let [a, b, cc, d, e, f] = *args;
    let (fd, dir) = (Fd::from(a), DirFd::from(a));
    Some(match sysno {
        Sysno::read => transfer::read(task, fd, b, cc),
        Sysno::write => transfer::write(task, fd, b, cc),
        Sysno::readv => transfer::readv(task, fd, b, cc),
        Sysno::writev => transfer::writev(task, fd, b, cc),
        Sysno::pread64 => transfer::pread(task, fd, b, cc, d),
        Sysno::pwrite64 => transfer::pwrite(task, fd, b, cc, d),
        Sysno::preadv => transfer::preadv(task, fd, b, cc, d, 0),
        Sysno::pwritev => transfer::pwritev(task, fd, b, cc, d, 0),
        Sysno::preadv2 => transfer::preadv(task, fd, b, cc, d, f),
        Sysno::pwritev2 => transfer::pwritev(task, fd, b, cc, d, f),
        Sysno::sendfile => transfer::sendfile(task, fd, b.into(), cc, d),
        Sysno::copy_file_range => transfer::copy_file_range(task, args),
        Sysno::splice => transfer::splice(task, args),
        Sysno::vmsplice => vmsplice::vmsplice(task, fd, b, cc, d),
        Sysno::lseek => transfer::lseek(task, fd, b as i64, cc),

        Sysno::openat => open::openat(task, dir, b, cc, d),
        Sysno::openat2 => open::openat2(task, dir, b, cc, d),
        Sysno::memfd_create => open::memfd_create(task, a, b),
        Sysno::pipe2 => open::pipe(task, a, b),
        Sysno::socketpair => socket::socketpair(task, a, b, cc, d),
        Sysno::shutdown => socket::shutdown(task, fd, b),
        Sysno::listen | Sysno::accept | Sysno::accept4 => socket::listen(task, fd),
        Sysno::getsockname | Sysno::getpeername => socket::name(task, fd, b, cc),
        Sysno::getsockopt => socket::getsockopt(task, fd, [b, cc, d, e]),
        Sysno::setsockopt => socket::setsockopt(task, fd, [b, cc, d, e]),
        Sysno::sendto => message::sendto(task, args),
        Sysno::recvfrom => message::recvfrom(task, args),
        Sysno::sendmsg => message::sendmsg(task, fd, b, cc),
        Sysno::recvmsg => message::recvmsg(task, fd, b, cc),
        Sysno::sendmmsg => message::sendmmsg(task, fd, b, cc, d),
        Sysno::recvmmsg => message::recvmmsg(task, fd, [b, cc, d, e]),
        Sysno::close => task.files().close(fd).map(|()| 0),
        Sysno::close_range => descriptors::close_range(task, a, b, cc),
        Sysno::dup => descriptors::dup(task, fd),
        Sysno::dup3 => descriptors::dup3(task, fd, b.into(), cc),
        Sysno::fcntl => descriptors::fcntl(task, fd, b, cc),
        Sysno::flock => descriptors::flock(task, fd, b),
        Sysno::ioctl => descriptors::ioctl(task, fd, b, cc),

        Sysno::fstat => stat::fstat(task, fd, b),
        FSTATAT => stat::fstatat(task, dir, b, cc, d),
        Sysno::statx => stat::statx(task, dir, b, cc, d, e),
        Sysno::statfs => stat::statfs(task, a, b),
        Sysno::fstatfs => stat::fstatfs(task, fd, b),
        Sysno::faccessat => stat::faccessat(task, dir, b, cc, 0),
        Sysno::faccessat2 => stat::faccessat(task, dir, b, cc, d),
        Sysno::readlinkat => stat::readlinkat(task, dir, b, cc, d),

        Sysno::fchmod => attributes::fchmod(task, fd, b),
        Sysno::fchmodat => attributes::fchmodat(task, dir, b, cc),
        Sysno::fchown => attributes::fchown(task, fd, b, cc),
        Sysno::fchownat => attributes::fchownat(task, dir, b, cc, d, e),
        Sysno::utimensat => attributes::utimensat(task, dir, b, cc, d),
        Sysno::umask => Ok(task.fs().set_umask(a as u32).into()),

        Sysno::truncate => size::truncate(task, a, b as i64),
        Sysno::ftruncate => size::ftruncate(task, fd, b as i64),
        Sysno::fallocate => size::fallocate(task, fd, b, cc as i64, d as i64),
        Sysno::fsync | Sysno::fdatasync => size::fsync(task, fd),
        Sysno::syncfs => usable(task, fd).map(|_| 0),
        Sysno::sync => Ok(0),
        Sysno::fadvise64 => size::fadvise(task, fd, d),

        Sysno::mkdirat => names::mkdirat(task, dir, b, cc),
        Sysno::mknodat => names::mknodat(task, dir, b, cc, d),
        Sysno::unlinkat => names::unlinkat(task, dir, b, cc),
        Sysno::linkat => names::linkat(task, dir, b, cc.into(), d, e),
        Sysno::symlinkat => names::symlinkat(task, a, b.into(), cc),
        Sysno::renameat2 => names::renameat(task, dir, b, cc.into(), d, e),
        Sysno::renameat => names::renameat(task, dir, b, cc.into(), d, 0),

        Sysno::getdents64 => directories::getdents64(task, fd, b, cc),
        Sysno::getcwd => directories::getcwd(task, a, b),
        Sysno::chdir => directories::chdir(task, a),
        Sysno::fchdir => directories::fchdir(task, fd),
        Sysno::chroot => directories::chroot(task, a),

        Sysno::mount => mounts::mount(task, args),
        Sysno::umount2 => mounts::umount(task, a, b),
        Sysno::pivot_root => Err(Errno::EINVAL),

        Sysno::ppoll => poll::ppoll(task, a, b, cc, d, e),
        Sysno::pselect6 => poll::pselect(task, args),
        _ => return legacy(task, sysno, args),
    })
}

/// Calls that only x86_64 has.
#[cfg(target_arch = "x86_64")]
fn legacy(task: &Task, sysno: Sysno, args: &[u64; 6]) -> Option<Result<u64>> {
    const CWD: DirFd = DirFd::Cwd;
    let [a, b, cc, d, e, _] = *args;
    Some(match sysno {
        Sysno::open => open::openat(task, CWD, a, b, cc),
        Sysno::creat => open::openat(
            task,
            CWD,
            a,
            (c::O_CREAT | c::O_WRONLY | c::O_TRUNC).into(),
            b,
        ),
        Sysno::pipe => open::pipe(task, a, 0),
        Sysno::dup2 => descriptors::dup2(task, a.into(), b.into()),
        Sysno::stat => stat::fstatat(task, CWD, a, b, 0),
        Sysno::lstat => stat::fstatat(task, CWD, a, b, c::AT_SYMLINK_NOFOLLOW.into()),
        Sysno::access => stat::faccessat(task, CWD, a, b, 0),
        Sysno::readlink => stat::readlinkat(task, CWD, a, b, cc),
        Sysno::chmod => attributes::fchmodat(task, CWD, a, b),
        Sysno::chown => attributes::fchownat(task, CWD, a, b, cc, 0),
        Sysno::lchown => attributes::fchownat(task, CWD, a, b, cc, c::AT_SYMLINK_NOFOLLOW.into()),
        Sysno::utime => attributes::utime(task, a, b),
        Sysno::utimes => attributes::utimes(task, CWD, a, b),
        Sysno::futimesat => attributes::utimes(task, a.into(), b, cc),
        Sysno::mkdir => names::mkdirat(task, CWD, a, b),
        Sysno::mknod => names::mknodat(task, CWD, a, b, cc),
        Sysno::rmdir => names::unlinkat(task, CWD, a, c::AT_REMOVEDIR.into()),
        Sysno::unlink => names::unlinkat(task, CWD, a, 0),
        Sysno::link => names::linkat(task, CWD, a, CWD, b, 0),
        Sysno::symlink => names::symlinkat(task, a, CWD, b),
        Sysno::rename => names::renameat(task, CWD, a, CWD, b, 0),
        Sysno::getdents => directories::getdents(task, a.into(), b, cc),
        Sysno::poll => poll::poll(task, a, b, cc as i32),
        Sysno::select => poll::select(task, a, [b, cc, d], e),
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn legacy(_task: &Task, _sysno: Sysno, _args: &[u64; 6]) -> Option<Result<u64>> {
    None
}

/// A path argument.
fn read_path(at: u64) -> Result<Vec<u8>> {
    uaccess::read_cstr(at, PATH_MAX)
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
fn walk(task: &Task, dir: DirFd, path: u64, last: Last) -> Result<Walked> {
    let path = read_path(path)?;
    path::walk(&task.fs(), start_of(task, dir, &path)?, &path, last)
}

/// The file a path argument leads to; with AT_EMPTY_PATH among `flags`, an empty path means `dir`
/// itself.
fn locate(task: &Task, dir: DirFd, path: u64, flags: u64) -> Result<Location> {
    let flags = flags as u32;
    let path = if path == 0 && flags & c::AT_EMPTY_PATH != 0 {
        Vec::new()
    } else {
        read_path(path)?
    };
    if path.is_empty() && flags & c::AT_EMPTY_PATH != 0 {
        return place_of(task, dir);
    }
    let last = if flags & c::AT_SYMLINK_NOFOLLOW != 0 {
        Last::Keep
    } else {
        Last::Follow
    };
    path::resolve(&task.fs(), start_of(task, dir, &path)?, &path, last)
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

/// EINVAL when `flags` has others than `known`.
fn check_flags(flags: u64, known: u32) -> Result<u32> {
    if flags & !u64::from(known) == 0 {
        Ok(flags as u32)
    } else {
        Err(Errno::EINVAL)
    }
}
