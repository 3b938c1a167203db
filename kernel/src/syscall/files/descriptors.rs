//! File descriptors: close(2), dup(2), fcntl(2), flock(2), ioctl(2).

use super::usable;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::fs::kinds::pipe::End;
use crate::fs::tree::inode::FileKind;
use crate::fs::{Fd, OpenFile, OpenFlags};
use crate::process::task::Task;
use crate::syscall::door::flag_arguments;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as c;
use linux_raw_sys::ioctl::{FIOASYNC, FIOCLEX, FIONBIO, FIONCLEX, FIONREAD};

bitflags::bitflags! {
    /// CLOSE_RANGE_*, which the header crate leaves out.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct CloseRangeFlags: u32 {
        /// CLOSE_RANGE_UNSHARE: first, the thread gets a table of its own.
        const UNSHARE = 2;
        /// CLOSE_RANGE_CLOEXEC: closes them on execve(2), not now.
        const CLOEXEC = 4;
    }

    /// Flags of dup3(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct DupFlags: u32 {
        /// O_CLOEXEC.
        const CLOEXEC = c::O_CLOEXEC;
    }

    /// LOCK_*: a flag besides the operation.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct LockOperation: u32 {
        /// LOCK_NB: EWOULDBLOCK instead of waiting.
        const NONBLOCK = c::LOCK_NB;
    }
}

flag_arguments!(CloseRangeFlags: invalid, DupFlags: invalid, LockOperation: kept);

/// close(2).
pub fn close(task: &Task, fd: Fd) -> Result<u64> {
    task.files().close(fd).map(|()| 0)
}

/// close_range(2).
pub fn close_range(task: &Task, first: u32, last: u32, flags: CloseRangeFlags) -> Result<u64> {
    if first > last {
        return Err(Errno::EINVAL);
    }
    if flags.contains(CloseRangeFlags::UNSHARE) {
        let own = task.files().fork()?;
        task.set_files(Arc::new(own));
    }
    if flags.contains(CloseRangeFlags::CLOEXEC) {
        task.files().mark_range(first, last);
    } else {
        task.files().close_range(first, last);
    }
    Ok(0)
}

/// dup(2).
pub fn dup(task: &Task, fd: Fd) -> Result<u64> {
    let files = task.files();
    Ok(files.install(files.get(fd)?, false)?.to_return())
}

/// dup2(2): the same number twice is no error.
#[cfg(target_arch = "x86_64")]
pub fn dup2(task: &Task, from: Fd, to: Fd) -> Result<u64> {
    if from == to {
        return task.files().get(from).map(|_| to.to_return());
    }
    dup3(task, from, to, DupFlags::empty())
}

/// dup3(2).
pub fn dup3(task: &Task, from: Fd, to: Fd, flags: DupFlags) -> Result<u64> {
    if from == to {
        return Err(Errno::EINVAL);
    }
    let files = task.files();
    files.install_at(to, files.get(from)?, flags.contains(DupFlags::CLOEXEC))?;
    Ok(to.to_return())
}

/// fcntl(2). The command says what the argument is.
pub fn fcntl(task: &Task, fd: Fd, command: u32, argument: u64) -> Result<u64> {
    let files = task.files();
    let file = files.get(fd)?;
    match command {
        c::F_DUPFD => Ok(files
            .install_from(file, false, argument as usize)?
            .to_return()),
        c::F_DUPFD_CLOEXEC => Ok(files
            .install_from(file, true, argument as usize)?
            .to_return()),
        c::F_GETFD => Ok(files.closes_on_exec(fd)?.into()),
        c::F_SETFD => files
            .set_close_on_exec(fd, argument as u32 & c::FD_CLOEXEC != 0)
            .map(|()| 0),
        c::F_GETFL => Ok(u64::from((file.flags() | OpenFlags::LARGEFILE).bits())),
        _ => on_open_file(file.usable()?, command, argument),
    }
}

