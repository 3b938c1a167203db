//! The atomics: the machine's, or in the models loom's or shuttle's.

#[cfg(not(any(loom, shuttle)))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(shuttle)]
pub use shuttle::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Spins until `done`; returns the looks that were in vain.
pub fn look(done: &mut dyn FnMut() -> bool) -> u64 {
    let mut looks = 0;
    while !done() {
        relax();
        looks += 1;
    }
    looks
}

/// The body of a loop that waits for another CPU. A thread of the host lets others run: the one
/// that it waits for may be among them.
fn relax() {
    #[cfg(loom)]
    loom::hint::spin_loop();
    #[cfg(all(not(loom), target_os = "none"))]
    core::hint::spin_loop();
    #[cfg(shuttle)]
    shuttle::hint::spin_loop();
    #[cfg(all(not(any(loom, shuttle)), not(target_os = "none")))]
    std::thread::yield_now();
}
