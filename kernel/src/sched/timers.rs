//! Timers, in the order of their deadlines, and the one hardware deadline for the first of them and
//! for the end of the time slice.

use crate::arch::timer;
use crate::base::ranks;
use crate::sched::{self, Task};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::sync::Lock;

/// Time-outs that are done in one interrupt: when more are due, the next one comes at once.
const MOST: usize = 128;

/// Action of a timer that expires.
pub enum TimerAction {
    /// Wakes a thread; it looks at the time itself.
    Wake(Arc<Task>),
    /// Does this, if it is still there.
    Expire(Weak<dyn Expire>),
}

/// An object with a timer of its own.
pub trait Expire: Send + Sync {
    /// The time-out has come, in the timer's interrupt.
    fn expire(self: Arc<Self>);
}

/// A time-out that is set: its time and a serial number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimerId {
    deadline: u64,
    serial: u64,
}

struct Timers {
    queue: BTreeMap<TimerId, TimerAction>,
    serial: u64,
}

static TIMERS: Lock<Timers, { ranks::TIMERS }> = Lock::new(Timers {
    queue: BTreeMap::new(),
    serial: 0,
});
/// End of the running thread's slice; `u64::MAX` when it may run for ever.
static SLICE_END: AtomicU64 = AtomicU64::new(u64::MAX);
/// What the hardware was asked for. It may be earlier than needed, never later: an early interrupt
/// costs little, programming the timer at each switch costs more.
static PROGRAMMED: AtomicU64 = AtomicU64::new(u64::MAX);

/// Nanoseconds since boot.
#[inline]
pub fn now() -> u64 {
    timer::now()
}

/// Sets a time-out at `deadline` (ns since boot).
pub fn set(deadline: u64, action: TimerAction) -> TimerId {
    let mut timers = TIMERS.lock();
    timers.serial += 1;
    let id = TimerId {
        deadline,
        serial: timers.serial,
    };
    timers.queue.insert(id, action);
    drop(timers);
    program(deadline);
    id
}

/// Cancels a timer; without effect when it has expired.
pub fn cancel(id: TimerId) {
    // Dropped after the lock: it may be the last reference to a thread.
    let action = TIMERS.lock().queue.remove(&id);
    drop(action);
}

/// The running thread's slice ends at `end`.
pub fn start_slice(end: u64) {
    SLICE_END.store(end, Relaxed);
    program(end);
}

/// Makes sure that the timer interrupts at `at` or before.
fn program(at: u64) {
    if at < PROGRAMMED.load(Relaxed) {
        PROGRAMMED.store(at, Relaxed);
        timer::set_deadline(Some(at));
    }
}

/// The timer has interrupted: does what is due and asks for the next.
pub fn interrupt() {
    PROGRAMMED.store(u64::MAX, Relaxed);
    let now = now();
    for action in core::iter::from_fn(|| take_due(now)).take(MOST) {
        fire(action);
    }
    if SLICE_END.load(Relaxed) <= now {
        SLICE_END.store(u64::MAX, Relaxed);
        sched::slice_over();
    }
    let first = TIMERS
        .lock()
        .queue
        .first_key_value()
        .map_or(u64::MAX, |(id, _)| id.deadline);
    match first.min(SLICE_END.load(Relaxed)) {
        u64::MAX => timer::set_deadline(None),
        at => program(at),
    }
}

fn take_due(now: u64) -> Option<TimerAction> {
    let mut timers = TIMERS.lock();
    let first = timers.queue.first_entry()?;
    (first.key().deadline <= now).then(|| first.remove())
}

fn fire(action: TimerAction) {
    match action {
        TimerAction::Wake(task) => {
            sched::wake(&task);
        }
        TimerAction::Expire(what) => {
            if let Some(what) = what.upgrade() {
                what.expire();
            }
        }
    }
}
