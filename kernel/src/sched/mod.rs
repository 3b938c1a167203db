//! Round robin on each CPU, from a run queue of its own (`queues`). A CPU without a runnable thread
//! takes one of another CPU's.
//!
//! With one CPU there is no idle thread: a thread that blocks while no thread is runnable sleeps on
//! its own kernel stack, in `wait_for_task`, until an interrupt makes one runnable. With several
//! the CPU goes back to the stack on which it booted. With one runnable thread no timer runs.
//!
//! Most of the kernel runs on one CPU at a time: see [`kernel_lock`].

mod entity;
pub mod kernel_lock;
mod machine;
mod queues;
mod switch;
mod thread;
pub mod timers;
mod times;
pub mod wait;

pub use entity::{Entity, TaskState, Work};
pub use thread::{Entry, Reserves, Task, Thread, Threads};

use crate::arch::{cpu, timer};
use crate::base::above::Above;
use crate::base::cmdline;
use crate::base::cpus;
use crate::base::machine::Space;
use crate::base::stretch;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use switch::Switch;

pub use queues::{
    Spent, bind, come_up, idle_ns, make_place, online_mask, runnable, spent, switches,
};
pub use switch::current;

/// How long a thread runs while others wait, in ns.
pub const SLICE: u64 = 4_000_000;

/// The thread that runs now. Panics before the first one runs.
pub fn running() -> Arc<Task> {
    current().expect("a thread runs")
}

/// The thread that a CPU runs, for a panic: does not wait for the lock that the panicking code may
/// hold.
pub fn try_current(cpu: usize) -> Option<Arc<Task>> {
    queues::of(cpu).try_lock()?.current.clone()
}

/// Puts a new thread into a run queue, which has room for it.
pub fn start_task(task: Arc<Task>) {
    queues::push(task);
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
    match task.entity().make_runnable(may) {
        Some(TaskState::Preparing) => true,
        Some(_) => {
            queues::push(task.clone());
            true
        }
        None => false,
    }
}

/// Yields the CPU to the other runnable threads, if there are any.
pub fn yield_now() {
    let mut cpu = queues::this().lock();
    let Some(current) = cpu.current.clone() else {
        return;
    };
    if current.entity().may_run_on(cpus::current()) {
        if cpu.queue.is_empty() {
            return;
        }
        cpu.queue.push_back(current);
    } else {
        cpu.moves = true;
    }
    drop(cpu);
    schedule();
}

/// Serves one pending interrupt, if there is one.
fn let_interrupts_in(task: &Task) {
    task.entity().times.leave_kernel();
    kernel_lock::let_others_in();
    if let Some(irq) = cpu::poll_interrupt() {
        Above::interrupt(irq);
    }
}

/// Serves interrupts and yields: for a thread that waits for a change and cannot sleep.
pub fn poll() {
    let_interrupts_in(&running());
    yield_now();
}

/// Pauses in [`breathe`] that have not ended.
static PAUSED: AtomicUsize = AtomicUsize::new(0);

/// Whether a thread is between two steps of something: what it does may be half done. Asked at a
/// rendezvous.
pub fn is_any_paused() -> bool {
    PAUSED.load(Relaxed) != 0
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
    PAUSED.fetch_add(1, Relaxed);
    let_others_in(&task);
    PAUSED.fetch_sub(1, Relaxed);
    task.is_interrupted(TaskState::Killable)
}

fn let_others_in(task: &Arc<Task>) {
    let_interrupts_in(task);
    let entity = task.entity();
    if entity.work().contains(Work::RESCHEDULE) {
        entity.clear_work(Work::RESCHEDULE);
        entity.count_involuntary_switch();
        yield_now();
    }
    if entity.work().contains(Work::MAKE_ROOM) {
        Above::refill(task);
    }
}

/// End of a time slice: the running thread goes to the back of the queue when it returns to user
/// mode.
pub fn slice_over() {
    let cpu = queues::this().lock();
    if let (Some(current), Some(next)) = (&cpu.current, cpu.queue.front()) {
        current.entity().add_work(Work::RESCHEDULE);
        // Of several CPUs that were told of threads all but one may have found theirs taken, or one
        // was told of two: none sleeps for longer than a slice while a thread waits.
        queues::tell_idle(next.entity().allowed());
    }
}

/// Gives up the CPU. The caller has set its state (and is in a wait queue, if it wants to be woken)
/// or has queued itself; returns when it has the CPU again.
pub fn schedule() {
    assert!(
        mm::sync::held() == 0,
        "a thread gives up the CPU with a lock held"
    );
    running().entity().times.leave_kernel();
    let suspended = kernel_lock::suspend();
    switch_to(queues::next().or_else(sleep));
    kernel_lock::resume(suspended);
}

