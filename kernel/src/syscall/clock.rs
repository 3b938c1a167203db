//! Clocks: clock_gettime(2), gettimeofday(2) and their relatives.

use super::time::{Timespec, Timeval, timespec, timespec_ns, timeval, timeval_ns};
use crate::base::clock::{epoch, realtime, set_realtime};
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::task::{Process, Task};
use crate::sched::timers;
use linux_raw_sys::general as abi;

fn cpu_time(process: &Process) -> u64 {
    let times = process.times();
    times.user + times.system
}

/// clock_gettime(2).
pub fn clock_gettime(task: &Task, clock: u32, into: UserPtr<Timespec>) -> Result<u64> {
    let now = timers::now();
    let value = match clock {
        abi::CLOCK_MONOTONIC
        | abi::CLOCK_MONOTONIC_RAW
        | abi::CLOCK_MONOTONIC_COARSE
        | abi::CLOCK_BOOTTIME
        | abi::CLOCK_BOOTTIME_ALARM => now,
        abi::CLOCK_REALTIME
        | abi::CLOCK_REALTIME_COARSE
        | abi::CLOCK_REALTIME_ALARM
        | abi::CLOCK_TAI => epoch() + now,
        abi::CLOCK_PROCESS_CPUTIME_ID => {
            task.sched.times.leave_kernel();
            cpu_time(task.process())
        }
        abi::CLOCK_THREAD_CPUTIME_ID => {
            task.sched.times.leave_kernel();
            task.sched.times.user() + task.sched.times.system()
        }
        other => cpu_clock(other as i32)?,
    };
    into.write(&timespec(value))?;
    Ok(0)
}

/// The CPU-time clock of another process, clock_getcpuclockid(3): the complement of its number,
/// then the kind (2) in three bits.
fn cpu_clock(clock: i32) -> Result<u64> {
    const SCHED: i32 = 2;
    if clock >= 0 || clock & 7 != SCHED {
        return Err(Errno::EINVAL);
    }
    match !(clock >> 3) {
        0 => Ok(cpu_time(crate::process::task::current().process())),
        pid => crate::process::task::find(pid)
            .map(|process| cpu_time(&process))
            .ok_or(Errno::EINVAL),
    }
}

/// clock_getres(2).
pub fn clock_getres(clock: u32, into: UserPtr<Timespec>) -> Result<u64> {
    if clock > abi::CLOCK_TAI && (clock as i32) >= 0 {
        return Err(Errno::EINVAL);
    }
    if let Some(into) = into.given() {
        into.write(&timespec(1))?;
    }
    Ok(0)
}

/// clock_settime(2): only REALTIME can be set.
pub fn clock_settime(clock: u32, time: UserPtr<Timespec>) -> Result<u64> {
    if clock != abi::CLOCK_REALTIME {
        return Err(Errno::EINVAL);
    }
    set_realtime(timespec_ns(&time.read()?)?).map(|()| 0)
}

/// gettimeofday(2).
pub fn gettimeofday(time: UserPtr<Timeval>, zone: UserPtr<[u32; 2]>) -> Result<u64> {
    if let Some(time) = time.given() {
        time.write(&timeval(realtime()))?;
    }
    if let Some(zone) = zone.given() {
        zone.write(&[0; 2])?;
    }
    Ok(0)
}

/// settimeofday(2); time zones are not kept.
pub fn settimeofday(time: UserPtr<Timeval>) -> Result<u64> {
    match time.given() {
        Some(time) => set_realtime(timeval_ns(&time.read()?)?).map(|()| 0),
        None => Ok(0),
    }
}
