//! Round robin on one CPU. The state is one structure per CPU behind a lock, so that more can
//! follow.
//!
//! There is no idle thread: a thread that blocks while no thread is runnable sleeps on its own
//! kernel stack, in `next_task`, until an interrupt makes one runnable. With one runnable thread no
//! timer runs.

mod entity;
mod machine;
mod switch;
mod thread;
pub mod timers;
mod times;
pub mod wait;

pub use entity::{Entity, TaskState, Work};
pub use thread::{Entry, Reserves, Task, Thread, Threads};

use crate::arch::{cpu, timer};
use crate::base::above::Above;
use crate::base::errno::Result;
use crate::base::machine::AddressSpace;
use crate::base::ranks;
use crate::base::stretch;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::sync::Lock;
use switch::Switch;

/// How long a thread runs while others wait, in ns.
pub const SLICE: u64 = 4_000_000;

struct RunQueue {
    current: Option<Arc<Task>>,
    /// The thread that ran before, until the new one has left its stack; a dead one is freed then.
    previous: Option<Arc<Task>>,
    queue: VecDeque<Arc<Task>>,
    /// Which address space is in the hardware, by address; 0 for none.
    active_space: usize,
    /// No thread is runnable and the CPU sleeps.
    idle: bool,
}

static CPU: Lock<RunQueue, { ranks::SCHEDULER }> = Lock::new(RunQueue {
    current: None,
    previous: None,
    queue: VecDeque::new(),
    active_space: 0,
    idle: false,
});
static SWITCHES: AtomicU64 = AtomicU64::new(0);
static IDLE_NS: AtomicU64 = AtomicU64::new(0);

/// The thread that runs now; `None` before the first.
pub fn current() -> Option<Arc<Task>> {
    CPU.lock().current.clone()
}

/// The thread that runs now. Panics before the first one runs.
pub fn running() -> Arc<Task> {
    current().expect("a thread runs")
}

/// As [`current`], for a panic: does not wait for the lock that the panicking code may hold.
pub fn try_current() -> Option<Arc<Task>> {
    CPU.try_lock()?.current.clone()
}

/// Context switches since boot.
pub fn switches() -> u64 {
    SWITCHES.load(Relaxed)
}

/// Nanoseconds in which no thread was runnable.
pub fn idle_ns() -> u64 {
    IDLE_NS.load(Relaxed)
}

/// Threads that have the CPU or wait for it.
pub fn runnable() -> usize {
    let cpu = CPU.lock();
    cpu.queue.len() + usize::from(!cpu.idle)
}

/// Makes room in the queue for as many threads; ENOMEM.
pub fn make_place(threads: usize) -> Result {
    let mut cpu = CPU.lock();
    let more = threads.saturating_sub(cpu.queue.len());
    Ok(fallible::reserve(&mut cpu.queue, more)?)
}

/// Puts a new thread into the run queue, which has room for it.
pub fn start_task(task: Arc<Task>) {
    push(task);
}

/// Makes a sleeping thread runnable; one that prepares to sleep will not. `false` when it was
/// neither.
pub fn wake(task: &Arc<Task>) -> bool {
    wake_from(task, |state| {
        matches!(state, TaskState::Interruptible | TaskState::Killable)
    })
}

/// Makes a thread runnable when its state is one that `may` accepts. `false` when it is not.
pub fn wake_from(task: &Arc<Task>, may: impl Fn(TaskState) -> bool) -> bool {
    let entity = task.entity();
    match entity.state() {
        TaskState::Runnable | TaskState::Dead => return false,
        TaskState::Preparing => entity.set_state(TaskState::Runnable),
        state if may(state) => {
            entity.set_state(TaskState::Runnable);
            push(task.clone());
        }
        _ => return false,
    }
    true
}

fn push(task: Arc<Task>) {
    let mut cpu = CPU.lock();
    cpu.queue.push_back(task);
    // The one that ran alone has no slice yet.
    let alone = cpu.queue.len() == 1 && !cpu.idle && cpu.current.is_some();
    drop(cpu);
    if alone {
        timers::start_slice(timers::now() + SLICE);
    }
}

/// Yields the CPU to the other runnable threads, if there are any.
pub fn yield_now() {
    let mut cpu = CPU.lock();
    if cpu.queue.is_empty() {
        return;
    }
    let current = cpu.current.clone();
    cpu.queue.extend(current);
    drop(cpu);
    schedule();
}

/// Serves one pending interrupt, if there is one.
fn let_interrupts_in(task: &Task) {
    task.entity().times.leave_kernel();
    if let Some(irq) = cpu::poll_interrupt() {
        Above::interrupt(irq);
    }
}

/// Serves interrupts and yields: for a thread that waits for a change and cannot sleep.
pub fn poll() {
    let_interrupts_in(&running());
    yield_now();
}

