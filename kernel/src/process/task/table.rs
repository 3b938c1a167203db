//! The table of processes and threads, by number.

use super::membership::Groups;
use super::{Pid, Process, Task};
use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::sched;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicI64, Ordering::Relaxed};
use locks::Apart;
use mm::sync::Lock;

/// /proc/sys/kernel/pid_max: numbers go from 1 to the one below, then again from the low ones that
/// are free. Source: proc(5).
pub static PID_MAX: AtomicI64 = AtomicI64::new(32768);
/// What it can be set to.
pub const PID_MAX_RANGE: RangeInclusive<i64> = RESERVED as i64 + 1..=4 << 20;
/// /proc/sys/kernel/threads-max: there are never more threads. Boot sets it.
pub static THREADS_MAX: AtomicI64 = AtomicI64::new(i64::MAX);
/// What it can be set to.
pub const THREADS_MAX_RANGE: RangeInclusive<i64> = 1..=0x3fff_ffff;
/// Where numbers start again.
const RESERVED: Pid = 300;
/// Entries that are examined between two pauses.
const STEP: usize = 64;

/// Every process and thread.
pub(super) struct TaskTable {
    pub(super) processes: BTreeMap<Pid, Arc<Process>>,
    tasks: BTreeMap<Pid, Arc<Task>>,
    /// Process groups.
    pub(super) groups: Groups,
    /// Sessions.
    pub(super) sessions: Groups,
    /// Numbers of threads that are being made.
    reserved: BTreeSet<Pid>,
    last: Pid,
    wrapped: bool,
    forks: u64,
}

pub(super) static TABLE: Apart<Lock<TaskTable, { ranks::PROCESS_TABLE }>> =
    Apart(Lock::new(TaskTable {
        processes: BTreeMap::new(),
        tasks: BTreeMap::new(),
        groups: Groups::new(),
        sessions: Groups::new(),
        reserved: BTreeSet::new(),
        last: 0,
        wrapped: false,
        forks: 0,
    }));

/// Figures for /proc/loadavg and /proc/stat.
#[derive(Clone, Copy, Debug)]
pub struct TaskCounts {
    /// Threads that have the CPU or wait for it.
    pub running: usize,
    /// Threads.
    pub total: usize,
    /// Forks since boot.
    pub forks: u64,
    /// The number given last.
    pub last_pid: Pid,
}

impl TaskTable {
    fn is_free(&self, pid: Pid) -> bool {
        // Before the first wrap no number was ever used.
        !self.wrapped
            || !(self.reserved.contains(&pid)
                || self.tasks.contains_key(&pid)
                || self.processes.contains_key(&pid)
                || self.groups.first_member(pid).is_some()
                || self.sessions.first_member(pid).is_some())
    }

    /// The next number, if one of the next few is free.
    fn next_pid(&mut self) -> Option<Pid> {
        for _ in 0..STEP {
            self.last += 1;
            if i64::from(self.last) >= PID_MAX.load(Relaxed) {
                self.last = RESERVED;
                self.wrapped = true;
            }
            if self.is_free(self.last) {
                return Some(self.last);
            }
        }
        None
    }
}

/// A number that is kept for a thread while it is made: making one takes long, and others are made
/// meanwhile.
pub(super) struct Reserved(Pid);

impl Reserved {
    /// The number.
    pub(super) fn pid(&self) -> Pid {
        self.0
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        TABLE.lock().reserved.remove(&self.0);
    }
}

/// A number for a new thread or process. EAGAIN when there are `limit` threads already, those that
/// are being made included, or [`THREADS_MAX`], or no number is free.
pub(super) fn reserve_pid(limit: u64) -> Result<Reserved> {
    let limit = limit.min(THREADS_MAX.load(Relaxed) as u64);
    for _ in 0..=PID_MAX.load(Relaxed) as usize / STEP {
        let mut table = TABLE.lock();
        if (table.tasks.len() + table.reserved.len()) as u64 >= limit {
            break;
        }
        if let Some(pid) = table.next_pid() {
            table.reserved.insert(pid);
            return Ok(Reserved(pid));
        }
        drop(table);
        sched::breathe();
    }
    Err(Errno::EAGAIN)
}

/// Adds a new process with its first thread.
pub(super) fn add_process(process: Arc<Process>, task: Arc<Task>) {
    let mut table = TABLE.lock();
    table.forks += 1;
    table.enter_groups(&process);
    table.processes.insert(process.pid(), process);
    table.tasks.insert(task.tid(), task);
}

