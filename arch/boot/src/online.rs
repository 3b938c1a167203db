//! The CPUs that run, as a mask, and how many may.

use crate::cpus::NR_CPUS;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

const _: () = assert!(NR_CPUS <= 64, "a bit for each CPU");

/// CPUs that run the kernel, by number; the boot CPU does from the start.
static RUN: AtomicU64 = AtomicU64::new(1);
/// Numbers that CPUs may get.
static COUNT: AtomicUsize = AtomicUsize::new(1);

/// Interrupts from one CPU to another, and flushes of one CPU's TLB that another one has asked for.
static SENT: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Counts an interrupt from one CPU to another.
pub fn count_interrupt() {
    SENT[0].fetch_add(1, Relaxed);
}

/// Counts a flush that one CPU asks another one for.
pub fn count_flush() {
    SENT[1].fetch_add(1, Relaxed);
}

/// Interrupts from one CPU to another since boot.
pub fn interrupts() -> u64 {
    SENT[0].load(Relaxed)
}

/// Flushes that one CPU has asked another one for since boot; none where the hardware tells all.
pub fn flushes() -> u64 {
    SENT[1].load(Relaxed)
}

/// The CPU of this number, which is the running one, answers requests from now on.
pub fn come(number: usize) {
    RUN.fetch_or(1 << number, AcqRel);
}

/// Whether other CPUs run.
#[inline]
pub fn several() -> bool {
    RUN.load(Relaxed) != 1
}

/// The CPUs that run, without `own`, by number.
pub fn others(own: usize) -> impl Iterator<Item = usize> {
    let mut left = RUN.load(Acquire) & !(1 << own);
    core::iter::from_fn(move || {
        let number = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (number < NR_CPUS).then_some(number)
    })
}

/// CPUs that may have a number.
pub fn count() -> usize {
    COUNT.load(Relaxed)
}

/// Sets how many CPUs the firmware has listed. Called once, before the memory manager is made.
pub fn list(count: usize) {
    COUNT.store(count.clamp(1, NR_CPUS), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test: the state is global.
    #[test]
    fn cpus_come() {
        assert!(!several());
        assert_eq!(others(0).count(), 0);
        come(3);
        come(63);
        assert!(several());
        assert_eq!(others(0).collect::<std::vec::Vec<_>>(), [3, 63]);
        assert_eq!(others(3).collect::<std::vec::Vec<_>>(), [0, 63]);
        list(0);
        assert_eq!(count(), 1);
        list(100);
        assert_eq!(count(), NR_CPUS);
    }
}
