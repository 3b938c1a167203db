//! How long a CPU has waited for another one, or not heard of it, in time in which it ran itself: a
//! machine that was stopped, or had no CPU of its host, has not hung.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How long a CPU may take to answer, in ns of the one that waits.
pub const LONGEST: u64 = 20_000_000_000;
/// Looks between two looks at the clock.
const LOOKS: u64 = 1024;
/// The most that counts between two looks at the clock of a CPU that spins, in ns: it may have lost
/// its CPU of the host meanwhile.
const SPUN: u64 = 20_000_000;

/// What a CPU counts; only that CPU writes it.
#[derive(Debug, Default)]
pub struct Waited {
    /// When it looked at the clock last, in ns since boot.
    last: AtomicU64,
    /// Nanoseconds that count.
    counted: AtomicU64,
}

impl Waited {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            last: AtomicU64::new(0),
            counted: AtomicU64::new(0),
        }
    }

    /// Begins anew at `now`, in ns since boot.
    pub fn begin(&self, now: u64) {
        self.last.store(now, Relaxed);
        self.counted.store(0, Relaxed);
    }

    /// Counts what has passed since the last time, `most` ns at the most; returns what has been
    /// counted since the beginning, in ns.
    pub fn add(&self, now: u64, most: u64) -> u64 {
        let passed = now.saturating_sub(self.last.load(Relaxed));
        self.last.store(now, Relaxed);
        let counted = self.counted.load(Relaxed) + passed.min(most);
        self.counted.store(counted, Relaxed);
        counted
    }

    /// Between two looks of a CPU that spins; `looks` came before, none at the beginning. Returns
    /// what has been counted, in ns, when this was a look at the clock `now`.
    #[inline]
    pub fn spin(&self, looks: u64, now: impl FnOnce() -> u64) -> Option<u64> {
        match looks {
            0 => self.begin(now()),
            looks if looks.is_multiple_of(LOOKS) => return Some(self.add(now(), SPUN)),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_counts_for_little() {
        let waited = Waited::new();
        waited.begin(1000);
        assert_eq!(waited.add(2000, SPUN), 1000);
        assert_eq!(waited.add(2000 + 60_000_000_000, SPUN), 1000 + SPUN);
        assert_eq!(waited.add(5, SPUN), 1000 + SPUN, "a clock that goes back");
        assert_eq!(waited.add(15, SPUN), 1010 + SPUN);
    }

    #[test]
    fn one_that_spins_for_long_is_found() {
        let waited = Waited::new();
        let mut clock = 7;
        let mut looks = 0;
        // Each look takes 10 us.
        while waited.spin(looks, || clock).is_none_or(|ns| ns <= LONGEST) {
            looks += 1;
            clock += 10_000;
        }
        assert_eq!(looks, LONGEST.div_ceil(10_000).next_multiple_of(LOOKS));
        waited.spin(0, || clock);
        assert_eq!(waited.spin(LOOKS, || clock + 3), Some(3), "it began anew");
    }
}
