//! What this crate and the allocator say to each other. Hosts' allocators do not listen.

use crate::OutOfMemory;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// How many fallible allocations are under way. Relaxed, as all here: a CPU reads what it has written itself.
static REFUSABLE: AtomicU32 = AtomicU32::new(0);
/// The reserve is not whole.
static SHORT: AtomicBool = AtomicBool::new(false);

/// Calls `f`, whose allocations may be refused.
pub(crate) fn refusable<R>(f: impl FnOnce() -> R) -> R {
    REFUSABLE.fetch_add(1, Relaxed);
    let result = f();
    REFUSABLE.fetch_sub(1, Relaxed);
    result
}

/// For the allocator: whether the one who asks can do without, so that the reserve is to be left alone.
pub fn is_refusable() -> bool {
    REFUSABLE.load(Relaxed) != 0
}

/// For the allocator: the reserve is not whole, or whole again.
pub fn set_short(short: bool) {
    SHORT.store(short, Relaxed);
}

/// Whether the reserve is not whole.
#[inline]
pub fn is_short() -> bool {
    SHORT.load(Relaxed)
}

/// Refuses while the reserve is not whole: asked before each of any number of small allocations that cannot fail.
#[inline]
pub fn check() -> Result<(), OutOfMemory> {
    if is_short() { Err(OutOfMemory) } else { Ok(()) }
}
