//! How often locks were waited for, by rank.
//!
//! Each CPU adds to words of its own: a count costs those that wait for one lock no line that they
//! share. On the host there are threads instead, which add to one set.

use crate::ranks::{CPUS, cpu_id};
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

/// The counts of a CPU, by rank.
#[repr(align(64))]
struct PerCpu([Counts; 256]);

impl PerCpu {
    const fn new() -> Self {
        PerCpu(
            [const {
                Counts {
                    waits: AtomicU64::new(0),
                    spins: AtomicU64::new(0),
                }
            }; 256],
        )
    }
}

static COUNTS: [PerCpu; CPUS] = [const { PerCpu::new() }; CPUS];
/// The sums when counting began anew: who forgets writes no word of another CPU.
static FORGOTTEN: PerCpu = PerCpu::new();

/// Adds to a word of the CPU that runs.
fn add(counter: &AtomicU64, n: u64) {
    if cfg!(target_os = "none") {
        // Only this CPU writes it, and nothing interrupts the kernel.
        counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
    } else {
        counter.fetch_add(n, Relaxed);
    }
}

/// Counts a wait that begins.
pub(crate) fn begin(rank: u8) {
    if let Some(own) = COUNTS.get(cpu_id()) {
        add(&own.0[usize::from(rank)].waits, 1);
    }
}

/// Counts the looks of a wait that has ended.
pub(crate) fn end(rank: u8, spins: u64) {
    if let Some(own) = COUNTS.get(cpu_id()) {
        add(&own.0[usize::from(rank)].spins, spins);
    }
}

impl Contention {
    /// What the waits for the locks of this rank have cost.
    pub fn of(rank: u8) -> Contention {
        let (all, forgotten) = (Self::since_boot(rank), &FORGOTTEN.0[usize::from(rank)]);
        Contention {
            rank,
            waits: all.waits.wrapping_sub(forgotten.waits.load(Relaxed)),
            spins: all.spins.wrapping_sub(forgotten.spins.load(Relaxed)),
        }
    }

    fn since_boot(rank: u8) -> Contention {
        let sum = |count: fn(&Counts) -> &AtomicU64| {
            let each = COUNTS.iter().map(|cpu| &cpu.0[usize::from(rank)]);
            each.fold(0, |sum: u64, of| sum.wrapping_add(count(of).load(Relaxed)))
        };
        Contention {
            rank,
            waits: sum(|of| &of.waits),
            spins: sum(|of| &of.spins),
        }
    }
}

/// The ranks whose locks were waited for.
pub fn contention() -> impl Iterator<Item = Contention> {
    (0..=u8::MAX)
        .map(Contention::of)
        .filter(|counts| counts.waits > 0)
}

/// Counts anew from now on. One caller at a time.
pub fn forget_contention() {
    for (rank, forgotten) in (0..=u8::MAX).zip(&FORGOTTEN.0) {
        let all = Contention::since_boot(rank);
        forgotten.waits.store(all.waits, Relaxed);
        forgotten.spins.store(all.spins, Relaxed);
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
        let of = |rank| contention().find(|counts| counts.rank == rank);
        let found = of(77).unwrap();
        assert_eq!((found.waits, found.spins), (2, 7));
        assert!(of(78).is_none());
        forget_contention();
        assert!(of(77).is_none());
        begin(77);
        end(77, 5);
        let found = of(77).unwrap();
        assert_eq!((found.waits, found.spins), (1, 5));
    }
}
