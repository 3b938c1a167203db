//! The run queues of the CPUs: to which one a thread goes, and from which one it is taken.
//!
//! A thread that wakes goes to the CPU that it ran on, or to an idle one if that CPU is busy. A CPU
//! that becomes idle takes a thread of the longest queue. So no CPU is idle while a thread waits.
//!
//! A thread that is woken while its CPU still leaves its stack goes to that CPU's queue, and no
//! other CPU takes it from there before the stack is free: a switch waits for nothing.

use super::{Entity, SLICE, Task, TaskState, Thread, Work, kernel_lock, switch, timers};
use crate::arch;
use crate::base::cpus;
use crate::base::errno::Result;
use crate::base::ranks;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use arch_boot::cpus::NR_CPUS;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use locks::Apart;
use mm::sync::{Guard, Lock};

/// What the scheduler keeps for one CPU.
pub(super) struct RunQueue {
    pub(super) current: Option<Arc<Task>>,
    /// The thread that ran before, until the new one has left its stack; a dead one is freed then.
    previous: Option<Arc<Task>>,
    /// The thread that leaves the CPU goes to the queue of another one.
    pub(super) moves: bool,
    pub(super) queue: VecDeque<Arc<Task>>,
    /// No thread is runnable and the CPU sleeps, or is about to.
    idle: bool,
    switches: u64,
    /// Nanoseconds without a thread to run.
    idle_ns: u64,
    /// When it went to sleep, in ns since boot; `None`: it does not sleep.
    asleep_since: Option<u64>,
    /// How often it went to sleep or was woken.
    turns: u64,
    /// Nanoseconds in user mode of the threads that ran here before the current one, less what that
    /// had when it came.
    user_ns: u64,
}

impl RunQueue {
    /// Whether a thread is the current one.
    pub(super) fn is_current(&self, task: &Arc<Task>) -> bool {
        self.current
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, task))
    }

    /// This CPU, of that number, has no thread to run, or has one.
    fn set_idle(&mut self, number: usize, idle: bool) {
        if self.idle != idle {
            self.idle = idle;
            IDLE.fetch_xor(1 << number, Relaxed);
        }
    }

    /// The user time of the current thread, in ns, on whatever CPU.
    fn current_user(&self) -> u64 {
        self.current
            .as_deref()
            .map_or(0, |task| task.entity().times.user())
    }

    /// Makes `next` the current thread, `None` the idle loop.
    pub(super) fn replace(&mut self, next: Option<Arc<Task>>) {
        // Wrapping: the new one may have had more elsewhere than all had here.
        self.user_ns = self.user_ns.wrapping_add(self.current_user());
        switch::set_current(next.as_ref());
        self.previous = core::mem::replace(&mut self.current, next);
        self.user_ns = self.user_ns.wrapping_sub(self.current_user());
        self.switches += 1;
    }

    /// The CPU sleeps from now on, in ns since boot, or has been woken.
    pub(super) fn sleeps(&mut self, asleep: bool) {
        let now = timers::now();
        self.idle_ns += self
            .asleep_since
            .take()
            .map_or(0, |since| now.saturating_sub(since));
        self.asleep_since = asleep.then_some(now);
        self.turns += 1;
    }
}

type Queue = Lock<RunQueue, { ranks::SCHEDULER }>;

static QUEUES: [Apart<Queue>; NR_CPUS] = [const {
    Apart(Lock::new(RunQueue {
        current: None,
        previous: None,
        moves: false,
        queue: VecDeque::new(),
        idle: false,
        switches: 0,
        idle_ns: 0,
        asleep_since: None,
        turns: 0,
        user_ns: 0,
    }))
}; NR_CPUS];

/// The CPUs whose queue says that they are idle, a bit each; changed under its lock.
static IDLE: Apart<AtomicU64> = Apart(AtomicU64::new(0));
/// The CPUs that run threads, a bit each.
static ONLINE: Apart<AtomicU64> = Apart(AtomicU64::new(1));

/// The run queue of a CPU.
#[inline]
pub(super) fn of(cpu: usize) -> &'static Queue {
    &QUEUES[cpu]
}

