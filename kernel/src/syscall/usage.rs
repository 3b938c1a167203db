//! Resource usage: times(2), getrusage(2).

use super::time::timeval;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::task::{Faults, Task};
use crate::sched::timers;

/// What times(2) counts in: 10 ms.
const TICK: u64 = 10_000_000;

/// times(2): ticks since boot.
pub fn times(task: &Task, into: UserPtr<[u64; 4]>) -> Result<u64> {
    let now = timers::now();
    task.sched.times.leave_kernel();
    let times = task.process().times();
    if let Some(into) = into.given() {
        let words = [
            times.user,
            times.system,
            times.children_user,
            times.children_system,
        ];
        into.write(&words.map(|ns| ns / TICK))?;
    }
    Ok(now / TICK)
}

/// `struct rusage`, in words.
pub type Rusage = [u64; 18];

/// Contents of `struct rusage`; times in ns, the largest resident set in pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceUsage {
    /// Time in user mode.
    pub user: u64,
    /// Time in the kernel.
    pub system: u64,
    /// Largest resident set.
    pub peak_rss: u64,
    /// Page faults.
    pub faults: Faults,
    /// Voluntary and involuntary context switches.
    pub switches: (u64, u64),
}

/// getrusage(2).
pub fn getrusage(task: &Task, who: i32, into: UserPtr<Rusage>) -> Result<u64> {
    task.sched.times.leave_kernel();
    let process = task.process();
    let times = process.times();
    let (faults, children_faults) = process.faults();
    let own = || ResourceUsage {
        user: times.user,
        system: times.system,
        peak_rss: process
            .space
            .with(|space| space.usage().rss.peak)
            .unwrap_or(0),
        faults,
        switches: task.sched.switches(),
    };
    let usage = match who {
        0 => own(),
        1 => ResourceUsage {
            user: task.sched.times.user(),
            system: task.sched.times.system(),
            ..own()
        },
        -1 => ResourceUsage {
            user: times.children_user,
            system: times.children_system,
            peak_rss: process.children_peak_rss(),
            faults: children_faults,
            switches: (0, 0),
        },
        _ => return Err(Errno::EINVAL),
    };
    usage.write(into)?;
    Ok(0)
}

impl ResourceUsage {
    /// As `struct rusage`: user and system time, largest resident set in KiB, three unused, minor
    /// and major faults, swaps, blocks in and out, messages in and out, signals, voluntary and
    /// involuntary switches.
    pub fn write(&self, into: UserPtr<Rusage>) -> Result {
        let (user, system) = (timeval(self.user), timeval(self.system));
        let mut words = [0; 18];
        words[..2].copy_from_slice(&[user.tv_sec as u64, user.tv_usec as u64]);
        words[2..4].copy_from_slice(&[system.tv_sec as u64, system.tv_usec as u64]);
        words[4] = self.peak_rss * 4;
        words[8] = self.faults.minor;
        words[9] = self.faults.major;
        words[16] = self.switches.0;
        words[17] = self.switches.1;
        into.write(&words)
    }
}
