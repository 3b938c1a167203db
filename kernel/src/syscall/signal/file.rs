//! signalfd4(2).

use super::check_size;
use crate::base::errno::Result;
use crate::base::user_ptr::UserPtr;
use crate::fs::{Fd, OpenFlags};
use crate::process::signal::SigSet;
use crate::process::signalfd as file;
use crate::process::task::Task;
use crate::syscall::door::flag_arguments;
use linux_raw_sys::general as c;

bitflags::bitflags! {
    /// SFD_*, which are open(2)'s bits.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SignalFdFlags: u32 {
        /// SFD_NONBLOCK.
        const NONBLOCK = c::O_NONBLOCK;
        /// SFD_CLOEXEC.
        const CLOEXEC = c::O_CLOEXEC;
    }
}

flag_arguments!(SignalFdFlags: invalid);

/// signalfd4(2): -1 makes a file, another number changes the set of one. EINVAL, EBADF.
pub fn signalfd4(
    task: &Task,
    fd: Fd,
    set: UserPtr<SigSet>,
    size: u64,
    flags: SignalFdFlags,
) -> Result<u64> {
    check_size(size)?;
    let set = set.read()?;
    if fd.0 != -1 {
        file::change(task, fd, set)?;
        return Ok(fd.to_return());
    }
    let nonblock = flags.contains(SignalFdFlags::NONBLOCK);
    let mut open = OpenFlags::empty();
    open.set(OpenFlags::NONBLOCK, nonblock);
    let close_on_exec = flags.contains(SignalFdFlags::CLOEXEC);
    let file = file::open(set, open);
    Ok(task.files().install(file, close_on_exec)?.to_return())
}

/// signalfd(2).
#[cfg(target_arch = "x86_64")]
pub fn signalfd(task: &Task, fd: Fd, set: UserPtr<SigSet>, size: u64) -> Result<u64> {
    signalfd4(task, fd, set, size, SignalFdFlags::empty())
}
