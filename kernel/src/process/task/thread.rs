//! A thread: a task of the scheduler with its process, files and signals.

use super::faults::FaultCounts;
use super::space::SpaceRef;
use super::{Pid, Process};
use crate::arch::trap::UserContext;
use crate::base::kstack::KernelStack;
use crate::base::ranks;
use crate::fs::{FdTable, FsContext};
use crate::process::signal::{Pending, SigSet};
use crate::process::trace::Trace;
use crate::sched::wait::Completion;
use crate::sched::{self, Entity, Work};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use linux_raw_sys::general as abi;
use locks::Place;
use mm::sync::Lock;

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

/// A thread: kernel stack, scheduling state, its signals, its share of files. On cache lines of its
/// own: its CPU writes it at each entry to the kernel.
#[repr(align(64))]
pub struct Task {
    tid: AtomicI32,
    process: Arc<Process>,
    /// The scheduler's part of it.
    pub sched: Entity,
    blocked: AtomicU64,
    /// It runs no user mode while its process is stopped.
    pub has_stopped: AtomicBool,
    /// It does: its tracer has sent it on alone.
    pub(crate) passes_stop: AtomicBool,
    /// The mask that RESTORE_MASK puts back.
    pub(crate) saved_mask: AtomicU64,
    pub(crate) pending: Lock<Pending, { ranks::SIGNAL }>,
    pub(crate) trace: Lock<Option<Box<Trace>>, { ranks::SIGNAL }>,
    pub(crate) alt_stack: Lock<AltStack, { ranks::SIGNAL }>,
    /// Absolute end of a sleep that continues after a stop, in ns; 0 for none.
    pub(crate) restart_deadline: AtomicU64,
    /// Its process's address space; `None` when it does not run there any more. Its own, so that
    /// the threads of a process do not wait for each other to find it.
    pub space: SpaceRef,
    files: Lock<Option<Arc<FdTable>>, { ranks::TASK }>,
    fs: Lock<Option<Arc<FsContext>>, { ranks::TASK }>,
    /// The name's 16 bytes. In two words without a lock: a reader during a change sees half of
    /// each.
    comm: [AtomicU64; 2],
    /// set_tid_address(2): cleared and woken at exit; 0 for none.
    pub(crate) clear_child_tid: AtomicU64,
    /// set_robust_list(2): the head of the list; 0 for none.
    pub(crate) robust_list: AtomicU64,
    /// Where it sleeps in futex(2).
    pub(crate) futex: Place,
    /// Page faults that were resolved. Only its own CPU writes it.
    pub faults: FaultCounts,
    /// Completed when a vfork child has its own space, or has ended.
    pub(crate) vfork_done: Lock<Option<Arc<Completion>>, { ranks::TASK }>,
    /// Its first action when it runs; `None` afterwards.
    pub(super) start: Lock<Option<Start>, { ranks::TASK }>,
    /// Wait status of an exit or exit_group, once [`Work::EXIT`] is set.
    pub(super) exit_status: AtomicI32,
    /// SCHED_* as sched_setscheduler(2) has set it; all that can be set are scheduled alike.
    policy: AtomicU32,
}

/// The parts of a new thread.
pub(super) struct NewTask {
    pub tid: Pid,
    pub process: Arc<Process>,
    /// A thread of the kernel's own has none of the two.
    pub files: Option<Arc<FdTable>>,
    pub fs: Option<Arc<FsContext>>,
    pub comm: [u8; 16],
    pub blocked: SigSet,
    pub alt_stack: AltStack,
    pub policy: u32,
    pub start: Start,
}

/// First action of a thread.
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
        let space = new.process.space.get();
        let allowed = sched::current().map_or(u64::MAX, |parent| parent.sched.allowed());
        Arc::new(Task {
            tid: AtomicI32::new(new.tid),
            process: new.process,
            sched: Entity::new(stack, work, allowed),
            blocked: AtomicU64::new(new.blocked),
            saved_mask: AtomicU64::new(0),
            has_stopped: AtomicBool::new(false),
            passes_stop: AtomicBool::new(false),
            pending: Lock::new(Pending::default()),
            trace: Lock::new(None),
            alt_stack: Lock::new(new.alt_stack),
            restart_deadline: AtomicU64::new(0),
            space: SpaceRef::new(space),
            files: Lock::new(new.files),
            fs: Lock::new(new.fs),
            comm: words(new.comm).map(AtomicU64::new),
            clear_child_tid: AtomicU64::new(0),
            robust_list: AtomicU64::new(0),
            futex: Place::new(),
            faults: FaultCounts::default(),
            vfork_done: Lock::new(None),
            start: Lock::new(Some(new.start)),
            exit_status: AtomicI32::new(0),
            policy: AtomicU32::new(new.policy),
        })
    }

    /// Its number, as gettid(2) returns it.
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

    /// Its open files. Panics in a thread that has ended: other threads use [`Task::try_files`].
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

    /// Replaces its table of open files (execve and unshare copy a shared one).
    pub fn set_files(&self, files: Arc<FdTable>) {
        let old = self.files.lock().replace(files);
        drop(old);
    }

    /// At the end: drops files and directories; closing them may do a lot, so no lock is held.
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

    /// Its scheduling policy, SCHED_RESET_ON_FORK included: sched_getscheduler(2).
    pub fn policy(&self) -> u32 {
        self.policy.load(Relaxed)
    }

    /// Sets its scheduling policy.
    pub fn set_policy(&self, policy: u32) {
        self.policy.store(policy, Relaxed);
    }

    /// The policy of a thread or child that it makes: SCHED_RESET_ON_FORK resets others than those
    /// that can be set.
    pub(super) fn policy_of_child(&self) -> u32 {
        self.policy() & !abi::SCHED_RESET_ON_FORK
    }

    /// Its first action; taken once.
    pub(crate) fn take_start(&self) -> Start {
        self.start.lock().take().expect("a thread starts once")
    }

    /// The signal that has stopped its process, while it stops, too.
    pub(crate) fn stopped_by(&self) -> Option<i32> {
        let signo = self.process.stop.lock().signal();
        signo.filter(|_| !self.passes_stop.load(Relaxed))
    }

    /// Its wait status once it is to end; of the leader, that of a process that has ended.
    pub(crate) fn last_status(&self) -> i32 {
        match self.process.has_ended() {
            true if self.tid() == self.process.pid() => self.process.exit_status(),
            _ => self.exit_status.load(Relaxed),
        }
    }

    /// The signals it has blocked.
    pub fn blocked(&self) -> SigSet {
        self.blocked.load(Relaxed)
    }

    /// Only for [`crate::process::signal::set_blocked`], which also checks whether a pending one is
    /// free now.
    pub(crate) fn store_blocked(&self, set: SigSet) {
        self.blocked.store(set, Relaxed);
    }
}
