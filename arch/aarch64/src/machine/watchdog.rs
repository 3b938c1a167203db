//! The Raspberry Pi's watchdog, by which it also restarts and powers off (the firmware reads the
//! reason after the reset).

use super::mmio::Mmio;
use core::sync::atomic::{AtomicU64, Ordering};
use mm::addr::PhysRange;

const RSTC: u64 = 0x1c;
const RSTS: u64 = 0x20;
const WDOG: u64 = 0x24;
/// The password that every write carries.
const PASSWORD: u32 = 0x5a00_0000;
const RSTC_MODE: u32 = 0x30;
const RSTC_FULL_RESET: u32 = 0x20;
/// The partition to start from, in every second bit; 63 is a halt.
const RSTS_PARTITION: u32 = 0x555;
/// The time to the reset, in 1/65536 s.
const TICKS: u32 = 10;

/// Physical address of the power manager's registers, 0 for none.
static BASE: AtomicU64 = AtomicU64::new(0);

/// Sets the registers' address from the board's description.
pub(crate) fn init(window: Option<PhysRange>) {
    BASE.store(window.map_or(0, |w| w.start.0), Ordering::Relaxed);
}

/// Resets the machine shortly; with `off` the firmware then halts. Does nothing without a watchdog.
pub(crate) fn reset(off: bool) {
    let base = BASE.load(Ordering::Relaxed);
    if base == 0 {
        return;
    }
    let power = Mmio::new(base);
    let partition = if off { RSTS_PARTITION } else { 0 };
    power.write(
        RSTS,
        PASSWORD | power.read(RSTS) & !RSTS_PARTITION & 0xfff | partition,
    );
    power.write(WDOG, PASSWORD | TICKS);
    let mode = power.read(RSTC) & 0x00ff_ffff & !RSTC_MODE;
    power.write(RSTC, PASSWORD | mode | RSTC_FULL_RESET);
}
