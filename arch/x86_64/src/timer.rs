//! SKELETON: time.
/// Nanoseconds since boot; never goes back. Under -icount shift=0: one per guest instruction.
pub fn now() -> u64 { todo!() }
/// Asks for `Irq::Timer` at or soon after `at` (same clock as `now`); `None` for never. The last call counts.
pub fn set_deadline(_at: Option<u64>) { todo!() }
