//! Processes: a thread group and what its threads share.

use super::calls::CallSet;
use super::credentials::Credentials;
use super::faults::{FaultCounts, Faults};
use super::image::Image;
use super::limits::ResourceLimits;
use super::oom::Adjustment;
use super::space::SpaceRef;
use super::times::ProcessTimes;
use super::{Pid, Task, table};
use crate::base::machine::Space;
use crate::base::ranks;
use crate::process::core_dump::Remains;
use crate::process::posix_timers::PosixTimers;
use crate::process::signal::{Handlers, Pending, SIGCHLD, StopState};
use crate::sched::timers;
use crate::sched::wait::WaitQueue;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use mm::sync::Lock;

/// No group exit yet: not a wait status.
pub(super) const NO_STATUS: i32 = -1;

/// A thread group.
pub struct Process {
    pid: Pid,
    ppid: AtomicI32,
    pub(super) pgid: AtomicI32,
    pub(super) sid: AtomicI32,
    /// Its address space; `None` once it has ended.
    pub space: SpaceRef,
    pub(super) image: Lock<Image, { ranks::PROCESS }>,
    pub(super) threads: Lock<Vec<Arc<Task>>, { ranks::PROCESS }>,
    pub(super) children: Lock<Vec<Arc<Process>>, { ranks::PROCESS }>,
    pub(super) limits: Lock<ResourceLimits, { ranks::PROCESS }>,
    pub(super) credentials: Lock<Credentials, { ranks::PROCESS }>,
    /// CPU time of threads that ended, and of children that were waited for.
    pub(super) past_times: Lock<ProcessTimes, { ranks::PROCESS }>,
    pub(crate) pending: Lock<Pending, { ranks::SIGNAL }>,
    pub(super) handlers: Lock<Arc<Handlers>, { ranks::SIGNAL }>,
    /// What its threads leave behind for a core dump that is being made.
    pub(crate) remains: Lock<Option<Box<Remains>>, { ranks::PROCESS }>,
    /// Threads that its own threads trace.
    pub(crate) tracees: Lock<Vec<Arc<Task>>, { ranks::PROCESS }>,
    /// The process that traces its leader; 0 for none.
    pub(crate) tracer: AtomicI32,
    pub(crate) stop: Lock<StopState, { ranks::SIGNAL }>,
    pub(crate) timers: Lock<PosixTimers, { ranks::PROCESS }>,
    pub(super) real_timer: Lock<super::times::RealTimer, { ranks::SIGNAL }>,
    /// Sent to the parent at the end; 0 for none.
    pub(super) exit_signal: AtomicI32,
    /// Wait status of exit_group or of the signal that ends all threads.
    pub(super) group_exit: AtomicI32,
    /// Wait status of the leader, then of the process.
    pub(super) status: AtomicI32,
    pub(super) ended: AtomicBool,
    /// It has no address space any more, and its pages are being freed.
    pub(super) releases_memory: AtomicBool,
    /// The thread that does execve while the others end; 0 for none.
    pub(super) exec_thread: AtomicI32,
    nice: AtomicI32,
    start_ns: u64,
    /// Asked for by prctl(PR_SET_PDEATHSIG); 0 for none.
    pub(crate) parent_death_signal: AtomicI32,
    /// prctl(PR_SET_DUMPABLE).
    pub(crate) dumpable: AtomicU32,
    /// personality(2).
    pub(crate) personality: AtomicU32,
    pub(crate) did_exec: AtomicBool,
    /// prctl(PR_SET_CHILD_SUBREAPER): becomes the parent of its descendants' orphans.
    pub(crate) subreaper: AtomicBool,
    /// It has registered for membarrier(2)'s commands about one process.
    pub(crate) barriers: AtomicBool,
    /// PID 1, until a fault of its own: signals whose action is the default do nothing to it,
    /// kill(2).
    pub(crate) protected: AtomicBool,
    /// From which heap allocation on its system calls find no memory; 0 for none. See
    /// [`crate::base::heap::fail`].
    pub(crate) heap_fail: AtomicU32,
    /// Page faults that were resolved, of threads that have ended.
    pub(super) past_faults: FaultCounts,
    pub(super) children_faults: FaultCounts,
    /// prctl(PR_SET_NO_NEW_PRIVS).
    pub(crate) no_new_privs: AtomicBool,
    /// /proc/PID/oom_score_adj.
    pub(crate) oom: Adjustment,
    /// A child has ended, stopped or continued.
    pub child_events: WaitQueue,
    /// The process has ended (pidfd).
    pub exit_events: WaitQueue,
    /// A blocked signal has arrived (sigtimedwait).
    pub(crate) signal_queue: WaitQueue,
    /// A thread has ended (execve waits for the others).
    pub(super) thread_events: WaitQueue,
    /// Largest resident set so far of children that were waited for, in pages.
    pub(super) children_peak_rss: AtomicU64,
    pub(super) last_peak_rss: AtomicU64,
    pub(crate) unknown_calls: Lock<CallSet, { ranks::PROCESS }>,
}