/// The run queue of the CPU that runs.
#[inline]
pub(super) fn this() -> &'static Queue {
    of(cpus::current())
}

/// The run queues of the CPUs that run threads, by number.
fn online() -> impl Iterator<Item = (usize, &'static Queue)> {
    let mut left = online_mask();
    core::iter::from_fn(move || {
        let number = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        QUEUES.get(number).map(|queue| (number, &**queue))
    })
}

/// The CPUs that run threads, a bit each.
pub fn online_mask() -> u64 {
    ONLINE.load(Relaxed)
}

/// This CPU runs threads from now on, or will soon.
pub fn come_up(number: usize) {
    ONLINE.fetch_or(1 << number, Relaxed);
}

/// Context switches since boot.
pub fn switches() -> u64 {
    online().map(|(_, cpu)| cpu.lock().switches).sum()
}

/// What a CPU has done since boot.
#[derive(Clone, Copy, Default)]
pub struct Spent {
    /// Its number.
    pub cpu: usize,
    /// Nanoseconds in user mode.
    pub user: u64,
    /// Nanoseconds without a thread to run.
    pub idle: u64,
}

/// What each CPU that runs threads has done since boot.
pub fn spent() -> impl Iterator<Item = Spent> {
    online().map(|(number, cpu)| {
        let cpu = cpu.lock();
        Spent {
            cpu: number,
            user: cpu.user_ns.wrapping_add(cpu.current_user()),
            idle: cpu.idle_ns
                + cpu
                    .asleep_since
                    .map_or(0, |at| timers::now().saturating_sub(at)),
        }
    })
}

/// Nanoseconds in which a CPU had no thread to run, summed over the CPUs.
pub fn idle_ns() -> u64 {
    spent().map(|cpu| cpu.idle).sum()
}

/// Threads that have a CPU or wait for one.
pub fn runnable() -> usize {
    let on = |cpu: Guard<'_, RunQueue, _>| {
        cpu.queue.len() + usize::from(cpu.current.is_some() && !cpu.idle)
    };
    online().map(|(_, cpu)| on(cpu.lock())).sum()
}

/// How often CPUs went to sleep or were woken, if each one that runs threads sleeps now, and has
/// none to run: as long as the number is the same, none has done anything meanwhile.
pub(super) fn all_asleep() -> Option<u64> {
    let turns = |cpu: Guard<'_, RunQueue, _>| {
        let rests = cpu.asleep_since.is_some() && cpu.queue.is_empty();
        rests.then_some(cpu.turns)
    };
    online().map(|(_, cpu)| turns(cpu.lock())).sum()
}

/// Makes room in the queues for as many threads; ENOMEM.
pub fn make_place(threads: usize) -> Result {
    for (_, cpu) in online() {
        let mut cpu = cpu.lock();
        let more = threads.saturating_sub(cpu.queue.len());
        fallible::reserve(&mut cpu.queue, more)?;
    }
    Ok(())
}

/// Puts a runnable thread into a queue, which has room for it, and lets its CPU know.
pub(super) fn push(task: Arc<Task>) {
    let allowed = task.entity().allowed();
    let number = choose(task.entity());
    task.entity().assign(number);
    let mut cpu = of(number).lock();
    cpu.queue.push_back(task);
    // The one that ran alone has no slice yet.
    let alone = cpu.queue.len() == 1 && !cpu.idle && cpu.current.is_some();
    let idle = cpu.idle;
    if idle {
        // Woken, it takes this thread: the next one goes elsewhere.
        cpu.set_idle(number, false);
    }
    drop(cpu);
    if number != cpus::current() {
        if alone || idle {
            arch::cpus::interrupt(number);
        }
    } else if alone {
        timers::start_slice(timers::now() + SLICE);
    }
    if !idle && kernel_lock::is_shared() {
        // Pairs with the one in `next`: a CPU that became idle meanwhile sees the thread, or is
        // seen here.
        fence(SeqCst);
        tell_idle(allowed);
    }
}

/// Lets one of the CPUs `allowed` that are idle, if there is one, look for a thread that waits.
pub(super) fn tell_idle(allowed: u64) {
    if let Some(other) = first(IDLE.load(Relaxed) & allowed) {
        arch::cpus::interrupt(other);
    }
}

