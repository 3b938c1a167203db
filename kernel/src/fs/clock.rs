//! The time of day, for timestamps.

use crate::arch;
use spin::Once;

/// Time since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// The rest, in nanoseconds.
    pub nanos: u32,
}

/// Now. The machine's clock is read once, at the first call; the timer counts from there.
pub fn now() -> Time {
    let nanos = arch::timer::now();
    let seconds = boot_seconds() + nanos / 1_000_000_000;
    Time {
        seconds: seconds as i64,
        nanos: (nanos % 1_000_000_000) as u32,
    }
}

/// When the machine was started, in seconds since 1970 (btime of /proc/stat).
pub fn boot_seconds() -> u64 {
    static BOOT: Once<u64> = Once::new();
    *BOOT.call_once(|| arch::cpu::wall_clock().saturating_sub(arch::timer::now() / 1_000_000_000))
}
