//! Attributes of a file: permissions, owners, times; the umask.

#[cfg(target_arch = "x86_64")]
use super::locate_here;
use super::{AtFlags, locate};
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserPtr, UserStr};
use crate::fs::tree::clock::{self, Time};
use crate::fs::tree::inode::{FileKind, Location};
use crate::fs::{DirFd, Fd};
use crate::process::task::Task;
use core::sync::atomic::{AtomicU32, Ordering};
use linux_raw_sys::general as c;

/// "Leave this one": -1 of chown(2).
const KEEP: u32 = u32::MAX;

/// fchmod(2).
pub fn fchmod(task: &Task, fd: Fd, mode: u32) -> Result<u64> {
    chmod(&super::usable(task, fd)?.place, mode)
}

/// fchmodat(2), without flags as the system call is.
pub fn fchmodat(task: &Task, dir: DirFd, path: UserStr, mode: u32) -> Result<u64> {
    chmod(&locate(task, dir, path, AtFlags::empty())?, mode)
}

fn chmod(place: &Location, mode: u32) -> Result<u64> {
    place.check_writable()?;
    let node = place.inode.node();
    if node.kind == FileKind::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    // F_SEAL_EXEC: it stays a program, or stays none.
    let sealed = |seals: &AtomicU32| seals.load(Ordering::Relaxed) & c::F_SEAL_EXEC != 0;
    if (node.mode() ^ mode) & 0o111 != 0 && place.inode.seals().is_some_and(sealed) {
        return Err(Errno::EPERM);
    }
    let now = clock::now();
    node.change(|a| {
        a.mode = mode & 0o7777;
        a.changed = now;
    });
    Ok(0)
}

/// umask(2).
pub fn umask(task: &Task, mask: u32) -> Result<u64> {
    Ok(task.fs().set_umask(mask).into())
}

/// fchown(2).
pub fn fchown(task: &Task, fd: Fd, uid: u32, gid: u32) -> Result<u64> {
    chown(&super::usable(task, fd)?.place, uid, gid)
}

/// fchownat(2).
pub fn fchownat(
    task: &Task,
    dir: DirFd,
    path: UserStr,
    uid: u32,
    gid: u32,
    flags: AtFlags,
) -> Result<u64> {
    flags.only(AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
    chown(&locate(task, dir, path, flags)?, uid, gid)
}

fn chown(place: &Location, uid: u32, gid: u32) -> Result<u64> {
    place.check_writable()?;
    let now = clock::now();
    let node = place.inode.node();
    let drops_setuid = node.kind != FileKind::Directory;
    node.change(|a| {
        a.uid = if uid == KEEP { a.uid } else { uid };
        a.gid = if gid == KEEP { a.gid } else { gid };
        a.mode &= if drops_setuid { 0o1777 } else { 0o7777 };
        a.changed = now;
    });
    Ok(0)
}

/// utimensat(2); a null path means `dir` itself (futimens).
pub fn utimensat(
    task: &Task,
    dir: DirFd,
    path: UserStr,
    times: UserPtr<[i64; 4]>,
    flags: AtFlags,
) -> Result<u64> {
    let mut flags = flags.only(AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)?;
    let wanted = match times.given() {
        None => [Some(clock::now()); 2],
        Some(times) => {
            let [s0, n0, s1, n1] = times.read()?;
            [wanted(s0, n0)?, wanted(s1, n1)?]
        }
    };
    if path.given().is_none() {
        flags |= AtFlags::EMPTY_PATH;
    }
    set_times(&locate(task, dir, path, flags)?, wanted)
}

/// One time of utimensat; `None` for UTIME_OMIT.
fn wanted(seconds: i64, nanos: i64) -> Result<Option<Time>> {
    match nanos as u32 {
        c::UTIME_NOW => Ok(Some(clock::now())),
        c::UTIME_OMIT => Ok(None),
        n if (0..1_000_000_000).contains(&nanos) => Ok(Some(Time { seconds, nanos: n })),
        _ => Err(Errno::EINVAL),
    }
}

fn set_times(place: &Location, [accessed, modified]: [Option<Time>; 2]) -> Result<u64> {
    place.check_writable()?;
    let now = clock::now();
    place.inode.node().change(|a| {
        a.accessed = accessed.unwrap_or(a.accessed);
        a.modified = modified.unwrap_or(a.modified);
        a.changed = now;
    });
    Ok(0)
}

/// utimes(2), futimesat(2): microseconds.
#[cfg(target_arch = "x86_64")]
pub fn futimesat(
    task: &Task,
    dir: DirFd,
    path: UserStr,
    times: UserPtr<[[i64; 2]; 2]>,
) -> Result<u64> {
    let mut wanted = [Some(clock::now()); 2];
    if let Some(times) = times.given() {
        for (time, [seconds, micros]) in wanted.iter_mut().zip(times.read()?) {
            if !(0..1_000_000).contains(&micros) {
                return Err(Errno::EINVAL);
            }
            *time = Some(Time {
                seconds,
                nanos: micros as u32 * 1000,
            });
        }
    }
    set_times(&locate(task, dir, path, AtFlags::empty())?, wanted)
}

/// utime(2): seconds.
#[cfg(target_arch = "x86_64")]
pub fn utime(task: &Task, path: UserStr, times: UserPtr<[i64; 2]>) -> Result<u64> {
    let mut wanted = [Some(clock::now()); 2];
    if let Some(times) = times.given() {
        wanted = times
            .read()?
            .map(|seconds| Some(Time { seconds, nanos: 0 }));
    }
    set_times(&locate_here(task, path)?, wanted)
}
