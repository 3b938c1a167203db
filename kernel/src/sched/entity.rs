//! The scheduler's part of a thread.

use super::switch::Context;
use super::times::Times;
use crate::arch;
use crate::base::cpus;
use crate::base::kstack::KernelStack;
use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};

/// State of a thread in the scheduler.
///
/// ```text
///            block()                    stop (signal)
/// Runnable ----------> Interruptible ...  Stopped
///    ^  \                Killable            |
///    |   \                                   |
///    |    \ exit             | wake          | SIGCONT, SIGKILL
///    |     v                 v               v
///    |    Dead            Runnable <---------+
///    +-- the queue gives it the CPU
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum TaskState {
    /// Has the CPU or waits for it.
    Runnable = 0,
    /// Sleeps until woken or until a signal is to be handled.
    Interruptible = 1,
    /// Sleeps until woken or killed.
    Killable = 2,
    /// Stopped by a signal.
    Stopped = 3,
    /// Will never run again.
    Dead = 4,
    /// Has the CPU or waits for it, and will sleep unless something wakes it before.
    Preparing = 5,
    /// Stopped for the parent that traces it.
    Traced = 6,
}

impl TaskState {
    fn from_u8(raw: u8) -> Self {
        // The last one is no state: with it no index is out of bounds.
        const STATES: [TaskState; 8] = [
            TaskState::Runnable,
            TaskState::Interruptible,
            TaskState::Killable,
            TaskState::Stopped,
            TaskState::Dead,
            TaskState::Preparing,
            TaskState::Traced,
            TaskState::Dead,
        ];
        STATES[usize::from(raw) % STATES.len()]
    }
}

bitflags::bitflags! {
    /// What a thread has to do before it may go back to user mode.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Work: u32 {
        /// A signal may have to be handled, or the process stops or ends.
        const SIGNAL = 1 << 0;
        /// Its time slice is over.
        const RESCHEDULE = 1 << 1;
        /// It ends: the exit status is set.
        const EXIT = 1 << 2;
        /// The signal mask of before sigsuspend, ppoll or pselect is to be put back.
        const RESTORE_MASK = 1 << 3;
        /// There was no memory for a fault in a system call: it is to be killed.
        const OUT_OF_MEMORY = 1 << 4;
        /// A reserve was used, by a fault in a system call or by the kernel's heap: it is to be
        /// made up for.
        const MAKE_ROOM = 1 << 5;
        /// Nothing to be done: its allocations fail, see [`crate::base::heap::fail`].
        const HEAP_FAILS = 1 << 6;
        /// Nothing to be done: its parent traces it.
        const TRACED = 1 << 7;
        /// What is about all that it does.
        const LASTING = Self::HEAP_FAILS.bits() | Self::TRACED.bits();
    }
}

/// The scheduler's part of a thread: its kernel stack, its state, what it has to do, its times.
pub struct Entity {
    stack: KernelStack,
    pub(super) context: Context,
    state: AtomicU8,
    work: AtomicU32,
    /// The number of the CPU that it runs on or ran on last.
    cpu: AtomicUsize,
    /// Whether its stack and registers are in use on that CPU.
    on_cpu: AtomicBool,
    /// The CPUs on which it may run, a bit each.
    allowed: AtomicU64,
    /// CPU time.
    pub times: Times,
    voluntary_switches: AtomicU64,
    involuntary_switches: AtomicU64,
}

impl Entity {
    /// A runnable thread that starts on `stack`, has `work` to do before user mode, and may run on
    /// the CPUs `allowed`.
    pub fn new(stack: KernelStack, work: Work, allowed: u64) -> Entity {
        Entity {
            context: Context::new(stack.top()),
            stack,
            state: AtomicU8::new(TaskState::Runnable as u8),
            work: AtomicU32::new(work.bits()),
            cpu: AtomicUsize::new(cpus::current()),
            on_cpu: AtomicBool::new(false),
            allowed: AtomicU64::new(allowed),
            times: Times::new(),
            voluntary_switches: AtomicU64::new(0),
            involuntary_switches: AtomicU64::new(0),
        }
    }

    /// The top of its kernel stack.
    pub(super) fn stack_top(&self) -> u64 {
        self.stack.top()
    }

    /// The number of the CPU that it runs on, waits for, or ran on last.
    pub fn last_cpu(&self) -> usize {
        self.cpu.load(Relaxed)
    }

    /// Whether its stack and registers are in use on that CPU. Acquire pairs with `leave_cpu`: when
    /// they are not, they are saved.
    pub(super) fn is_on_cpu(&self) -> bool {
        self.on_cpu.load(Acquire)
    }

