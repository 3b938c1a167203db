//! The scheduler's part of a thread.

use super::switch::Context;
use super::times::Times;
use crate::base::kstack::KernelStack;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

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
}

impl TaskState {
    fn from_u8(raw: u8) -> Self {
        [
            Self::Runnable,
            Self::Interruptible,
            Self::Killable,
            Self::Stopped,
            Self::Dead,
            Self::Preparing,
        ][usize::from(raw)]
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
    }
}

/// The scheduler's part of a thread: its kernel stack, its state, what it has to do, its times.
pub struct Entity {
    stack: KernelStack,
    pub(super) context: Context,
    state: AtomicU8,
    work: AtomicU32,
    /// CPU time.
    pub times: Times,
    voluntary_switches: AtomicU64,
    involuntary_switches: AtomicU64,
}

impl Entity {
    /// A runnable thread that starts on `stack` and has `work` to do before user mode.
    pub fn new(stack: KernelStack, work: Work) -> Entity {
        Entity {
            context: Context::new(stack.top()),
            stack,
            state: AtomicU8::new(TaskState::Runnable as u8),
            work: AtomicU32::new(work.bits()),
            times: Times::new(),
            voluntary_switches: AtomicU64::new(0),
            involuntary_switches: AtomicU64::new(0),
        }
    }

    /// The top of its kernel stack.
    pub(super) fn stack_top(&self) -> u64 {
        self.stack.top()
    }

    /// Its state.
    pub fn state(&self) -> TaskState {
        TaskState::from_u8(self.state.load(Relaxed))
    }

    /// Only for the scheduler and for the thread itself, before it gives up the CPU.
    pub fn set_state(&self, state: TaskState) {
        self.state.store(state as u8, Relaxed);
    }

    /// The state letter of /proc/PID/stat.
    pub fn state_letter(&self) -> char {
        match self.state() {
            TaskState::Runnable | TaskState::Preparing => 'R',
            TaskState::Interruptible => 'S',
            TaskState::Killable => 'D',
            TaskState::Stopped => 'T',
            TaskState::Dead => 'Z',
        }
    }

    /// What is to be done before user mode; empty nearly always.
    #[inline]
    pub fn work(&self) -> Work {
        Work::from_bits_retain(self.work.load(Relaxed))
    }

    /// Adds to what is to be done.
    pub fn add_work(&self, work: Work) {
        self.work.fetch_or(work.bits(), Relaxed);
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
