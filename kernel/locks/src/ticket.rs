//! A lock that CPUs get in the order in which they ask, and for which they sleep when it takes
//! long: where CPUs share those of a host, the one that has it may not run.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
use core::array;

/// What a CPU does for a [`TicketLock`].
pub trait Wait {
    /// Between two looks at the lock.
    fn relax(&mut self);
    /// Sleeps until [`Self::wake`] is called for this CPU; returns at once if it was called before.
    /// It may return earlier.
    fn sleep(&mut self);
    /// Wakes a CPU.
    fn wake(&mut self, cpu: usize);
}

/// A lock for `CPUS` CPUs.
#[derive(Debug)]
pub struct TicketLock<const CPUS: usize> {
    /// The ticket that the next CPU gets.
    next: AtomicU32,
    /// The ticket of the CPU that has the lock, or may take it.
    serving: AtomicU32,
    /// By CPU, the ticket for whose turn it sleeps, with [`ASLEEP`]; 0: it does not.
    sleepers: [AtomicU64; CPUS],
}

const ASLEEP: u64 = 1 << 32;

impl<const CPUS: usize> TicketLock<CPUS> {
    /// A lock that the caller has.
    #[cfg(not(loom))]
    pub const fn taken() -> Self {
        Self {
            next: AtomicU32::new(1),
            serving: AtomicU32::new(0),
            sleepers: [const { AtomicU64::new(0) }; CPUS],
        }
    }
    /// A lock that the caller has (loom's atomics have no constant constructor).
    #[cfg(loom)]
    pub fn taken() -> Self {
        Self {
            next: AtomicU32::new(1),
            serving: AtomicU32::new(0),
            sleepers: array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Takes the lock, on CPU `cpu`, which looks at it `spins` times before it sleeps.
    pub fn take(&self, cpu: usize, spins: u32, wait: &mut impl Wait) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        for _ in 0..spins {
            // Acquire pairs with the store in `give`: what the holder before wrote is seen.
            if self.serving.load(Ordering::Acquire) == ticket {
                return;
            }
            wait.relax();
        }
        self.sleepers[cpu].store(ASLEEP | u64::from(ticket), Ordering::Relaxed);
        // Pairs with the one in `give`: either that sees the sleeper, or this sees its turn.
        fence(Ordering::SeqCst);
        while self.serving.load(Ordering::Acquire) != ticket {
            wait.sleep();
        }
        self.sleepers[cpu].store(0, Ordering::Relaxed);
    }

    /// Gives the lock up, to the CPU that has asked first.
    pub fn give(&self, wait: &mut impl Wait) {
        // Relaxed: only the holder writes it.
        let next = self.serving.load(Ordering::Relaxed).wrapping_add(1);
        self.serving.store(next, Ordering::Release);
        fence(Ordering::SeqCst);
        if next == self.next.load(Ordering::Relaxed) {
            return;
        }
        let asleep = ASLEEP | u64::from(next);
        let is_it = |sleeper: &AtomicU64| sleeper.load(Ordering::Relaxed) == asleep;
        if let Some(cpu) = self.sleepers.iter().position(is_it) {
            wait.wake(cpu);
        }
    }

    /// Whether other CPUs wait for it; asked by the one that has it.
    pub fn is_wanted(&self) -> bool {
        let (next, serving) = (
            self.next.load(Ordering::Relaxed),
            self.serving.load(Ordering::Relaxed),
        );
        next.wrapping_sub(serving) > 1
    }
}
