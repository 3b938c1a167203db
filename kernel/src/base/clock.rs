//! The time of day: the machine's clock, read once, and the time since boot.

use crate::arch::{cpu, timer};
use crate::base::errno::{Errno, Result};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// In ns.
pub const SECOND: u64 = 1_000_000_000;
/// The latest time that can be set, as in Linux: 30 years before the nanoseconds no longer fit in
/// 63 bits.
const LATEST: u64 = i64::MAX as u64 - 30 * 365 * 24 * 3600 * SECOND;

/// REALTIME when MONOTONIC was 0, in ns since 1970; 0: not read yet.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// When the machine was started, in ns since 1970: read from its clock at the first use, by CPU 0
/// when it makes the root directory.
pub fn epoch() -> u64 {
    if EPOCH.load(Relaxed) == 0 {
        EPOCH.store(
            (cpu::wall_clock() * SECOND)
                .saturating_sub(timer::now())
                .max(1),
            Relaxed,
        );
    }
    EPOCH.load(Relaxed)
}

/// Nanoseconds since 1970, for file times too.
pub fn realtime() -> u64 {
    epoch() + timer::now()
}

/// Sets the time of day, in ns since 1970; EINVAL before the boot or after [`LATEST`].
pub fn set_realtime(ns: u64) -> Result {
    let epoch = ns.checked_sub(timer::now());
    let epoch = epoch.filter(|epoch| *epoch > 0 && ns <= LATEST);
    EPOCH.store(epoch.ok_or(Errno::EINVAL)?, Relaxed);
    Ok(())
}
