//! The time of day, for timestamps.

use crate::syscall::time::realtime;
use crate::timers;

const SECOND: u64 = 1_000_000_000;

/// Time since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// The rest, in nanoseconds.
    pub nanos: u32,
}

/// Now, by the clock that clock_settime(2) sets.
pub fn now() -> Time {
    let ns = realtime();
    Time {
        seconds: (ns / SECOND) as i64,
        nanos: (ns % SECOND) as u32,
    }
}

/// When the machine was started, in seconds since 1970 (btime of /proc/stat).
pub fn boot_seconds() -> u64 {
    realtime().saturating_sub(timers::now()) / SECOND
}
