//! Times as programs write them, and sleeping.

use crate::base::clock::{SECOND, epoch};
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::process::task::Task;
use crate::sched::timers;
use crate::sched::wait;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;

/// A struct timespec or timeval from the user: two words; the second below `unit`. EINVAL.
fn read_pair(address: u64, unit: u64) -> Result<(u64, u64)> {
    let [seconds, fraction] = uaccess::read::<[u64; 2]>(address)?;
    if seconds as i64 >= 0 && fraction < unit {
        Ok((seconds, fraction))
    } else {
        Err(Errno::EINVAL)
    }
}

/// A struct timespec in ns, as long as the clock goes at the most.
pub fn read_timespec(address: u64) -> Result<u64> {
    let (seconds, ns) = read_pair(address, SECOND)?;
    Ok(seconds.saturating_mul(SECOND).saturating_add(ns))
}

/// A struct timeval in ns.
pub fn read_timeval(address: u64) -> Result<u64> {
    let (seconds, us) = read_pair(address, 1_000_000)?;
    Ok(seconds.saturating_mul(SECOND).saturating_add(us * 1000))
}

/// Writes ns as a struct timespec.
pub fn write_timespec(address: u64, ns: u64) -> Result {
    uaccess::write(address, &[ns / SECOND, ns % SECOND])
}

/// Writes ns as a struct timeval.
pub fn write_timeval(address: u64, ns: u64) -> Result {
    uaccess::write(address, &timeval(ns))
}

/// As a struct timeval: seconds and microseconds.
pub fn timeval(ns: u64) -> [u64; 2] {
    [ns / SECOND, ns % SECOND / 1000]
}

/// When a wait of `ns` from now ends. If the running call is repeated because the process was stopped and went on, the
/// end is the one that was set first.
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
pub fn relative_deadline(task: &Task, address: u64) -> Result<Option<u64>> {
    if address == 0 {
        return Ok(None);
    }
    read_timespec(address).map(|ns| Some(deadline_in(task, ns)))
}

/// The end of a wait with an absolute struct timespec; `None` for a null pointer.
pub fn absolute_deadline(address: u64, realtime: bool) -> Result<Option<u64>> {
    if address == 0 {
        return Ok(None);
    }
    let at = read_timespec(address)?;
    Ok(Some(if realtime {
        at.saturating_sub(epoch())
    } else {
        at
    }))
}

/// nanosleep(2).
pub fn nanosleep(task: &Task, request: u64, remaining: u64) -> Result<u64> {
    let deadline = deadline_in(task, read_timespec(request)?);
    sleep(deadline, remaining)
}

/// clock_nanosleep(2).
pub fn clock_nanosleep(
    task: &Task,
    clock: u64,
    flags: u64,
    request: u64,
    remaining: u64,
) -> Result<u64> {
    let realtime = match clock as u32 {
        abi::CLOCK_REALTIME | abi::CLOCK_TAI => true,
        abi::CLOCK_MONOTONIC | abi::CLOCK_BOOTTIME => false,
        abi::CLOCK_THREAD_CPUTIME_ID => return Err(Errno::EINVAL),
        abi::CLOCK_PROCESS_CPUTIME_ID => return Err(Errno::EOPNOTSUPP),
        _ => return Err(Errno::EINVAL),
    };
    if flags as u32 & abi::TIMER_ABSTIME == 0 {
        return nanosleep(task, request, remaining);
    }
    let at = read_timespec(request)?;
    sleep(
        if realtime {
            at.saturating_sub(epoch())
        } else {
            at
        },
        0,
    )
}

/// Sleeps; a signal ends it, and what remains is told.
fn sleep(deadline: u64, remaining: u64) -> Result<u64> {
    let result = wait::sleep_until(Some(deadline));
    if result.is_err() && remaining != 0 {
        write_timespec(remaining, deadline.saturating_sub(timers::now()))?;
    }
    result.map(|()| 0)
}
