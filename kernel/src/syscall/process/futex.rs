//! futex(2).

use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::futex::{self, Word};
use crate::process::robust;
use crate::process::task::{self, Pid, Task};
use crate::syscall::time::{self, Timespec};
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;

bitflags::bitflags! {
    /// FUTEX_*: what an operation's number has besides the command.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Operation: u32 {
        /// FUTEX_PRIVATE_FLAG: the word is in memory of this process alone.
        const PRIVATE = abi::FUTEX_PRIVATE_FLAG;
        /// FUTEX_CLOCK_REALTIME: an absolute time is of that clock.
        const CLOCK_REALTIME = abi::FUTEX_CLOCK_REALTIME;
    }
}

crate::syscall::door::flag_arguments!(Operation: kept);

/// futex(2). `time` is a second count for commands without a time-out.
pub fn futex(
    task: &Task,
    at: UserPtr<u32>,
    operation: Operation,
    value: u32,
    time: UserPtr<Timespec>,
    other: UserPtr<u32>,
    value3: u32,
) -> Result<u64> {
    let command = operation.difference(Operation::all()).bits();
    let private = operation.contains(Operation::PRIVATE);
    let realtime = operation.contains(Operation::CLOCK_REALTIME);
    let (word, other) = (Word { at, private }, Word { at: other, private });
    let count = time.address() as u32;
    // Only this call of those here takes a time of either clock.
    if realtime && command != abi::FUTEX_WAIT_BITSET {
        return Err(Errno::ENOSYS);
    }
    match command {
        abi::FUTEX_WAIT => {
            let deadline = time::relative_deadline(task, time)?;
            futex::wait(word, value, u32::MAX, deadline).map(|()| 0)
        }
        abi::FUTEX_WAIT_BITSET => {
            let deadline = time::absolute_deadline(time, realtime)?;
            futex::wait(word, value, value3, deadline).map(|()| 0)
        }
        abi::FUTEX_WAKE => futex::wake(word, value, u32::MAX),
        abi::FUTEX_WAKE_BITSET => futex::wake(word, value, value3),
        abi::FUTEX_REQUEUE => futex::requeue(word, other, value, count, None),
        abi::FUTEX_CMP_REQUEUE => futex::requeue(word, other, value, count, Some(value3)),
        abi::FUTEX_WAKE_OP => futex::wake_op(word, other, value, count, value3),
        _ => Err(Errno::ENOSYS),
    }
}

/// set_robust_list(2). EINVAL: the size is not that of a head.
pub fn set_robust_list(task: &Task, head: UserPtr<u64>, size: u64) -> Result<u64> {
    if size != robust::HEAD {
        return Err(Errno::EINVAL);
    }
    task.robust_list.store(head.address(), Relaxed);
    Ok(0)
}

/// get_robust_list(2) of a thread, 0 for the caller. ESRCH; EPERM for other users' threads.
pub fn get_robust_list(
    task: &Task,
    tid: Pid,
    head: UserPtr<u64>,
    size: UserPtr<u64>,
) -> Result<u64> {
    let list = match tid {
        0 => task.robust_list.load(Relaxed),
        tid => {
            let other = task::find_task(tid).ok_or(Errno::ESRCH)?;
            let uid = |of: &Task| of.process().credentials(|c| c.uid[0]);
            let own = task.process().credentials(|c| c.uid[1]);
            if own != 0 && own != uid(&other) {
                return Err(Errno::EPERM);
            }
            other.robust_list.load(Relaxed)
        }
    };
    size.write(&robust::HEAD)?;
    head.write(&list)?;
    Ok(0)
}
