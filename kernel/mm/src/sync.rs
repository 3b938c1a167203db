//! The only room that names atomics; the ranks of the locks, which are the crate `locks`.

#[cfg(not(any(loom, shuttle)))]
pub use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(shuttle)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// A hint, which no model is about.
pub use core::sync::atomic::AtomicU32 as HintU32;
pub use locks::{
    Apart, BitGuard, Guard, Lock, ReadGuard, Reader, Shape, Turns, WriteGuard, held, panicking,
};
pub use own::AccountWords;

/// Ranks of the locks from 200 on; the kernel's own lie in 100..200. See the crate's first page for
/// what each covers.
#[expect(
    missing_docs,
    reason = "a table on the crate's first page says what each covers"
)]
pub mod rank {
    locks::named_ranks! {
        pub const SPACE: u8 = 200;
        pub const NODE: u8 = 205;
        pub const MAPPERS: u8 = 208;
        pub const OBJECT: u8 = 210;
        pub const HUGETLB: u8 = 215;
        pub const SLOTS: u8 = 216;
        pub const STORE: u8 = 217;
        pub const BENCHES: u8 = 218;
        pub const ASID: u8 = 220;
        pub const MM_ID: u8 = 221;
        pub const SPACES: u8 = 222;
        pub const HEAP: u8 = 230;
        pub const KERNEL_SPACE: u8 = 235;
        pub const HUGE_ZERO: u8 = 236;
        pub const DEFERRED: u8 = 237;
        pub const LONG_TERM: u8 = 238;
        pub const ZONE: u8 = 240;
        pub const THP: u8 = 245;
        pub const CONSOLE: u8 = 250;
    }
}

/// Adds `n` to a counter that only this CPU writes, and nothing interrupts it: no read-modify-write
/// is needed.
#[inline]
pub fn add_own(counter: &AtomicU64, n: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(n);
    counter.store(sum, Ordering::Relaxed);
}