    /// Where it waits, for a report: its pc and its frame pointer. `None` when it has a CPU.
    pub fn waits_at(&self) -> Option<(u64, u64)> {
        match self.is_on_cpu() {
            true => None,
            false => self.context.waits_at(),
        }
    }

    /// The CPUs on which it may run, a bit each: sched_getaffinity(2).
    pub fn allowed(&self) -> u64 {
        self.allowed.load(Relaxed)
    }

    /// Whether it may run on this CPU.
    pub(super) fn may_run_on(&self, cpu: usize) -> bool {
        self.allowed() & 1 << cpu != 0
    }

    /// Sets the CPUs on which it may run. It is still where it is.
    pub fn allow(&self, cpus: u64) {
        self.allowed.store(cpus, Relaxed);
    }

    /// It waits for this CPU.
    pub(super) fn assign(&self, cpu: usize) {
        self.cpu.store(cpu, Relaxed);
    }

    /// It gets this CPU.
    pub(super) fn place_on(&self, cpu: usize) {
        self.assign(cpu);
        self.on_cpu.store(true, Relaxed);
        fence(SeqCst);
    }

    /// Its CPU has left its stack.
    pub(super) fn leave_cpu(&self) {
        self.on_cpu.store(false, Release);
    }

    /// Its state.
    pub fn state(&self) -> TaskState {
        TaskState::from_u8(self.state.load(Acquire))
    }

    /// The running thread will sleep unless it is woken before. What it looks at afterwards, the
    /// code that wakes it has changed before; [`Self::change_state`] has the other fence.
    pub fn prepare(&self) {
        self.state.store(TaskState::Preparing as u8, Relaxed);
        fence(SeqCst);
    }

    /// The running thread sleeps, or is dead, as soon as it gives up the CPU; `false`: it was woken
    /// since [`Self::prepare`], and is runnable.
    pub fn settle(&self, state: TaskState) -> bool {
        let (preparing, state) = (TaskState::Preparing as u8, state as u8);
        let settled = self
            .state
            .compare_exchange(preparing, state, AcqRel, Acquire);
        settled.is_ok()
    }

    /// The running thread does not sleep after all, or will never run again.
    pub fn set_state(&self, state: TaskState) {
        self.state.store(state as u8, Release);
    }

    /// Makes it runnable if its state is one that `may` accepts, or [`TaskState::Preparing`]. The
    /// state that it had; `None`: it is left alone.
    pub(super) fn make_runnable(&self, may: impl Fn(TaskState) -> bool) -> Option<TaskState> {
        // Between what the caller has changed and the state; the other one is in `prepare`.
        fence(SeqCst);
        let runnable = |raw: u8| {
            let state = TaskState::from_u8(raw);
            (state == TaskState::Preparing || may(state)).then_some(TaskState::Runnable as u8)
        };
        let was = self.state.fetch_update(AcqRel, Acquire, runnable);
        was.ok().map(TaskState::from_u8)
    }

    /// The state letter of /proc/PID/stat.
    pub fn state_letter(&self) -> char {
        match self.state() {
            TaskState::Runnable | TaskState::Preparing => 'R',
            TaskState::Interruptible => 'S',
            TaskState::Killable => 'D',
            TaskState::Stopped => 'T',
            TaskState::Traced => 't',
            TaskState::Dead => 'Z',
        }
    }

    /// What is to be done before user mode; empty nearly always.
    #[inline]
    pub fn work(&self) -> Work {
        // Relaxed: what the work is about is behind locks.
        Work::from_bits_retain(self.work.load(Relaxed))
    }

    /// Adds to what is to be done. If the thread runs on another CPU, that one is interrupted, and
    /// finds the work on its way back to user mode.
    pub fn add_work(&self, work: Work) {
        self.work.fetch_or(work.bits(), Relaxed);
        // Pairs with the one in `place_on`: either this sees the thread on its CPU, or that CPU
        // sees the work.
        fence(SeqCst);
        if self.is_on_cpu() && self.last_cpu() != cpus::current() {
            arch::cpus::interrupt(self.last_cpu());
        }
    }

    /// Takes from what is to be done.
    pub fn clear_work(&self, work: Work) {
        self.work.fetch_and(!work.bits(), Relaxed);
    }

    /// It gave up the CPU because it had to wait.
    pub fn count_voluntary_switch(&self) {
        self.voluntary_switches.fetch_add(1, Relaxed);
    }

    /// It gave up the CPU because its slice was over.
    pub fn count_involuntary_switch(&self) {
        self.involuntary_switches.fetch_add(1, Relaxed);
    }

    /// Voluntary and involuntary context switches.
    pub fn switches(&self) -> (u64, u64) {
        (
            self.voluntary_switches.load(Relaxed),
            self.involuntary_switches.load(Relaxed),
        )
    }
}
