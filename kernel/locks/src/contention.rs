//! How often locks were waited for, by rank.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the waits for the locks of a rank have cost since boot, or since [`forget_contention`].
#[derive(Debug)]
pub struct Contention {
    /// The rank.
    pub rank: u8,
    /// Times that a lock was not open.
    pub waits: u64,
    /// Looks at it until it was.
    pub spins: u64,
}

struct Counts {
    waits: AtomicU64,
    spins: AtomicU64,
}

static COUNTS: [Counts; 256] = [const {
    Counts {
        waits: AtomicU64::new(0),
        spins: AtomicU64::new(0),
    }
}; 256];

/// Counts a wait that begins.
pub(crate) fn begin(rank: u8) {
    COUNTS[usize::from(rank)].waits.fetch_add(1, Relaxed);
}

/// Counts the looks of a wait that has ended.
pub(crate) fn end(rank: u8, spins: u64) {
    COUNTS[usize::from(rank)].spins.fetch_add(spins, Relaxed);
}

impl Contention {
    /// What the waits for the locks of this rank have cost.
    pub fn of(rank: u8) -> Contention {
        let counts = &COUNTS[usize::from(rank)];
        Contention {
            rank,
            waits: counts.waits.load(Relaxed),
            spins: counts.spins.load(Relaxed),
        }
    }
}

/// The ranks whose locks were waited for.
pub fn contention() -> impl Iterator<Item = Contention> {
    (0..=u8::MAX)
        .map(Contention::of)
        .filter(|counts| counts.waits > 0)
}

/// Counts anew from now on.
pub fn forget_contention() {
    for counts in &COUNTS {
        counts.waits.store(0, Relaxed);
        counts.spins.store(0, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_by_rank() {
        for spins in [3, 4] {
            begin(77);
            end(77, spins);
        }
        let found = contention().find(|counts| counts.rank == 77).unwrap();
        assert_eq!((found.waits, found.spins), (2, 7));
        assert!(contention().all(|counts| counts.rank != 78));
        forget_contention();
        assert!(contention().all(|counts| counts.rank != 77));
    }
}