/// Initial state of a process.
struct Beginning {
    space: Space,
    limits: ResourceLimits,
    image: Image,
    credentials: Credentials,
    handlers: Arc<Handlers>,
}

impl Process {
    /// PID 1, before its first execve: in no session and no group of its own, as Linux starts it.
    pub(super) fn first(pid: Pid, space: Space, limits: ResourceLimits) -> Self {
        let beginning = Beginning {
            space,
            limits,
            image: Image::NONE,
            credentials: Credentials::default(),
            handlers: Handlers::new(),
        };
        Self::new(pid, beginning)
    }

    #[inline]
    fn new(pid: Pid, beginning: Beginning) -> Self {
        Self {
            pid,
            ppid: AtomicI32::new(0),
            pgid: AtomicI32::new(0),
            sid: AtomicI32::new(0),
            space: SpaceRef::new(Some(beginning.space)),
            image: Lock::new(beginning.image),
            threads: Lock::new(Vec::new()),
            children: Lock::new(Vec::new()),
            limits: Lock::new(beginning.limits),
            credentials: Lock::new(beginning.credentials),
            past_times: Lock::new(ProcessTimes::default()),
            pending: Lock::new(Pending::default()),
            handlers: Lock::new(beginning.handlers),
            remains: Lock::new(None),
            tracees: Lock::new(Vec::new()),
            tracer: AtomicI32::new(0),
            stop: Lock::new(StopState::RUNNING),
            timers: Lock::new(PosixTimers::default()),
            real_timer: Lock::new(super::times::RealTimer::default()),
            exit_signal: AtomicI32::new(SIGCHLD),
            group_exit: AtomicI32::new(NO_STATUS),
            status: AtomicI32::new(0),
            ended: AtomicBool::new(false),
            releases_memory: AtomicBool::new(false),
            exec_thread: AtomicI32::new(0),
            nice: AtomicI32::new(0),
            start_ns: timers::now(),
            parent_death_signal: AtomicI32::new(0),
            dumpable: AtomicU32::new(1),
            personality: AtomicU32::new(0),
            did_exec: AtomicBool::new(false),
            subreaper: AtomicBool::new(false),
            barriers: AtomicBool::new(false),
            protected: AtomicBool::new(pid == 1),
            heap_fail: AtomicU32::new(0),
            past_faults: FaultCounts::default(),
            children_faults: FaultCounts::default(),
            no_new_privs: AtomicBool::new(false),
            oom: Adjustment::default(),
            child_events: WaitQueue::new(),
            exit_events: WaitQueue::new(),
            signal_queue: WaitQueue::new(),
            thread_events: WaitQueue::new(),
            children_peak_rss: AtomicU64::new(0),
            last_peak_rss: AtomicU64::new(0),
            unknown_calls: Lock::new(CallSet::new()),
        }
    }