/// Preemption point between two steps of a long transfer, with no lock held: serves interrupts and
/// other threads, which the kernel otherwise does only on the way to user mode. Returns `true` when
/// the thread is to end and the transfer with it.
pub fn breathe() -> bool {
    assert!(mm::sync::held() == 0, "others are let in with a lock held");
    // Before there are threads, boot and the kernel's own tests have the machine for themselves.
    let Some(task) = current() else {
        return false;
    };
    let_interrupts_in(&task);
    let entity = task.entity();
    if entity.work().contains(Work::RESCHEDULE) {
        entity.clear_work(Work::RESCHEDULE);
        entity.count_involuntary_switch();
        yield_now();
    }
    if entity.work().contains(Work::MAKE_ROOM) {
        Above::refill(&task);
    }
    task.is_interrupted(TaskState::Killable)
}

/// End of a time slice: the running thread goes to the back of the queue when it returns to user
/// mode.
pub fn slice_over() {
    let cpu = CPU.lock();
    if let (Some(current), false) = (&cpu.current, cpu.queue.is_empty()) {
        current.entity().add_work(Work::RESCHEDULE);
    }
}

/// Gives up the CPU. The caller has set its state (and is in a wait queue, if it wants to be woken)
/// or has queued itself; returns when it has the CPU again.
pub fn schedule() {
    assert!(
        mm::sync::held() == 0,
        "a thread gives up the CPU with a lock held"
    );
    let next = next_task();
    let mut cpu = CPU.lock();
    let current = cpu
        .current
        .as_ref()
        .expect("schedule is called by a thread");
    if Arc::ptr_eq(current, &next) {
        next.entity().times.resume();
        return;
    }
    timers::start_slice(if cpu.queue.is_empty() {
        u64::MAX
    } else {
        timers::now() + SLICE
    });
    next.entity().times.resume();
    if fallible::is_short() {
        next.entity().add_work(Work::MAKE_ROOM);
    }
    SWITCHES.store(SWITCHES.load(Relaxed) + 1, Relaxed);
    let switch = Switch::new(current.entity(), next.entity());
    activate_for(&mut cpu, &next);
    cpu.previous = cpu.current.replace(next);
    drop(cpu);
    switch.go();
    finish_switch();
}

/// Takes the next thread from the queue, sleeping until there is one.
fn next_task() -> Arc<Task> {
    let mut cpu = CPU.lock();
    if let Some(current) = &cpu.current {
        current.entity().times.leave_kernel();
    }
    if let Some(next) = cpu.queue.pop_front() {
        return next;
    }
    cpu.idle = true;
    drop(cpu);
    timers::start_slice(u64::MAX);
    loop {
        let before = timers::now();
        let irq = cpu::wait_for_interrupt();
        IDLE_NS.store(IDLE_NS.load(Relaxed) + timers::now() - before, Relaxed);
        let since = timer::ticks();
        Above::interrupt(irq);
        let spent = timer::ticks().saturating_sub(since);
        if stretch::is_long(spent) {
            stretch::without_interrupts(spent, stretch::Reason::INTERRUPT);
        }
        let mut cpu = CPU.lock();
        if let Some(next) = cpu.queue.pop_front() {
            cpu.idle = false;
            return next;
        }
    }
}

/// Drops the previous thread; on the new thread's stack.
pub fn finish_switch() {
    let previous = CPU.lock().previous.take();
    drop(previous);
}

/// Makes the thread's address space the hardware's, unless it is already.
fn activate_for(cpu: &mut RunQueue, task: &Task) {
    task.with_space(|space| {
        let id = Arc::as_ptr(space).addr();
        if cpu.active_space != id {
            space.activate();
            cpu.active_space = id;
        }
    });
}

/// Makes `space` the hardware's: the running thread's process has changed to it.
pub fn activate(space: &Arc<AddressSpace>) {
    let mut cpu = CPU.lock();
    space.activate();
    cpu.active_space = Arc::as_ptr(space).addr();
}

/// Ends the running thread. Nothing may be left on its stack that has to be dropped.
pub fn exit() -> ! {
    running().entity().set_state(TaskState::Dead);
    schedule();
    unreachable!("a dead thread got the CPU");
}

/// Leaves the boot stack for the first thread.
pub fn start() -> ! {
    empty_space();
    let first = next_task();
    let mut cpu = CPU.lock();
    activate_for(&mut cpu, &first);
    let switch = Switch::first(first.entity());
    first.entity().times.resume();
    cpu.current = Some(first);
    drop(cpu);
    switch.go();
    unreachable!("nobody goes back to the boot stack");
}

/// Activates an empty address space: that of the running process is about to be freed.
pub fn activate_none() {
    activate(empty_space());
}

/// The empty address space. It is made before the first thread runs: when a process ends because
/// there is no memory, there is none for this either.
pub fn empty_space() -> &'static Arc<AddressSpace> {
    static EMPTY: spin::Once<Arc<AddressSpace>> = spin::Once::new();
    EMPTY.call_once(|| {
        let space = AddressSpace::new(crate::base::machine::mm());
        Arc::new(space.expect("memory for an empty address space"))
    })
}
