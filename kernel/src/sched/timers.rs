//! Each CPU's timers, in the order of their deadlines, and its one hardware deadline for the first
//! of them and for the end of the time slice.

use crate::arch::timer;
use crate::base::cpus;
use crate::base::ranks;
use crate::base::watchdog;
use crate::sched::{self, SLICE, Task, Thread, kernel_lock};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use arch_boot::cpus::NR_CPUS;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use locks::Apart;
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
    /// The time-out has come, in the timer's interrupt. While this CPU waited for the kernel lock
    /// another one may have cancelled it, in vain, and have set a new one.
    fn expire(self: Arc<Self>, id: TimerId);
}

/// A time-out that is set: its time, a serial number, and the CPU on which it was set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimerId {
    deadline: u64,
    serial: u64,
    cpu: usize,
}

struct Timers {
    queue: BTreeMap<TimerId, TimerAction>,
    serial: u64,
}

/// By CPU: a time-out interrupts the CPU on which it was set.
static TIMERS: [Apart<Lock<Timers, { ranks::TIMERS }>>; NR_CPUS] = [const {
    Apart(Lock::new(Timers {
        queue: BTreeMap::new(),
        serial: 0,
    }))
}; NR_CPUS];

/// The times for which one CPU's timer is needed.
struct Deadlines {
    /// End of the running thread's slice; `u64::MAX` when it may run for ever.
    slice_end: AtomicU64,
    /// What the hardware was asked for. It may be earlier than needed, never later: an early
    /// interrupt costs little, programming the timer at each switch costs more.
    programmed: AtomicU64,
}

/// By CPU; each writes its own.
static DEADLINES: [Apart<Deadlines>; NR_CPUS] = [const {
    Apart(Deadlines {
        slice_end: AtomicU64::new(u64::MAX),
        programmed: AtomicU64::new(u64::MAX),
    })
}; NR_CPUS];

fn this() -> &'static Deadlines {
    &DEADLINES[cpus::current()]
}

/// Nanoseconds since boot.
#[inline]
pub fn now() -> u64 {
    timer::now()
}

/// Sets a time-out at `deadline` (ns since boot).
pub fn set(deadline: u64, action: TimerAction) -> TimerId {
    let cpu = cpus::current();
    let mut timers = TIMERS[cpu].lock();
    timers.serial += 1;
    let id = TimerId {
        deadline,
        serial: timers.serial,
        cpu,
    };
    timers.queue.insert(id, action);
    drop(timers);
    program(deadline);
    id
}

/// Cancels a timer; without effect when it has expired.
pub fn cancel(id: TimerId) {
    // Dropped after the lock: it may be the last reference to a thread.
    let action = TIMERS[id.cpu].lock().queue.remove(&id);
    drop(action);
}

/// Whether a time-out is set that may wake a program: the kernel's own threads wake none.
pub(super) fn any_for_programs() -> bool {
    let wakes = |action: &TimerAction| match action {
        TimerAction::Wake(task) => !task.is_kernels(),
        TimerAction::Expire(what) => what.strong_count() > 0,
    };
    TIMERS
        .iter()
        .any(|timers| timers.lock().queue.values().any(wakes))
}

/// The running thread's slice ends at `end`.
pub fn start_slice(end: u64) {
    this().slice_end.store(end, Relaxed);
    program(end);
}

/// The running thread shares the CPU from now on: it has a slice, if it had none.
pub fn share_time() {
    if this().slice_end.load(Relaxed) == u64::MAX {
        start_slice(now() + SLICE);
    }
}

/// Begins to look at the other CPUs, on each CPU that runs threads.
pub fn begin_to_watch() {
    program(watchdog::look());
}

/// Makes sure that the timer interrupts at `at` or before.
fn program(at: u64) {
    let programmed = &this().programmed;
    if at < programmed.load(Relaxed) {
        programmed.store(at, Relaxed);
        timer::set_deadline(Some(at));
    }
}

/// The timer has interrupted: does what is due and asks for the next.
pub fn interrupt() {
    let own = this();
    own.programmed.store(u64::MAX, Relaxed);
    let now = now();
    for (id, action) in core::iter::from_fn(|| take_due(now)).take(MOST) {
        fire(id, action);
    }
    if own.slice_end.load(Relaxed) <= now {
        own.slice_end.store(u64::MAX, Relaxed);
        sched::slice_over();
    }
    let first = TIMERS[cpus::current()]
        .lock()
        .queue
        .first_key_value()
        .map_or(u64::MAX, |(id, _)| id.deadline);
    let look = match kernel_lock::is_shared() {
        true => watchdog::look(),
        false => u64::MAX,
    };
    match first.min(own.slice_end.load(Relaxed)).min(look) {
        // What was set meanwhile has been cancelled again.
        u64::MAX => {
            own.programmed.store(u64::MAX, Relaxed);
            timer::set_deadline(None);
        }
        at => program(at),
    }
}

fn take_due(now: u64) -> Option<(TimerId, TimerAction)> {
    let mut timers = TIMERS[cpus::current()].lock();
    let first = timers.queue.first_entry()?;
    (first.key().deadline <= now).then(|| first.remove_entry())
}

fn fire(id: TimerId, action: TimerAction) {
    match action {
        TimerAction::Wake(task) => {
            sched::wake(&task);
            sched::release(task);
        }
        TimerAction::Expire(what) => kernel_lock::with(|| {
            if let Some(what) = what.upgrade() {
                what.expire(id);
            }
        }),
    }
}
