//! Time-outs and the one deadline of the hardware for all of them.

use crate::arch::cpu;
use crate::base::above::Above;
use crate::sched::Entry;
use crate::sched::timers::{self, Expire, TimerAction, TimerId};
use alloc::sync::{Arc, Weak};
use arch_boot::waited::Waited;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// In ns: until a time-out, and at most until its interrupt, of the CPU that waits.
const SOON: u64 = 1_000_000;
const LATE: u64 = 1_000_000_000;

/// Counts how often its time-out has come, and sets another one each time, which it cancels.
#[derive(Default)]
struct Regrets(AtomicUsize);

impl Regrets {
    fn set(self: &Arc<Self>, deadline: u64) -> TimerId {
        let what = Arc::downgrade(self) as Weak<dyn Expire>;
        timers::set(deadline, TimerAction::Expire(what))
    }

    /// Serves interrupts until the time-out has come so often; whether it has.
    fn came(&self, times: usize) -> bool {
        let (waited, mut looks) = (Waited::new(), 0);
        while self.0.load(Relaxed) < times && waited.spin(looks, timers::now).unwrap_or(0) < LATE {
            looks += 1;
            if let Some(irq) = cpu::poll_interrupt() {
                Above::interrupt(irq);
            }
        }
        self.0.load(Relaxed) == times
    }
}

impl Expire for Regrets {
    fn expire(self: Arc<Self>, _: TimerId) {
        self.0.fetch_add(1, Relaxed);
        timers::cancel(self.set(timers::now() + SOON));
    }
}

ktest::ktest! {
    /// A time-out that is set in the timer's interrupt and cancelled there leaves the hardware
    /// without a deadline: the next one is asked for.
    fn time_out_after_one_that_was_cancelled(ctx) {
        let timer = Arc::new(Regrets::default());
        for times in 1..=3 {
            // After the one that was cancelled would have come.
            timer.set(timers::now() + 2 * SOON);
            ktest::check!(ctx, timer.came(times), "time-out {times} is lost");
        }
    }
}
