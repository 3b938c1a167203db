//! CPU time, counted where threads cross between user mode, the kernel and each other.

use crate::arch::timer;
use crate::base::stretch::{self, Reason};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// CPU time of one thread, in ticks of the machine's clock: each trap counts, and only a reader
/// converts. Only its own CPU writes it.
pub struct Times {
    user: AtomicU64,
    system: AtomicU64,
    /// When time was last attributed.
    stamp: AtomicU64,
    /// Why it is in the kernel: a [`Reason`].
    reason: AtomicU32,
}

impl Times {
    pub(super) const fn new() -> Self {
        Self {
            user: AtomicU64::new(0),
            system: AtomicU64::new(0),
            stamp: AtomicU64::new(0),
            reason: AtomicU32::new(Reason::END.0),
        }
    }

    /// Nanoseconds in user mode.
    pub fn user(&self) -> u64 {
        timer::ticks_to_ns(self.user.load(Relaxed))
    }

    /// Nanoseconds in the kernel.
    pub fn system(&self) -> u64 {
        timer::ticks_to_ns(self.system.load(Relaxed))
    }

    /// Notes why the thread is in the kernel from now on.
    #[inline]
    pub fn enter_for(&self, reason: Reason) {
        self.reason.store(reason.0, Relaxed);
    }

    /// Time since the last stamp was spent in user mode.
    #[inline]
    pub fn leave_user(&self) {
        self.attribute(&self.user);
    }

    /// Time since the last stamp was spent in the kernel, where nothing else could run.
    #[inline]
    pub fn leave_kernel(&self) {
        let spent = self.attribute(&self.system);
        if stretch::is_long(spent) {
            let reason = Reason(self.reason.load(Relaxed));
            stretch::without_interrupts(spent, reason);
            stretch::without_threads(spent, reason);
        }
    }

    /// As [`Self::leave_kernel`], but not for the record of long stretches.
    pub fn leave_kernel_unseen(&self) {
        self.attribute(&self.system);
    }

    /// The thread gets the CPU: time before now is not counted.
    pub fn resume(&self) {
        self.stamp.store(timer::ticks(), Relaxed);
    }

    #[inline]
    fn attribute(&self, to: &AtomicU64) -> u64 {
        let now = timer::ticks();
        let spent = now.saturating_sub(self.stamp.load(Relaxed));
        to.store(to.load(Relaxed) + spent, Relaxed);
        self.stamp.store(now, Relaxed);
        spent
    }
}
