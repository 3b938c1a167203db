//! A place where all CPUs meet: while they are there nothing changes.

use arch_sim::World;
use mm::arch::PteFormat;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The meetings of so many CPUs.
pub struct Meeting {
    cpus: usize,
    /// CPUs that have come, to this meeting and those before.
    come: AtomicUsize,
    /// CPUs that have seen that all are there, and do nothing more.
    quiet: AtomicUsize,
    /// Meetings that have ended.
    ended: AtomicUsize,
}

impl Meeting {
    pub fn new(cpus: usize) -> Self {
        Meeting {
            cpus,
            come: AtomicUsize::new(0),
            quiet: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        }
    }

    /// Waits for all others; the last one does `work` before they go on.
    pub fn join<F: PteFormat>(&self, world: &World<F>, work: impl FnOnce()) {
        let ended = self.ended.load(Ordering::Acquire);
        let all = (ended + 1) * self.cpus;
        self.come.fetch_add(1, Ordering::AcqRel);
        while self.come.load(Ordering::Acquire) < all {
            // One that is still to come may wait for this CPU.
            world.mm.answer();
            world.mm.drain_if_asked();
            world.sim.relax();
        }
        if self.quiet.fetch_add(1, Ordering::AcqRel) + 1 == all {
            work();
            self.ended.store(ended + 1, Ordering::Release);
        }
        while self.ended.load(Ordering::Acquire) == ended {
            world.sim.relax();
        }
    }
}
