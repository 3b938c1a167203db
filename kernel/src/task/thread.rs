//! A thread.

use super::times::Times;
use super::{Context, Pid, Process};
use crate::arch::trap::UserContext;
use crate::fs::{FdTable, FsContext};
use crate::kstack::KernelStack;
use crate::ranks;
use crate::signal::{Pending, SigSet};
use crate::wait::Completion;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use mm::sync::Lock;

/// What the scheduler may do with a thread.
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
        /// A reserve was used, by a fault in a system call or by the kernel's heap: it is to be made up for.
        const MAKE_ROOM = 1 << 5;
        /// Nothing to be done: its allocations fail, see [`crate::heap::fail`].
        const HEAP_FAILS = 1 << 6;
    }
}

/// sigaltstack(2).
#[derive(Clone, Copy, Debug)]
pub struct AltStack {
    /// The lowest address.
    pub base: u64,
    /// Bytes; 0 for none.
    pub size: u64,
    /// SS_AUTODISARM or 0.
    pub flags: u32,
}

impl AltStack {
    /// No alternate stack.
    pub const NONE: AltStack = AltStack {
        base: 0,
        size: 0,
        flags: 0,
    };
}

fn words(bytes: [u8; 16]) -> [u64; 2] {
    let all = u128::from_le_bytes(bytes);
    [all as u64, (all >> 64) as u64]
}

/// The bytes of a name from its two words.
fn bytes(words: [u64; 2]) -> [u8; 16] {
    (u128::from(words[0]) | u128::from(words[1]) << 64).to_le_bytes()
}

/// A thread: kernel stack, scheduling state, its signals, its share of files.
pub struct Task {
    tid: AtomicI32,
    process: Arc<Process>,
    stack: KernelStack,
    pub(super) context: Context,
    state: AtomicU8,
    work: AtomicU32,
    blocked: AtomicU64,
    /// The mask that RESTORE_MASK puts back.
    pub(crate) saved_mask: AtomicU64,
    pub(crate) pending: Lock<Pending, { ranks::SIGNAL }>,
    pub(crate) alt_stack: Lock<AltStack, { ranks::SIGNAL }>,
    /// Absolute end of a sleep that is to go on after a stop, in ns; 0 for none.
    pub(crate) restart_deadline: AtomicU64,
    files: Lock<Option<Arc<FdTable>>, { ranks::TASK }>,
    fs: Lock<Option<Arc<FsContext>>, { ranks::TASK }>,
    /// The name's 16 bytes. In two words without a lock: who reads while it changes sees half of each.
    comm: [AtomicU64; 2],
    /// CPU time.
    pub times: Times,
    /// set_tid_address(2): cleared and woken at exit; 0 for none.
    pub(crate) clear_child_tid: AtomicU64,
    /// Told when a vfork child has got its own space, or has ended.
    pub(crate) vfork_done: Lock<Option<Arc<Completion>>, { ranks::TASK }>,
    /// What it does when it runs for the first time; `None` afterwards.
    pub(super) start: Lock<Option<Start>, { ranks::TASK }>,
    /// Wait status of an exit or exit_group, once [`Work::EXIT`] is set.
    pub(super) exit_status: AtomicI32,
    voluntary_switches: AtomicU64,
    involuntary_switches: AtomicU64,
}

/// What a new thread gets.
pub(super) struct NewTask {
    pub tid: Pid,
    pub process: Arc<Process>,
    /// A thread of the kernel's own has none of the two.
    pub files: Option<Arc<FdTable>>,
    pub fs: Option<Arc<FsContext>>,
    pub comm: [u8; 16],
    pub blocked: SigSet,
    pub alt_stack: AltStack,
    pub start: Start,
}

/// What a thread does first.
pub enum Start {
    /// Goes to user mode with these registers.
    User(Box<UserContext>),
    /// Runs a function of the kernel's.
    Kernel(fn() -> !),
}

impl Task {
    pub(super) fn new(new: NewTask, stack: KernelStack) -> Arc<Task> {
        let work = match new.process.heap_fail.load(Relaxed) {
            0 => Work::empty(),
            _ => Work::HEAP_FAILS,
        };
        Arc::new(Task {
            tid: AtomicI32::new(new.tid),
            process: new.process,
            context: Context::new(stack.top()),
            stack,
            state: AtomicU8::new(TaskState::Runnable as u8),
            work: AtomicU32::new(work.bits()),
            blocked: AtomicU64::new(new.blocked),
            saved_mask: AtomicU64::new(0),
            pending: Lock::new(Pending::new()),
            alt_stack: Lock::new(new.alt_stack),
            restart_deadline: AtomicU64::new(0),
            files: Lock::new(new.files),
            fs: Lock::new(new.fs),
            comm: words(new.comm).map(AtomicU64::new),
            times: Times::new(),
            clear_child_tid: AtomicU64::new(0),
            vfork_done: Lock::new(None),
            start: Lock::new(Some(new.start)),
            exit_status: AtomicI32::new(0),
            voluntary_switches: AtomicU64::new(0),
            involuntary_switches: AtomicU64::new(0),
        })
    }

