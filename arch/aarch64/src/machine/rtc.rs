//! The clock: a PL031, where there is one (Arm DDI 0224).

use super::mmio::Mmio;
use core::sync::atomic::{AtomicU64, Ordering};
use mm::addr::PhysRange;

/// Physical address of the PL031, 0 for none.
static RTC: AtomicU64 = AtomicU64::new(0);

/// The registers of the clock that the device tree names.
pub(crate) fn set_rtc(window: Option<PhysRange>) {
    RTC.store(window.map_or(0, |w| w.start.0), Ordering::Relaxed);
}

/// Seconds since 1970 by the machine's clock at this moment, 0 if there is none.
pub fn wall_clock() -> u64 {
    match RTC.load(Ordering::Relaxed) {
        0 => 0,
        // RTCDR, the PL031's first register.
        base => Mmio::new(base).read(0).into(),
    }
}
