//! What the sizes that a process permits itself trade: the longest fault for the cost of all of
//! them.
use crate::memory::Memory;
use crate::times::{Summary, Times, faults};
use std::fs;
use userland::sys::Result;
use userland::sys::mem::{PAGE, store};

/// The sets that are tried, as [`FILE`] takes them.
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
/// Not a file of Linux.
const FILE: &str = "/proc/self/thp_orders";

/// The set of this process; put back at the end.
pub struct Permit {
    before: String,
}

impl Permit {
    /// Remembers what it is; `None` where processes have no such set.
    pub fn take() -> Option<Permit> {
        let before = fs::read_to_string(FILE).ok()?;
        Some(Permit { before })
    }

    /// The faults of a process with this set that writes one page of memory after the other.
    pub fn touch(&self, set: &str) -> Result<Summary> {
        fs::write(FILE, set)?;
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
}

impl Drop for Permit {
    fn drop(&mut self) {
        if fs::write(FILE, &self.before).is_err() {
            eprintln!("latency: cannot put {FILE} back to {}", self.before);
        }
    }
}