/// No thread is runnable. With other CPUs `None`: the CPU leaves the thread's stack, since another
/// one may run the thread next. Else sleeps on it until one is.
fn sleep() -> Option<Arc<Task>> {
    timers::start_slice(u64::MAX);
    (!kernel_lock::is_shared()).then(wait_for_task)
}

/// Sleeps until a thread is runnable, and takes it.
fn wait_for_task() -> Arc<Task> {
    loop {
        if let Some(next) = queues::next() {
            return next;
        }
        queues::this().lock().sleeps(true);
        if cmdline::get().no_input && is_over() {
            Above::hang();
        }
        let irq = cpu::wait_for_interrupt();
        queues::this().lock().sleeps(false);
        let since = timer::ticks();
        Above::interrupt(irq);
        let spent = timer::ticks().saturating_sub(since);
        if stretch::is_long(spent) {
            stretch::without_interrupts(spent, stretch::Reason::INTERRUPT);
        }
    }
}

/// Whether no thread will ever run again, where no input comes: all CPUs sleep, and no time-out is
/// left that wakes a program. Asked by each CPU once it counts as asleep, so by the last one.
fn is_over() -> bool {
    let asleep = queues::all_asleep();
    // Looked at between two looks at the CPUs: what they do, they do awake.
    asleep.is_some() && !timers::any_for_programs() && queues::all_asleep() == asleep
}

/// Runs `next` on this CPU, or its idle loop. Returns when the caller has the CPU again.
fn switch_to(next: Option<Arc<Task>>) {
    let mut cpu = queues::this().lock();
    activate_for(next.as_deref());
    if let Some(next) = &next {
        let entity = next.entity();
        entity.times.resume();
        if cpu.is_current(next) {
            return;
        }
        entity.place_on(cpus::current());
        if fallible::is_short() {
            entity.add_work(Work::MAKE_ROOM);
        }
        timers::start_slice(match cpu.queue.is_empty() {
            true => u64::MAX,
            false => timers::now() + SLICE,
        });
    }
    let switch = Switch::new(
        cpu.current.as_deref().map(|task| &task.entity().context),
        next.as_deref()
            .map(|task| (&task.entity().context, task.entity().stack_top())),
        cpus::current(),
    );
    cpu.replace(next);
    drop(cpu);
    switch.go();
    finish_switch();
}

/// The previous thread's stack is free; on the new thread's stack.
pub fn finish_switch() {
    queues::left();
}

/// Another CPU has put a thread into this CPU's queue, perhaps: the running one has a slice then.
pub fn look() {
    if !queues::this().lock().queue.is_empty() {
        timers::share_time();
    }
}

/// Makes the thread's address space the hardware's, unless it is already. A kernel thread needs
/// none; the one before it stays, unless it may end on another CPU.
fn activate_for(task: Option<&Task>) {
    let mut user = false;
    if let Some(task) = task {
        task.with_space(|space| {
            user = true;
            space.activate();
        });
    }
    if !user && kernel_lock::is_shared() {
        empty_space().activate();
    }
}

/// Drops a reference to a thread, which may be the last one, without the kernel lock.
fn release(task: Arc<Task>) {
    if let Some(task) = Arc::into_inner(task) {
        // What is dropped with it is the kernel's.
        kernel_lock::with(|| drop(task));
    }
}

/// Ends the running thread. Nothing may be left on its stack that has to be dropped.
pub fn exit() -> ! {
    running().entity().set_state(TaskState::Dead);
    schedule();
    unreachable!("a dead thread got the CPU");
}

/// The idle loop of this CPU, on the stack on which it booted: runs threads, and sleeps when there
/// is none.
pub fn start() -> ! {
    kernel_lock::leave();
    if kernel_lock::is_shared() {
        timers::begin_to_watch();
    }
    loop {
        switch_to(Some(wait_for_task()));
    }
}

/// Takes the running thread out of its address space, for good: another thread may free it soon.
pub fn leave_space() {
    let space = running().take_space();
    empty_space().activate();
    drop(space);
}

/// The empty address space. It is made before the first thread runs: when a process ends because
/// there is no memory, there is none for this either.
pub fn empty_space() -> &'static Space {
    static EMPTY: spin::Once<Space> = spin::Once::new();
    EMPTY.call_once(|| {
        Space::new(crate::base::machine::mm()).expect("memory for an empty address space")
    })
}
