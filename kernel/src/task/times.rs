//! CPU time, counted where threads cross between user mode, the kernel and each other.

use super::Process;
use crate::arch::timer;
use crate::signal::{self, SIGALRM, SigInfo};
use crate::stretch::{self, Reason};
use crate::timers::{self, Action, TimerId};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// CPU time of one thread, in ticks of the machine's clock: each trap counts, and only who asks converts. Only its own CPU
/// writes it.
pub struct Times {
    user: AtomicU64,
    system: AtomicU64,
    /// When time was last attributed.
    stamp: AtomicU64,
    /// What it is in the kernel for: a [`Reason`].
    reason: AtomicU32,
}

/// CPU time of a process, as times(2) has it; ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessTimes {
    /// In user mode, all threads, those that ended too.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
    /// In user mode, of children that were waited for.
    pub children_user: u64,
    /// In the kernel, of children that were waited for.
    pub children_system: u64,
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

    /// What it is in the kernel for from now on.
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

    /// The thread gets the CPU: time before now is nobody's.
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

/// ITIMER_REAL.
#[derive(Default)]
pub struct RealTimer {
    id: Option<TimerId>,
    /// When it runs out next, ns since boot.
    deadline: u64,
    /// Then again after this, ns; 0 for once.
    interval: u64,
}

impl Process {
    /// setitimer(ITIMER_REAL) and alarm(2): `first` ns from now (0: off), then every `interval` ns. Returns what was
    /// left of the old one and its interval.
    pub fn set_real_timer(self: &Arc<Self>, first: u64, interval: u64) -> (u64, u64) {
        let old = self.real_timer();
        let mut timer = self.real_timer.lock();
        if let Some(id) = timer.id.take() {
            timers::cancel(id);
        }
        if first != 0 {
            timer.deadline = timers::now().saturating_add(first);
            timer.interval = interval;
            timer.id = Some(timers::set(
                timer.deadline,
                Action::RealTimer(Arc::downgrade(self)),
            ));
        }
        old
    }

    /// What is left, and the interval; ns.
    pub fn real_timer(&self) -> (u64, u64) {
        let timer = self.real_timer.lock();
        match timer.id {
            // A timer that is due but has not fired yet still runs.
            Some(_) => (
                timer.deadline.saturating_sub(timers::now()).max(1),
                timer.interval,
            ),
            None => (0, 0),
        }
    }

    /// It has run out: SIGALRM, and the next round.
    pub fn real_timer_expired(self: &Arc<Self>) {
        let mut timer = self.real_timer.lock();
        timer.id = None;
        let late = timers::now().saturating_sub(timer.deadline);
        // Rounds that were missed because nobody could look are skipped, as in Linux.
        if let Some(missed) = late.checked_div(timer.interval) {
            let ahead = (missed + 1).saturating_mul(timer.interval);
            timer.deadline = timer.deadline.saturating_add(ahead);
            timer.id = Some(timers::set(
                timer.deadline,
                Action::RealTimer(Arc::downgrade(self)),
            ));
        }
        drop(timer);
        signal::send_process(self, SigInfo::kernel(SIGALRM));
    }
}
