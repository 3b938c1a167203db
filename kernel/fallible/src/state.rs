//! State shared by this crate and the kernel's allocator. Hosts' allocators do not read it.

use crate::OutOfMemory;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// What is written at each fallible allocation, on a cache line of its own: the others are read by
/// all, and hardly ever written.
#[repr(align(64))]
struct Busy(AtomicU32);

/// Number of fallible allocations in progress. Relaxed, as all here: a CPU reads its own writes.
static REFUSABLE: Busy = Busy(AtomicU32::new(0));
/// The state of the reserve.
static STATE: AtomicU8 = AtomicU8::new(WHOLE);
const WHOLE: u8 = 0;
const SHORT: u8 = 1;
/// It is whole, and calls of [`check`] are counted.
const COUNTING: u8 = 2;
static CHECKS: AtomicU64 = AtomicU64::new(0);

/// Calls `f`; its allocations may be refused.
pub(crate) fn refusable<R>(f: impl FnOnce() -> R) -> R {
    REFUSABLE.0.fetch_add(1, Relaxed);
    let result = f();
    REFUSABLE.0.fetch_sub(1, Relaxed);
    result
}

/// For the allocator: whether the allocation may be refused, so that it must not use the reserve.
pub fn is_refusable() -> bool {
    REFUSABLE.0.load(Relaxed) != 0
}

/// For the allocator: the reserve is not whole, or whole again.
pub fn set_short(short: bool) {
    STATE.store(if short { SHORT } else { WHOLE }, Relaxed);
}

/// For an instrument: the reserve is whole, and from now on calls of [`check`] are counted, until
/// [`set_short`].
pub fn count_checks() {
    STATE.store(COUNTING, Relaxed);
}

/// How many calls of [`check`] were counted.
pub fn checks() -> u64 {
    CHECKS.load(Relaxed)
}

/// Whether the reserve is not whole.
#[inline]
pub fn is_short() -> bool {
    STATE.load(Relaxed) == SHORT
}

/// Fails while the reserve is not whole. Called before each of an unbounded number of small
/// allocations that cannot fail.
#[inline]
pub fn check() -> Result<(), OutOfMemory> {
    match STATE.load(Relaxed) {
        WHOLE => Ok(()),
        state => unusual(state),
    }
}

#[cold]
fn unusual(state: u8) -> Result<(), OutOfMemory> {
    CHECKS.fetch_add(1, Relaxed);
    match state {
        SHORT => Err(OutOfMemory),
        _ => Ok(()),
    }
}
