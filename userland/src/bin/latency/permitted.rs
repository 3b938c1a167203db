//! What the sizes that a process permits itself trade: the longest fault for the cost of all of
//! them.
use crate::memory::Memory;
use crate::times::{Summary, Times, faults};
use userland::switch::Switch;
use userland::sys::Result;
use userland::sys::mem::{PAGE, store};

/// The sets that are tried, as the file takes them.
pub const SETS: [&str; 6] = [
    "none",
    "16kB",
    "16kB-64kB",
    "16kB-256kB",
    "16kB-1024kB",
    "all",
];
/// MiB that are written to.
pub const SIZE: usize = 64;
/// The set of this process; put back at the end. Not a file of Linux.
pub fn permit() -> Option<Switch> {
    Switch::at("/proc/self/thp_orders".into())
}

/// The faults of a process with this set that writes one page of memory after the other.
pub fn touch(permit: &Switch, set: &str) -> Result<Summary> {
    permit.set(set)?;
    let memory = Memory::map(SIZE)?;
    let mut times = Times::new((SIZE << 20) / PAGE);
    times.warm()?;
    let mut before = faults()?;
    for page in memory.each(PAGE >> 10) {
        let ((), time) = Times::of(|| store(page, 1));
        let after = faults()?;
        if after > before {
            times.keep(time)?;
        }
        before = after;
    }
    let summary = times.summary()?;
    Ok(Summary {
        faults: summary.samples as u64,
        ..summary
    })
}
