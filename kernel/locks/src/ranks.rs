//! The ranks that each CPU holds, for the checks of debug builds.

/// Whether ranks are checked. In the models all threads are one thread of the host: the ranks that
/// it holds mean nothing.
const CHECKED: bool = cfg!(all(debug_assertions, not(any(loom, shuttle))));

/// The number of ranked locks that this CPU (on the host: this thread) holds, in debug builds; 0
/// otherwise. The scheduler asserts 0.
pub fn held() -> usize {
    let mut n = 0;
    ranks(|held| n = held.count());
    n
}

/// Calls `f` with the ranks that this CPU (on the host: this thread) holds, if they are checked.
#[inline(always)]
pub(crate) fn ranks(f: impl FnOnce(&mut Ranks)) {
    if CHECKED {
        cpu::ranks(f);
    }
}

/// A set of ranks, one bit each.
#[derive(Clone, Copy)]
pub(crate) struct Ranks([u64; 4]);

impl Ranks {
    fn highest(&self) -> Option<u8> {
        (0..4)
            .rev()
            .find(|&i| self.0[i] != 0)
            .map(|i| (i as u32 * 64 + 63 - self.0[i].leading_zeros()) as u8)
    }
    pub(crate) fn take(&mut self, rank: u8) {
        if let Some(top) = self.highest() {
            assert!(
                top < rank,
                "lock order: taking rank {rank} while holding rank {top}"
            );
        }
        self.note(rank);
    }
    pub(crate) fn note(&mut self, rank: u8) {
        self.0[rank as usize / 64] |= 1 << (rank % 64);
    }
    pub(crate) fn leave(&mut self, rank: u8) {
        self.0[rank as usize / 64] &= !(1 << (rank % 64));
    }
    fn count(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }
}

#[cfg(not(target_os = "none"))]
mod cpu {
    use super::Ranks;
    std::thread_local! {
        static HELD: core::cell::RefCell<Ranks> = const { core::cell::RefCell::new(Ranks([0; 4])) };
    }
    pub fn ranks(f: impl FnOnce(&mut Ranks)) {
        HELD.with_borrow_mut(f);
    }
    pub fn wait(_rank: u8, done: &mut dyn FnMut() -> bool) -> u64 {
        crate::atomic::look(done)
    }
    /// Threads count as one CPU.
    pub const CPUS: usize = 1;
    /// For the kernel where it is only checked: threads need no such functions.
    pub fn set_cpu(_id: fn() -> usize, _wait: super::Wait) {}
    pub fn cpu_id() -> usize {
        0
    }
}
pub use cpu::set_cpu;
pub(crate) use cpu::{CPUS, cpu_id, wait};

/// How a CPU waits for a lock of a rank, until the function says that it is done. Returns the looks
/// that were in vain.
pub type Wait = fn(u8, &mut dyn FnMut() -> bool) -> u64;

#[cfg(target_os = "none")]
mod cpu {
    use super::{Ranks, Wait};
    use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    /// CPUs whose held ranks and waits are recorded; a CPU past that checks and counts nothing.
    pub const CPUS: usize = 64;
    static HELD: [[AtomicU64; 4]; CPUS] = [const { [const { AtomicU64::new(0) }; 4] }; CPUS];
    static ID: AtomicUsize = AtomicUsize::new(0);
    static WAIT: AtomicUsize = AtomicUsize::new(0);

    /// Sets the function that returns the id of the CPU that runs, for the checks of ranks and the
    /// counts of waits (without it the id is 0), and the one that waits for a lock (without it the
    /// CPU spins). Bare metal only.
    pub fn set_cpu(id: fn() -> usize, wait: Wait) {
        ID.store(id as usize, Ordering::Relaxed);
        WAIT.store(wait as usize, Ordering::Relaxed);
    }
    pub fn wait(rank: u8, done: &mut dyn FnMut() -> bool) -> u64 {
        match WAIT.load(Ordering::Relaxed) {
            0 => crate::atomic::look(done),
            // SAFETY: as in `cpu_id`.
            wait => unsafe { core::mem::transmute::<usize, Wait>(wait)(rank, done) },
        }
    }
    pub fn cpu_id() -> usize {
        match ID.load(Ordering::Relaxed) {
            0 => 0,
            // SAFETY: the word is 0 or was stored from a function of this type by `set_cpu`.
            id => unsafe { core::mem::transmute::<usize, fn() -> usize>(id)() },
        }
    }
    pub fn ranks(f: impl FnOnce(&mut Ranks)) {
        // Only this CPU reads and writes its own words, and nothing interrupts the kernel: plain
        // loads and stores do.
        let Some(words) = HELD.get(cpu_id()) else {
            return;
        };
        let mut ranks = Ranks(core::array::from_fn(|i| words[i].load(Ordering::Relaxed)));
        f(&mut ranks);
        for (word, value) in words.iter().zip(ranks.0) {
            word.store(value, Ordering::Relaxed);
        }
    }
}
