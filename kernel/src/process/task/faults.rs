//! Page faults that were resolved. A major one has waited for what was stored.

use core::iter::Sum;
use core::ops::Add;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::sync::add_own;

/// Those of a thread, or of all that have ended.
#[derive(Default)]
pub struct FaultCounts {
    all: AtomicU64,
    major: AtomicU64,
}

/// As getrusage(2) tells them: each is either minor or major.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Those that waited for nothing.
    pub minor: u64,
    /// The others.
    pub major: u64,
}

impl FaultCounts {
    /// The running thread: a fault was resolved.
    #[inline]
    pub fn count(&self) {
        add_own(&self.all, 1);
    }
    /// And it was a major one.
    pub fn count_major(&self) {
        add_own(&self.major, 1);
    }
    /// Adds those of others.
    pub fn add(&self, faults: Faults) {
        self.all.fetch_add(faults.minor + faults.major, Relaxed);
        self.major.fetch_add(faults.major, Relaxed);
    }
    /// So many so far.
    pub fn get(&self) -> Faults {
        let major = self.major.load(Relaxed);
        Faults {
            minor: self.all.load(Relaxed).saturating_sub(major),
            major,
        }
    }
}

impl Add for Faults {
    type Output = Faults;
    fn add(self, other: Faults) -> Faults {
        Faults {
            minor: self.minor + other.minor,
            major: self.major + other.major,
        }
    }
}

impl Sum for Faults {
    fn sum<I: Iterator<Item = Faults>>(all: I) -> Faults {
        all.fold(Faults::default(), Faults::add)
    }
}
