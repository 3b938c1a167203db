//! Interval timers: setitimer(2), getitimer(2), alarm(2).

use super::time::{timeval, timeval_ns};
#[cfg(target_arch = "x86_64")]
use crate::base::clock::SECOND;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::task::{Remaining, Task};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// struct itimerval.
type Itimerval = abi::__kernel_old_itimerval;

/// setitimer(2).
pub fn setitimer(
    task: &Arc<Task>,
    which: u32,
    new: UserPtr<Itimerval>,
    old: UserPtr<Itimerval>,
) -> Result<u64> {
    real_only(which)?;
    let (interval, first) = match new.given() {
        None => (0, 0),
        Some(new) => {
            let new = new.read()?;
            (timeval_ns(&new.it_interval)?, timeval_ns(&new.it_value)?)
        }
    };
    let before = task.process().set_real_timer(first, interval);
    if let Some(old) = old.given() {
        old.write(&itimerval(before))?;
    }
    Ok(0)
}

/// getitimer(2).
pub fn getitimer(task: &Task, which: u32, into: UserPtr<Itimerval>) -> Result<u64> {
    real_only(which)?;
    into.write(&itimerval(task.process().real_timer()))?;
    Ok(0)
}

/// Timers of CPU time are not there.
fn real_only(which: u32) -> Result {
    match which {
        abi::ITIMER_REAL => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

fn itimerval(timer: Remaining) -> Itimerval {
    Itimerval {
        it_interval: timeval(timer.interval),
        it_value: timeval(timer.left),
    }
}

/// alarm(2): seconds, rounded up, that were left of the old one.
#[cfg(target_arch = "x86_64")]
pub fn alarm(task: &Task, seconds: u32) -> Result<u64> {
    let old = task
        .process()
        .set_real_timer(u64::from(seconds) * SECOND, 0);
    Ok(old.left.div_ceil(SECOND))
}