/// Adds a new thread to an existing process.
pub(super) fn add_thread(task: Arc<Task>) {
    let mut table = TABLE.lock();
    table.forks += 1;
    table.tasks.insert(task.tid(), task);
}

/// Removes a thread that has ended.
pub(super) fn remove_task(tid: Pid) {
    let task = TABLE.lock().tasks.remove(&tid);
    drop(task);
}

/// [`remove_task`] of a thread whose tracer has waited for it.
pub fn remove_ended_thread(task: &Task) {
    remove_task(task.tid());
}

/// Removes a process that was waited for.
pub(super) fn remove_process(pid: Pid) {
    let mut table = TABLE.lock();
    let process = table.processes.remove(&pid);
    if let Some(process) = &process {
        table.leave_groups(process);
    }
    drop(table);
    drop(process);
}

/// Gives a thread the number of its leader, which has ended (execve).
pub(crate) fn rename_leader(task: &Arc<Task>) {
    let mut table = TABLE.lock();
    let old = table.tasks.remove(&task.tid());
    task.set_tid(task.process().pid());
    table.tasks.insert(task.tid(), task.clone());
    drop(table);
    drop(old);
}

/// A process by number, zombies too.
pub fn find(pid: Pid) -> Option<Arc<Process>> {
    TABLE.lock().processes.get(&pid).cloned()
}

/// Whether a process was not waited for yet: afterwards its number may be another one's.
pub fn is_listed(process: &Arc<Process>) -> bool {
    find(process.pid()).is_some_and(|listed| Arc::ptr_eq(&listed, process))
}

/// A thread by number.
pub fn find_task(tid: Pid) -> Option<Arc<Task>> {
    TABLE.lock().tasks.get(&tid).cloned()
}

/// PID 1.
pub fn init_process() -> Arc<Process> {
    find(1).expect("PID 1 is there as long as the machine runs")
}

/// All processes in the order of their numbers, zombies too. Each is looked up when it is asked
/// for: there is no list, which would need memory.
pub fn processes() -> impl Iterator<Item = Arc<Process>> {
    processes_after(0)
}

/// The processes with a number above `last`, as [`processes`].
pub fn processes_after(mut last: Pid) -> impl Iterator<Item = Arc<Process>> {
    core::iter::from_fn(move || {
        let table = TABLE.lock();
        let (pid, process) = table.processes.range(last.checked_add(1)?..).next()?;
        last = *pid;
        Some(process.clone())
    })
}

/// The threads with a number above `last`, of all processes, in order, as [`processes`].
pub fn tasks_after(mut last: Pid) -> impl Iterator<Item = Arc<Task>> {
    core::iter::from_fn(move || {
        let table = TABLE.lock();
        let (tid, task) = table.tasks.range(last.checked_add(1)?..).next()?;
        last = *tid;
        Some(task.clone())
    })
}

/// Pauses now and then in a list that may be long, for a caller without locks. Members that are
/// added meanwhile mostly have higher numbers, and are still met.
pub fn in_steps<T>(list: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    list.zip(1..).map(|(item, n)| {
        if n % STEP == 0 {
            sched::breathe();
        }
        item
    })
}

/// Makes room for a thread whose number is reserved in `process`, for it as a process among the
/// children of `parent` and, once that has ended, of PID 1, and in the queue of the scheduler:
/// wherever it goes later needs no memory. All that are being made have room at once. ENOMEM.
pub(super) fn make_place(process: &Process, parent: &Process) -> Result {
    let (processes, threads, new) = {
        let table = TABLE.lock();
        let (processes, threads) = (table.processes.len(), table.tasks.len());
        (processes, threads, table.reserved.len())
    };
    fallible::reserve(&mut *process.threads.lock(), new)?;
    fallible::reserve(&mut *parent.children.lock(), new)?;
    let init = init_process();
    let mut children = init.children.lock();
    let more = (processes + new).saturating_sub(children.len());
    fallible::reserve(&mut *children, more)?;
    drop(children);
    sched::make_place(threads + new)
}

/// Figures for /proc.
pub fn counts() -> TaskCounts {
    let running = sched::runnable();
    let table = TABLE.lock();
    TaskCounts {
        running,
        total: table.tasks.len(),
        forks: table.forks,
        last_pid: table.last,
    }
}