    /// Its number, as gettid(2) tells it.
    pub fn tid(&self) -> Pid {
        self.tid.load(Relaxed)
    }

    /// execve in a thread that is not the leader takes over the leader's number.
    pub(super) fn set_tid(&self, tid: Pid) {
        self.tid.store(tid, Relaxed);
    }

    /// Its thread group.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// The top of its kernel stack.
    pub(super) fn stack_top(&self) -> u64 {
        self.stack.top()
    }

    /// Its open files. Panics in a thread that has ended: only others may look there, with [`Task::try_files`].
    pub fn files(&self) -> Arc<FdTable> {
        self.try_files().expect("a running thread has files")
    }

    /// Its open files, `None` once it has ended.
    pub fn try_files(&self) -> Option<Arc<FdTable>> {
        self.files.lock().clone()
    }

    /// Root, working directory and umask. Panics in a thread that has ended, see [`Task::try_fs`].
    pub fn fs(&self) -> Arc<FsContext> {
        self.try_fs()
            .expect("a running thread has a working directory")
    }

    /// Root, working directory and umask; `None` once it has ended.
    pub fn try_fs(&self) -> Option<Arc<FsContext>> {
        self.fs.lock().clone()
    }

    /// Gives it another table of open files (execve and unshare make a shared one its own).
    pub fn set_files(&self, files: Arc<FdTable>) {
        let old = self.files.lock().replace(files);
        drop(old);
    }

    /// At the end: lets go of files and directories; closing them may do a lot, so no lock is held.
    pub(super) fn drop_files(&self) {
        let files = self.files.lock().take();
        let fs = self.fs.lock().take();
        if let Some(files) = files.and_then(Arc::into_inner) {
            files.close_range(0, u32::MAX);
        }
        drop(fs);
    }

    /// Its name, at most 15 bytes.
    pub fn comm(&self) -> String {
        let comm = self.comm_bytes();
        let end = comm.iter().position(|b| *b == 0).unwrap_or(comm.len());
        String::from_utf8_lossy(&comm[..end]).into_owned()
    }

    /// The name as prctl(PR_GET_NAME) copies it: 16 bytes with the NUL.
    pub fn comm_bytes(&self) -> [u8; 16] {
        bytes(self.comm_words())
    }

    /// The name's bytes in two words.
    pub(crate) fn comm_words(&self) -> [u64; 2] {
        [self.comm[0].load(Relaxed), self.comm[1].load(Relaxed)]
    }

    /// Sets the name; bytes after the 15th are dropped.
    pub fn set_comm(&self, name: &[u8]) {
        let mut comm = [0; 16];
        let len = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        let len = len.min(15);
        comm[..len].copy_from_slice(&name[..len]);
        for (word, value) in self.comm.iter().zip(words(comm)) {
            word.store(value, Relaxed);
        }
    }

    /// What the scheduler may do with it.
    pub fn state(&self) -> TaskState {
        TaskState::from_u8(self.state.load(Relaxed))
    }

    /// Only for the scheduler and for the thread itself, before it gives up the CPU.
    pub(crate) fn set_state(&self, state: TaskState) {
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

    /// What it does first; taken once.
    pub(crate) fn take_start(&self) -> Start {
        self.start.lock().take().expect("a thread starts once")
    }

    /// It gave up the CPU because it had to wait.
    pub(crate) fn count_voluntary_switch(&self) {
        self.voluntary_switches.fetch_add(1, Relaxed);
    }

    /// It gave up the CPU because its slice was over.
    pub(crate) fn count_involuntary_switch(&self) {
        self.involuntary_switches.fetch_add(1, Relaxed);
    }

    /// Voluntary and involuntary context switches.
    pub fn switches(&self) -> (u64, u64) {
        (
            self.voluntary_switches.load(Relaxed),
            self.involuntary_switches.load(Relaxed),
        )
    }

    /// The signals it has blocked.
    pub fn blocked(&self) -> SigSet {
        self.blocked.load(Relaxed)
    }

    /// Only for [`crate::signal::set_blocked`], which also looks whether a pending one is free now.
    pub(crate) fn store_blocked(&self, set: SigSet) {
        self.blocked.store(set, Relaxed);
    }
}