/// The CPU of the lowest bit.
fn first(cpus: u64) -> Option<usize> {
    (cpus != 0).then(|| cpus.trailing_zeros() as usize)
}

/// The CPU whose queue a thread joins: the one that it ran on, if that is idle or all are busy.
fn choose(entity: &Entity) -> usize {
    if !kernel_lock::is_shared() {
        return cpus::current();
    }
    let last = entity.last_cpu();
    // Only that CPU can run it before its registers are saved.
    if entity.is_on_cpu() {
        return last;
    }
    let cpus = match entity.allowed() & online_mask() {
        // Those that it is bound to are not there: any will do.
        0 => online_mask(),
        cpus => cpus,
    };
    let idle = IDLE.load(Relaxed) & cpus;
    match 1 << last {
        own if idle & own != 0 => last,
        _ if idle != 0 => idle.trailing_zeros() as usize,
        own if cpus & own != 0 => last,
        _ => cpus.trailing_zeros() as usize,
    }
}

/// This CPU has left the stack of the thread that ran before, so that another one may run it.
pub(super) fn left() {
    let mut cpu = this().lock();
    let previous = cpu.previous.take();
    let moves = core::mem::take(&mut cpu.moves);
    drop(cpu);
    let Some(task) = previous else {
        return;
    };
    task.entity().leave_cpu();
    if moves {
        push(task);
    } else if task.entity().state() == TaskState::Dead {
        super::release(task);
    }
}

/// Lets a thread run on `cpus` only, a bit each, of which one is there.
pub fn bind(task: &Arc<Task>, cpus: u64) {
    let entity = task.entity();
    entity.allow(cpus);
    let last = entity.last_cpu();
    if entity.may_run_on(last) {
        return;
    }
    let mut cpu = of(last).lock();
    let waits = |other: &Arc<Task>| Arc::ptr_eq(other, task) && !other.entity().is_on_cpu();
    let at = cpu.queue.iter().position(waits);
    let waiting = at.and_then(|at| cpu.queue.remove(at));
    drop(cpu);
    match waiting {
        Some(task) => push(task),
        // It runs, or does by now: it goes elsewhere on its way to user mode.
        None => entity.add_work(Work::RESCHEDULE),
    }
}

/// The next thread of this CPU: from its own queue, else from the longest one of the others.
/// `None`: it is idle.
pub(super) fn next() -> Option<Arc<Task>> {
    let number = cpus::current();
    loop {
        let mut cpu = this().lock();
        let Some(task) = cpu.queue.pop_front() else {
            cpu.set_idle(number, true);
            break;
        };
        if task.entity().may_run_on(number) || !kernel_lock::is_shared() {
            cpu.set_idle(number, false);
            return Some(task);
        }
        // It has been bound to others.
        if cpu.is_current(&task) {
            cpu.moves = true;
        } else {
            drop(cpu);
            push(task);
        }
    }
    if !kernel_lock::is_shared() {
        return None;
    }
    fence(SeqCst);
    let stolen = steal();
    if stolen.is_some() {
        let mut cpu = this().lock();
        cpu.set_idle(number, false);
        let waiting = cpu.queue.front().map(|task| task.entity().allowed());
        drop(cpu);
        // It was sent here because this CPU was idle, and no other one was told of it.
        if let Some(allowed) = waiting {
            tell_idle(allowed);
        }
    }
    stolen
}

/// Takes the thread that waits longest of another CPU, the one where most wait that may run here.
fn steal() -> Option<Arc<Task>> {
    let free =
        |task: &Arc<Task>| !task.entity().is_on_cpu() && task.entity().may_run_on(cpus::current());
    let waiting = |cpu: &Queue| cpu.lock().queue.iter().filter(|task| free(task)).count();
    let others = online().filter(|(number, _)| *number != cpus::current());
    let (count, longest) = others
        .map(|(_, cpu)| (waiting(cpu), cpu))
        .max_by_key(|(count, _)| *count)?;
    if count == 0 {
        return None;
    }
    let mut cpu = longest.lock();
    let at = cpu.queue.iter().position(free)?;
    cpu.queue.remove(at)
}
