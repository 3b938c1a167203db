//! Interval timers.

use super::time::{read_timeval, write_timeval};
#[cfg(target_arch = "x86_64")]
use crate::base::clock::SECOND;
use crate::base::errno::{Errno, Result};
use crate::process::task::Task;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// setitimer(2). The structure: interval, then value.
pub fn setitimer(task: &Arc<Task>, which: u64, new: u64, old: u64) -> Result<u64> {
    real_only(which)?;
    let (interval, first) = match new {
        0 => (0, 0),
        new => (read_timeval(new)?, read_timeval(new + 16)?),
    };
    let before = task.process().set_real_timer(first, interval);
    if old != 0 {
        write_itimer(old, before)?;
    }
    Ok(0)
}

/// getitimer(2).
pub fn getitimer(task: &Task, which: u64, address: u64) -> Result<u64> {
    real_only(which)?;
    write_itimer(address, task.process().real_timer())?;
    Ok(0)
}

/// Timers of CPU time are not there.
fn real_only(which: u64) -> Result {
    match which as u32 {
        abi::ITIMER_REAL => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

fn write_itimer(address: u64, (left, interval): (u64, u64)) -> Result {
    write_timeval(address, interval)?;
    write_timeval(address + 16, left)
}

/// alarm(2): seconds, rounded up, that were left of the old one.
#[cfg(target_arch = "x86_64")]
pub fn alarm(task: &Task, seconds: u64) -> Result<u64> {
    let (left, _) = task
        .process()
        .set_real_timer(u64::from(seconds as u32) * SECOND, 0);
    Ok(left.div_ceil(SECOND))
}
