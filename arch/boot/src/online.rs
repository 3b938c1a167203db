//! The CPUs that run, as a mask, and how many may.

use crate::cpus::NR_CPUS;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

const _: () = assert!(NR_CPUS <= 64, "a bit for each CPU");

/// What all CPUs read and hardly anybody writes, on a cache line of its own.
#[repr(align(64))]
struct Known {
    /// CPUs that run the kernel, by number; the boot CPU does from the start.
    run: AtomicU64,
    /// Numbers that CPUs may get.
    count: AtomicUsize,
}

static KNOWN: Known = Known {
    run: AtomicU64::new(1),
    count: AtomicUsize::new(1),
};

/// What one CPU has sent to others: written by that CPU alone, which nothing interrupts.
#[repr(align(64))]
struct Sent {
    interrupts: AtomicU64,
    flushes: AtomicU64,
}

static SENT: [Sent; NR_CPUS] = [const {
    Sent {
        interrupts: AtomicU64::new(0),
        flushes: AtomicU64::new(0),
    }
}; NR_CPUS];

fn sum(count: fn(&Sent) -> &AtomicU64) -> u64 {
    SENT.iter().map(|sent| count(sent).load(Relaxed)).sum()
}

/// Adds one without a read-modify-write.
fn add_one(own: &AtomicU64) {
    own.store(own.load(Relaxed) + 1, Relaxed);
}

/// Counts an interrupt from `own`, the CPU that runs, unless it is to itself.
pub fn count_interrupt(own: usize, to: usize) {
    if own != to {
        add_one(&SENT[own].interrupts);
    }
}

/// Counts a flush that another CPU is asked for; `own` is the one that runs.
pub fn count_flush(own: usize) {
    add_one(&SENT[own].flushes);
}

/// Interrupts from one CPU to another since boot.
pub fn interrupts() -> u64 {
    sum(|sent| &sent.interrupts)
}

/// Flushes that one CPU has asked another one for since boot; none where the hardware tells all.
pub fn flushes() -> u64 {
    sum(|sent| &sent.flushes)
}

/// The CPU of this number, which is the running one, answers requests from now on.
pub fn come(number: usize) {
    KNOWN.run.fetch_or(1 << number, AcqRel);
}

/// Whether other CPUs run.
#[inline]
pub fn several() -> bool {
    KNOWN.run.load(Relaxed) != 1
}

/// The CPUs that run, without `own`, by number.
pub fn others(own: usize) -> impl Iterator<Item = usize> {
    let mut left = KNOWN.run.load(Acquire) & !(1 << own);
    core::iter::from_fn(move || {
        let number = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (number < NR_CPUS).then_some(number)
    })
}

/// CPUs that may have a number.
pub fn count() -> usize {
    KNOWN.count.load(Relaxed)
}

/// Sets how many CPUs the firmware has listed. Called once, before the memory manager is made.
pub fn list(count: usize) {
    KNOWN.count.store(count.clamp(1, NR_CPUS), Relaxed);
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
        for own in [0, 3, 63] {
            count_interrupt(own, 1);
            count_interrupt(own, own);
            count_flush(3);
        }
        count_interrupt(3, 0);
        assert_eq!((interrupts(), flushes()), (4, 3));
        list(0);
        assert_eq!(count(), 1);
        list(100);
        assert_eq!(count(), NR_CPUS);
    }
}
