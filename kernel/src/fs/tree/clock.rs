//! The time of day, for timestamps.

use crate::base::clock::{SECOND, epoch, realtime};

/// Time since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// The rest, in nanoseconds.
    pub nanos: u32,
}

/// Now, by CLOCK_REALTIME.
pub fn now() -> Time {
    let nanos = realtime();
    Time {
        seconds: (nanos / SECOND) as i64,
        nanos: (nanos % SECOND) as u32,
    }
}

/// When the machine was started, in seconds since 1970 (btime of /proc/stat).
pub fn boot_seconds() -> u64 {
    epoch() / SECOND
}