/// Commands that a file opened with O_PATH does not know.
fn on_open_file(file: &OpenFile, command: u32, argument: u64) -> Result<u64> {
    match command {
        c::F_SETFL => {
            file.set_flags(OpenFlags::from_bits_truncate(argument as u32));
            Ok(0)
        }
        c::F_GETPIPE_SZ => Ok(pipe_of(file)?.pipe.capacity() as u64),
        c::F_SETPIPE_SZ => Ok(pipe_of(file)?.pipe.set_capacity(argument)? as u64),
        c::F_ADD_SEALS => add_seals(file, argument as u32),
        c::F_GET_SEALS => Ok(seals_of(file)?.load(Ordering::Relaxed).into()),
        c::F_GETLK => get_lock(argument.into()),
        // Record locks are always granted: there is no conflict to report.
        c::F_SETLK | c::F_SETLKW | c::F_OFD_SETLK | c::F_OFD_SETLKW => Ok(0),
        c::F_GETOWN | c::F_GETSIG => Ok(0),
        c::F_SETOWN | c::F_SETSIG => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

fn pipe_of(file: &OpenFile) -> Result<&End> {
    let any: &dyn Any = file.ops();
    any.downcast_ref::<End>().ok_or(Errno::EBADF)
}

fn seals_of(file: &OpenFile) -> Result<&core::sync::atomic::AtomicU32> {
    file.place.inode.seals().ok_or(Errno::EINVAL)
}

fn add_seals(file: &OpenFile, add: u32) -> Result<u64> {
    let known = c::F_SEAL_SEAL
        | c::F_SEAL_SHRINK
        | c::F_SEAL_GROW
        | c::F_SEAL_WRITE
        | c::F_SEAL_FUTURE_WRITE
        | c::F_SEAL_EXEC;
    if !file.writable() {
        return Err(Errno::EPERM);
    }
    if add & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let seals = seals_of(file)?;
    let inode = &file.place.inode;
    // Whoever changes the file asks for the seals under it.
    let _changing = inode.node().change_content()?;
    // Relaxed: the others ask on their own.
    let has = seals.load(Ordering::Relaxed);
    if has & c::F_SEAL_SEAL != 0 {
        return Err(Errno::EPERM);
    }
    // A program that can be run is not to change either.
    let runs = add & c::F_SEAL_EXEC != 0 && inode.node().permits(0o111);
    let whole = c::F_SEAL_SHRINK | c::F_SEAL_GROW | c::F_SEAL_WRITE | c::F_SEAL_FUTURE_WRITE;
    let add = add | if runs { whole } else { 0 };
    // EBUSY while a shared mapping is writable or may become so. From now on none will be.
    if add & c::F_SEAL_WRITE & !has != 0
        && inode.object().is_some_and(|object| !object.seal_writes())
    {
        return Err(Errno::EBUSY);
    }
    seals.fetch_or(add, Ordering::Relaxed);
    Ok(0)
}

/// F_GETLK: there is no lock. l_type is the first field.
fn get_lock(kind: UserPtr<u16>) -> Result<u64> {
    kind.write(&(c::F_UNLCK as u16)).map(|()| 0)
}

/// flock(2).
pub fn flock(task: &Task, fd: Fd, operation: LockOperation) -> Result<u64> {
    let file = usable(task, fd)?;
    let nonblocking = operation.contains(LockOperation::NONBLOCK);
    match (operation - LockOperation::NONBLOCK).bits() {
        c::LOCK_SH => file.lock(false, nonblocking)?,
        c::LOCK_EX => file.lock(true, nonblocking)?,
        c::LOCK_UN => file.unlock(),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// ioctl(2): what all files know, then the file's own. The command says what the argument is.
pub fn ioctl(task: &Task, fd: Fd, command: u32, argument: u64) -> Result<u64> {
    let file = usable(task, fd)?;
    match command {
        FIOCLEX => task.files().set_close_on_exec(fd, true)?,
        FIONCLEX => task.files().set_close_on_exec(fd, false)?,
        FIONBIO => {
            let on: i32 = UserPtr::from(argument).read()?;
            let mut flags = file.flags();
            flags.set(OpenFlags::NONBLOCK, on != 0);
            file.set_flags(flags);
        }
        FIOASYNC => {}
        FIONREAD if file.place.inode.node().kind == FileKind::Regular => {
            let left = file.place.inode.size().saturating_sub(file.position());
            UserPtr::from(argument).write(&(left as i32))?;
        }
        other => return file.ops().ioctl(other, argument),
    }
    Ok(0)
}
