//! Clocks, sleeping, timers, CPU time.

use crate::arch::cpu;
use crate::errno::{Errno, Result};
use crate::task::{Process, Task};
use crate::timers;
use crate::uaccess;
use crate::wait;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use linux_raw_sys::general as abi;

const SECOND: u64 = 1_000_000_000;
/// What times(2) counts in: 10 ms.
const TICK: u64 = 10_000_000;

/// REALTIME when MONOTONIC was 0, in ns since 1970; 0: not read yet.
static EPOCH: AtomicU64 = AtomicU64::new(0);

fn epoch() -> u64 {
    if EPOCH.load(Relaxed) == 0 {
        EPOCH.store(
            (cpu::wall_clock() * SECOND)
                .saturating_sub(timers::now())
                .max(1),
            Relaxed,
        );
    }
    EPOCH.load(Relaxed)
}

/// Nanoseconds since 1970, for file times too.
pub fn realtime() -> u64 {
    epoch() + timers::now()
}

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

fn timeval(ns: u64) -> [u64; 2] {
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

fn cpu_time(process: &Process) -> u64 {
    let times = process.times();
    times.user + times.system
}

/// clock_gettime(2).
pub fn clock_gettime(task: &Task, clock: u64, address: u64) -> Result<u64> {
    let now = timers::now();
    let value = match clock as u32 {
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
            task.times.leave_kernel(now);
            cpu_time(task.process())
        }
        abi::CLOCK_THREAD_CPUTIME_ID => {
            task.times.leave_kernel(now);
            task.times.user() + task.times.system()
        }
        other => cpu_clock(other as i32)?,
    };
    write_timespec(address, value)?;
    Ok(0)
}

/// The CPU-time clock of another process, clock_getcpuclockid(3): the complement of its number, then the kind (2) in
/// three bits.
fn cpu_clock(clock: i32) -> Result<u64> {
    const SCHED: i32 = 2;
    if clock >= 0 || clock & 7 != SCHED {
        return Err(Errno::EINVAL);
    }
    match !(clock >> 3) {
        0 => Ok(cpu_time(crate::task::current().process())),
        pid => crate::task::find(pid)
            .map(|process| cpu_time(&process))
            .ok_or(Errno::EINVAL),
    }
}

/// clock_getres(2).
pub fn clock_getres(clock: u64, address: u64) -> Result<u64> {
    if clock as u32 > abi::CLOCK_TAI && (clock as i32) >= 0 {
        return Err(Errno::EINVAL);
    }
    if address != 0 {
        write_timespec(address, 1)?;
    }
    Ok(0)
}

/// clock_settime(2): only REALTIME can be set.
pub fn clock_settime(clock: u64, address: u64) -> Result<u64> {
    if clock as u32 != abi::CLOCK_REALTIME {
        return Err(Errno::EINVAL);
    }
    set_realtime(read_timespec(address)?)
}

/// The latest time that can be set, as in Linux: 30 years before the nanoseconds no longer fit in 63 bits.
const LATEST: u64 = i64::MAX as u64 - 30 * 365 * 24 * 3600 * SECOND;

fn set_realtime(ns: u64) -> Result<u64> {
    let epoch = ns.checked_sub(timers::now());
    let epoch = epoch.filter(|epoch| *epoch > 0 && ns <= LATEST);
    EPOCH.store(epoch.ok_or(Errno::EINVAL)?, Relaxed);
    Ok(0)
}

/// gettimeofday(2).
pub fn gettimeofday(time: u64, zone: u64) -> Result<u64> {
    if time != 0 {
        write_timeval(time, realtime())?;
    }
    if zone != 0 {
        uaccess::write(zone, &[0u32; 2])?;
    }
    Ok(0)
}

/// settimeofday(2); time zones are not kept.
pub fn settimeofday(time: u64, _zone: u64) -> Result<u64> {
    if time == 0 {
        Ok(0)
    } else {
        set_realtime(read_timeval(time)?)
    }
}

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

/// times(2): ticks since boot.
pub fn times(task: &Task, address: u64) -> Result<u64> {
    let now = timers::now();
    task.times.leave_kernel(now);
    let times = task.process().times();
    if address != 0 {
        let words = [
            times.user,
            times.system,
            times.children_user,
            times.children_system,
        ];
        uaccess::write(address, &words.map(|ns| ns / TICK))?;
    }
    Ok(now / TICK)
}

/// What `struct rusage` tells; times in ns, the largest resident set in pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Time in user mode.
    pub user: u64,
    /// Time in the kernel.
    pub system: u64,
    /// Largest resident set.
    pub peak_rss: u64,
    /// Page faults, all minor.
    pub faults: u64,
    /// Voluntary and involuntary context switches.
    pub switches: (u64, u64),
}

/// getrusage(2).
pub fn getrusage(task: &Task, who: u64, address: u64) -> Result<u64> {
    task.times.leave_kernel(timers::now());
    let process = task.process();
    let times = process.times();
    let (faults, children_faults) = process.faults();
    let own = || Usage {
        user: times.user,
        system: times.system,
        peak_rss: process
            .with_space(|space| space.usage().peak_rss)
            .unwrap_or(0),
        faults,
        switches: task.switches(),
    };
    let usage = match who as i32 {
        0 => own(),
        1 => Usage {
            user: task.times.user(),
            system: task.times.system(),
            ..own()
        },
        -1 => Usage {
            user: times.children_user,
            system: times.children_system,
            peak_rss: process.children_peak_rss(),
            faults: children_faults,
            switches: (0, 0),
        },
        _ => return Err(Errno::EINVAL),
    };
    usage.write(address)?;
    Ok(0)
}

impl Usage {
    /// As `struct rusage`: user and system time, largest resident set in KiB, three unused, minor and major faults,
    /// swaps, blocks in and out, messages in and out, signals, voluntary and involuntary switches.
    pub fn write(&self, address: u64) -> Result {
        let mut words = [0; 18];
        words[..2].copy_from_slice(&timeval(self.user));
        words[2..4].copy_from_slice(&timeval(self.system));
        words[4] = self.peak_rss * 4;
        words[8] = self.faults;
        words[16] = self.switches.0;
        words[17] = self.switches.1;
        uaccess::write(address, &words)
    }
}
