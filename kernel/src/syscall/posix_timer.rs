//! timer_create(2) and its relatives.

use super::time::{Timespec, timespec, timespec_ns};
use crate::base::clock::epoch;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::posix_timers::{Notice, Times};
use crate::process::signal;
use crate::process::task::{self, Task};
use crate::sched::timers;
use crate::syscall::door::flag_arguments;
use alloc::sync::Arc;
use linux_raw_sys::general as c;

bitflags::bitflags! {
    /// Flags of timer_settime(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SetFlags: u32 {
        /// TIMER_ABSTIME: the first time is one of the clock's, not from now.
        const ABSTIME = c::TIMER_ABSTIME;
    }
}

flag_arguments!(SetFlags: ignored);

/// `struct sigevent`, as far as it is read: value; signal and kind; thread.
pub type SigEvent = [u64; 3];
/// `struct itimerspec`: the interval, then the first time.
pub type TimesPtr = UserPtr<Timespec>;

/// SIGEV_*: THREAD is the C library's, which takes the signal itself.
const SIGEV_SIGNAL: u32 = 0;
const SIGEV_NONE: u32 = 1;
const SIGEV_THREAD: u32 = 2;
const SIGEV_THREAD_ID: u32 = 4;

/// EINVAL: no such signal or kind, or a thread of another process.
fn notice(task: &Task, event: UserPtr<SigEvent>) -> Result<Notice> {
    let Some(event) = event.given() else {
        return Ok(Notice {
            signo: Some(signal::SIGALRM),
            value: None,
            thread: None,
        });
    };
    let [value, signal_and_kind, tid] = event.read()?;
    let (signo, kind) = (signal_and_kind as i32, (signal_and_kind >> 32) as u32);
    let thread = match kind {
        SIGEV_THREAD_ID => {
            let thread = task::find_task(tid as i32).ok_or(Errno::EINVAL)?;
            if !Arc::ptr_eq(thread.process(), task.process()) {
                return Err(Errno::EINVAL);
            }
            Some(Arc::downgrade(&thread))
        }
        SIGEV_SIGNAL | SIGEV_NONE | SIGEV_THREAD => None,
        _ => return Err(Errno::EINVAL),
    };
    let signo = match kind {
        SIGEV_NONE => None,
        _ => Some(signal::check(signo)?),
    };
    Ok(Notice {
        signo,
        value: Some(value),
        thread,
    })
}

/// timer_create(2). EINVAL; EOPNOTSUPP: of a clock of CPU time; EAGAIN, EFAULT.
pub fn timer_create(
    task: &Task,
    clock: u32,
    event: UserPtr<SigEvent>,
    number: UserPtr<i32>,
) -> Result<u64> {
    let realtime = match clock {
        c::CLOCK_REALTIME | c::CLOCK_REALTIME_ALARM | c::CLOCK_TAI => true,
        c::CLOCK_MONOTONIC | c::CLOCK_BOOTTIME | c::CLOCK_BOOTTIME_ALARM => false,
        c::CLOCK_PROCESS_CPUTIME_ID | c::CLOCK_THREAD_CPUTIME_ID => {
            return Err(Errno::EOPNOTSUPP);
        }
        _ => return Err(Errno::EINVAL),
    };
    let process = task.process();
    let made = process.add_timer(realtime, notice(task, event)?)?;
    match number.write(&made) {
        Ok(()) => Ok(0),
        Err(error) => process.delete_timer(made).and(Err(error)),
    }
}

fn write_times(at: TimesPtr, left: Times) -> Result<u64> {
    at.write(&timespec(left.interval))?;
    at.element(1).write(&timespec(left.next)).map(|()| 0)
}

/// timer_settime(2). EINVAL, EFAULT.
pub fn timer_settime(
    task: &Task,
    number: i32,
    flags: SetFlags,
    new: TimesPtr,
    old: TimesPtr,
) -> Result<u64> {
    if new.given().is_none() {
        return Err(Errno::EINVAL);
    }
    let interval = timespec_ns(&new.read()?)?;
    let first = timespec_ns(&new.element(1).read()?)?;
    let timer = task.process().timer(number)?;
    let before = timer.left();
    let next = match (first, flags.contains(SetFlags::ABSTIME)) {
        (0, _) => 0,
        (_, false) => timers::now().saturating_add(first),
        (_, true) if timer.realtime => first.saturating_sub(epoch()).max(1),
        (_, true) => first,
    };
    timer.set(Times { next, interval });
    match old.given() {
        Some(old) => write_times(old, before),
        None => Ok(0),
    }
}

/// timer_gettime(2). EINVAL, EFAULT.
pub fn timer_gettime(task: &Task, number: i32, into: TimesPtr) -> Result<u64> {
    write_times(into, task.process().timer(number)?.left())
}

/// timer_getoverrun(2). EINVAL.
pub fn timer_getoverrun(task: &Task, number: i32) -> Result<u64> {
    Ok(task.process().timer(number)?.overrun() as u64)
}

/// timer_delete(2). EINVAL.
pub fn timer_delete(task: &Task, number: i32) -> Result<u64> {
    task.process().delete_timer(number).map(|()| 0)
}
