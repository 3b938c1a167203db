//! `struct timespec` and `struct timeval`; nanosleep(2).

use crate::base::clock::{SECOND, epoch};
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::task::Task;
use crate::sched::timers;
use crate::sched::wait;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;

/// struct timespec.
pub type Timespec = abi::__kernel_timespec;
/// struct timeval.
pub type Timeval = abi::__kernel_old_timeval;

/// Seconds and a fraction below `unit`; EINVAL.
fn checked(seconds: i64, fraction: i64, unit: u64) -> Result<(u64, u64)> {
    if seconds >= 0 && (fraction as u64) < unit {
        Ok((seconds as u64, fraction as u64))
    } else {
        Err(Errno::EINVAL)
    }
}

/// In ns, as long as the clock goes at the most; EINVAL.
pub fn timespec_ns(time: &Timespec) -> Result<u64> {
    let (seconds, ns) = checked(time.tv_sec, time.tv_nsec, SECOND)?;
    Ok(seconds.saturating_mul(SECOND).saturating_add(ns))
}

/// In ns; EINVAL.
pub fn timeval_ns(time: &Timeval) -> Result<u64> {
    let (seconds, us) = checked(time.tv_sec, time.tv_usec, 1_000_000)?;
    Ok(seconds.saturating_mul(SECOND).saturating_add(us * 1000))
}

/// From ns.
pub fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / SECOND) as i64,
        tv_nsec: (ns % SECOND) as i64,
    }
}

/// From ns.
pub fn timeval(ns: u64) -> Timeval {
    Timeval {
        tv_sec: (ns / SECOND) as i64,
        tv_usec: (ns % SECOND / 1000) as i64,
    }
}

/// When a wait of `ns` from now ends. If the running call is repeated because the process was
/// stopped and continued, the end is the one that was set first.
pub fn deadline_in(task: &Task, ns: u64) -> u64 {
    match task.restart_deadline.load(Relaxed) {
        0 => {
            let deadline = timers::now().saturating_add(ns);
            task.restart_deadline.store(deadline, Relaxed);
            deadline
        }
        deadline => deadline,
    }
}

/// The end of a wait with a relative struct timespec; `None` for a null pointer: no end.
pub fn relative_deadline(task: &Task, time: UserPtr<Timespec>) -> Result<Option<u64>> {
    let Some(time) = time.given() else {
        return Ok(None);
    };
    let ns = timespec_ns(&time.read()?)?;
    Ok(Some(deadline_in(task, ns)))
}

/// The end of a wait with an absolute struct timespec; `None` for a null pointer.
pub fn absolute_deadline(time: UserPtr<Timespec>, realtime: bool) -> Result<Option<u64>> {
    let Some(time) = time.given() else {
        return Ok(None);
    };
    let at = timespec_ns(&time.read()?)?;
    Ok(Some(if realtime {
        at.saturating_sub(epoch())
    } else {
        at
    }))
}

/// nanosleep(2).
pub fn nanosleep(
    task: &Task,
    request: UserPtr<Timespec>,
    remaining: UserPtr<Timespec>,
) -> Result<u64> {
    let deadline = deadline_in(task, timespec_ns(&request.read()?)?);
    sleep(deadline, remaining.given())
}

bitflags::bitflags! {
    /// TIMER_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct TimerFlags: u32 {
        /// TIMER_ABSTIME.
        const ABSTIME = abi::TIMER_ABSTIME;
    }
}

super::door::flag_arguments!(TimerFlags: ignored);

/// clock_nanosleep(2).
pub fn clock_nanosleep(
    task: &Task,
    clock: u32,
    flags: TimerFlags,
    request: UserPtr<Timespec>,
    remaining: UserPtr<Timespec>,
) -> Result<u64> {
    let realtime = match clock {
        abi::CLOCK_REALTIME | abi::CLOCK_TAI => true,
        abi::CLOCK_MONOTONIC | abi::CLOCK_BOOTTIME => false,
        abi::CLOCK_THREAD_CPUTIME_ID => return Err(Errno::EINVAL),
        abi::CLOCK_PROCESS_CPUTIME_ID => return Err(Errno::EOPNOTSUPP),
        _ => return Err(Errno::EINVAL),
    };
    if !flags.contains(TimerFlags::ABSTIME) {
        return nanosleep(task, request, remaining);
    }
    let at = timespec_ns(&request.read()?)?;
    sleep(
        if realtime {
            at.saturating_sub(epoch())
        } else {
            at
        },
        None,
    )
}

/// Sleeps; a signal ends it, and the remaining time is written.
fn sleep(deadline: u64, remaining: Option<UserPtr<Timespec>>) -> Result<u64> {
    let result = wait::sleep_until(Some(deadline));
    if let (Err(_), Some(remaining)) = (result, remaining) {
        remaining.write(&timespec(deadline.saturating_sub(timers::now())))?;
    }
    result.map(|()| 0)
}
