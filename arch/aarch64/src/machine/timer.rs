//! Clock and timer: the generic timer's virtual counter and timer (Arm ARM, D12).

use super::regs;
use core::sync::atomic::{AtomicU64, Ordering};

/// The counter when the kernel started.
static START: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds per tick and ticks per nanosecond, as 32.32 fixed point.
static NS_PER_TICK: AtomicU64 = AtomicU64::new(0);
static TICKS_PER_NS: AtomicU64 = AtomicU64::new(0);

/// CNTV_CTL_EL0.ENABLE; IMASK and ISTATUS stay 0.
const ENABLE: u64 = 1;

fn counter() -> u64 {
    // Without it the counter may be read ahead of earlier instructions.
    regs::isb();
    regs::read!("cntvct_el0")
}

/// Reads the frequency and starts the clock at 0.
pub(crate) fn init() {
    let frequency = regs::read!("cntfrq_el0").max(1);
    NS_PER_TICK.store(
        (u128::from(1_000_000_000u64) << 32).div_ceil(u128::from(frequency)) as u64,
        Ordering::Relaxed,
    );
    TICKS_PER_NS.store(
        ((u128::from(frequency) << 32) / 1_000_000_000) as u64,
        Ordering::Relaxed,
    );
    START.store(counter(), Ordering::Relaxed);
    init_local();
}

/// Prepares this CPU's timer, which is off.
pub(crate) fn init_local() {
    regs::write!("cntv_ctl_el0", 0);
    // EL0 reads the virtual counter (EL0VCTEN), as on Linux; no event stream, no other access.
    regs::write!("cntkctl_el1", 1 << 1);
}

/// `value` times a 32.32 fixed-point factor.
fn scale(value: u64, factor: u64) -> u64 {
    ((u128::from(value) * u128::from(factor)) >> 32) as u64
}

/// Nanoseconds since boot; never goes back. Under -icount shift=0: one per guest instruction, in
/// steps of the counter (1 ns with `-cpu max`, 16 ns with the 62.5 MHz counter of the older
/// models).
pub fn now() -> u64 {
    scale(
        counter() - START.load(Ordering::Relaxed),
        NS_PER_TICK.load(Ordering::Relaxed),
    )
}

/// The raw counter behind [`now`], for differences. It may be read ahead of earlier instructions.
#[inline]
pub fn ticks() -> u64 {
    regs::read!("cntvct_el0")
}

/// Converts a difference of [`ticks`] to nanoseconds.
pub fn ticks_to_ns(ticks: u64) -> u64 {
    scale(ticks, NS_PER_TICK.load(Ordering::Relaxed))
}

/// Sets the deadline: `Irq::Timer` at or soon after `at` (same clock as `now`); `None` for never.
/// Each call replaces the deadline before.
pub fn set_deadline(at: Option<u64>) {
    let Some(at) = at else {
        stop();
        return;
    };
    let delta = scale(
        at.saturating_sub(now()),
        TICKS_PER_NS.load(Ordering::Relaxed),
    );
    // One more tick, so that rounding does not wake early.
    let value = regs::read!("cntvct_el0")
        .saturating_add(delta)
        .saturating_add(1);
    regs::write!("cntv_cval_el0", value);
    regs::write!("cntv_ctl_el0", ENABLE);
    regs::isb();
}

/// Turns the timer off, which also deasserts its interrupt.
pub(crate) fn stop() {
    regs::write!("cntv_ctl_el0", 0);
    regs::isb();
}