    /// Makes a child of this process with number `pid`, which starts with `space`, `handlers` and
    /// `exit_signal`.
    pub(super) fn child(
        &self,
        pid: Pid,
        space: Space,
        handlers: Arc<Handlers>,
        exit_signal: i32,
    ) -> Self {
        let beginning = Beginning {
            space,
            limits: self.limits(),
            image: self.image(),
            credentials: self.credentials(Credentials::clone),
            handlers,
        };
        let mut child = Self::new(pid, beginning);
        child.oom = self.oom.inherit();
        child.ppid.store(self.pid, Relaxed);
        child.pgid.store(self.pgid(), Relaxed);
        child.sid.store(self.sid(), Relaxed);
        child.exit_signal.store(exit_signal, Relaxed);
        child.set_nice(self.nice());
        child.heap_fail.store(self.heap_fail.load(Relaxed), Relaxed);
        child.barriers.store(self.barriers.load(Relaxed), Relaxed);
        child.dumpable.store(self.dumpable.load(Relaxed), Relaxed);
        child
            .personality
            .store(self.personality.load(Relaxed), Relaxed);
        child
            .no_new_privs
            .store(self.no_new_privs.load(Relaxed), Relaxed);
        child
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its parent's number; 0 for PID 1.
    pub fn ppid(&self) -> Pid {
        self.ppid.load(Relaxed)
    }

    pub(super) fn set_ppid(&self, pid: Pid) {
        self.ppid.store(pid, Relaxed);
    }

    /// Its parent.
    pub fn parent(&self) -> Option<Arc<Process>> {
        table::find(self.ppid())
    }

    /// The leader's name; that of the last thread when the leader has ended.
    pub fn comm(&self) -> String {
        self.leader()
            .map_or_else(|| self.last_comm(), |task| task.comm())
    }

    fn last_comm(&self) -> String {
        self.image().exe.map_or_else(String::new, |exe| {
            let path = exe.path();
            let name = path.rsplit('/').next().unwrap_or_default();
            name.chars().take(15).collect()
        })
    }

    /// The first thread that is still there, the leader if it is.
    pub fn leader(&self) -> Option<Arc<Task>> {
        self.threads.lock().first().cloned()
    }

    /// The state letter of /proc/PID/stat.
    pub fn state(&self) -> char {
        self.leader().map_or('Z', |task| task.sched.state_letter())
    }

    /// Its threads, the leader first, while none begins or ends: each is looked up when it is asked
    /// for.
    pub fn threads(&self) -> impl Iterator<Item = Arc<Task>> {
        (0..).map_while(|at| self.threads.lock().get(at).cloned())
    }

    /// Calls `f` with its threads, under a lock: `f` may send and wake, not sleep.
    pub fn with_threads<R>(&self, f: impl FnOnce(&[Arc<Task>]) -> R) -> R {
        f(&self.threads.lock())
    }

    /// Whether it has memory, or its memory is being freed.
    pub fn has_memory(&self) -> bool {
        self.space.with(|_| ()).is_some() || self.releases_memory.load(Relaxed)
    }

    /// When it was made, in ns since boot.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Page faults of its own and of children that were waited for.
    pub fn faults(&self) -> (Faults, Faults) {
        let threads = self.threads.lock();
        let now: Faults = threads.iter().map(|task| task.faults.get()).sum();
        (now + self.past_faults.get(), self.children_faults.get())
    }

    /// Largest resident set of children that were waited for, in pages.
    pub fn children_peak_rss(&self) -> u64 {
        self.children_peak_rss.load(Relaxed)
    }

    /// -20 to 19.
    pub fn nice(&self) -> i32 {
        self.nice.load(Relaxed)
    }

    /// Sets it, within -20 to 19.
    pub fn set_nice(&self, nice: i32) {
        self.nice.store(nice.clamp(-20, 19), Relaxed);
    }
}
