//! CPU time of processes, and ITIMER_REAL.

use super::Process;
use crate::process::signal::{self, SIGALRM, SigInfo};
use crate::sched::timers::{self, Expire, TimerAction, TimerId};
use alloc::sync::{Arc, Weak};

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

/// ITIMER_REAL.
#[derive(Default)]
pub struct RealTimer {
    id: Option<TimerId>,
    /// When it runs out next, ns since boot.
    deadline: u64,
    /// Then again after this, ns; 0 for once.
    interval: u64,
}

/// State of a timer for getitimer(2); ns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Remaining {
    /// Until it runs out; 0 when it is off.
    pub left: u64,
    /// Then again after this; 0 for once.
    pub interval: u64,
}

impl Process {
    /// CPU time of all its threads and of children that were waited for.
    pub fn times(&self) -> ProcessTimes {
        let mut times = *self.past_times.lock();
        for task in self.threads.lock().iter() {
            times.user += task.sched.times.user();
            times.system += task.sched.times.system();
        }
        times
    }

    /// setitimer(ITIMER_REAL) and alarm(2): `first` ns from now (0: off), then every `interval` ns.
    /// Returns the old one.
    pub fn set_real_timer(self: &Arc<Self>, first: u64, interval: u64) -> Remaining {
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
                TimerAction::Expire(Arc::downgrade(self) as Weak<dyn Expire>),
            ));
        }
        old
    }

    /// The timer as it runs now.
    pub fn real_timer(&self) -> Remaining {
        let timer = self.real_timer.lock();
        match timer.id {
            // A timer that is due but has not fired yet still runs.
            Some(_) => Remaining {
                left: timer.deadline.saturating_sub(timers::now()).max(1),
                interval: timer.interval,
            },
            None => Remaining::default(),
        }
    }
}

impl Expire for Process {
    /// It has run out: SIGALRM, and the next round.
    fn expire(self: Arc<Self>, id: TimerId) {
        let mut timer = self.real_timer.lock();
        if timer.id != Some(id) {
            return;
        }
        timer.id = None;
        let late = timers::now().saturating_sub(timer.deadline);
        // Rounds that were missed because interrupts were off are skipped, as in Linux.
        if let Some(missed) = late.checked_div(timer.interval) {
            let ahead = (missed + 1).saturating_mul(timer.interval);
            timer.deadline = timer.deadline.saturating_add(ahead);
            timer.id = Some(timers::set(
                timer.deadline,
                TimerAction::Expire(Arc::downgrade(&self) as Weak<dyn Expire>),
            ));
        }
        drop(timer);
        signal::send_process(&self, SigInfo::kernel(SIGALRM));
    }
}
