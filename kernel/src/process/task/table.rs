//! All processes and threads by number.

use super::{Pid, Process, Task};
use crate::base::errno::{Errno, Result};
use crate::base::machine::AddressSpace;
use crate::base::ranks;
use crate::sched;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicI64, Ordering::Relaxed};
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
/// Entries that are looked at before others run.
const STEP: usize = 64;

struct Table {
    processes: BTreeMap<Pid, Arc<Process>>,
    tasks: BTreeMap<Pid, Arc<Task>>,
    /// Process groups: the group's number and a member's.
    groups: BTreeSet<(Pid, Pid)>,
    /// Sessions: the session's number and a member's.
    sessions: BTreeSet<(Pid, Pid)>,
    /// Numbers of threads that are being made.
    reserved: BTreeSet<Pid>,
    last: Pid,
    wrapped: bool,
    forks: u64,
}

static TABLE: Lock<Table, { ranks::PROCESS_TABLE }> = Lock::new(Table {
    processes: BTreeMap::new(),
    tasks: BTreeMap::new(),
    groups: BTreeSet::new(),
    sessions: BTreeSet::new(),
    reserved: BTreeSet::new(),
    last: 0,
    wrapped: false,
    forks: 0,
});

/// Figures for /proc/loadavg and /proc/stat.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Threads that have the CPU or wait for it.
    pub running: usize,
    /// Threads.
    pub total: usize,
    /// Forks since boot.
    pub forks: u64,
    /// The number given last.
    pub last_pid: Pid,
}

impl Table {
    fn is_free(&self, pid: Pid) -> bool {
        // Before the first wrap no number was ever used.
        !self.wrapped
            || !(self.reserved.contains(&pid)
                || self.tasks.contains_key(&pid)
                || self.processes.contains_key(&pid)
                || first_member(&self.groups, pid).is_some()
                || first_member(&self.sessions, pid).is_some())
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

    fn enter_groups(&mut self, process: &Process) {
        self.groups.insert((process.pgid(), process.pid()));
        self.sessions.insert((process.sid(), process.pid()));
    }

    fn leave_groups(&mut self, process: &Process) {
        self.groups.remove(&(process.pgid(), process.pid()));
        self.sessions.remove(&(process.sid(), process.pid()));
    }

    fn move_to(&mut self, process: &Process, pgid: Pid, sid: Pid) {
        self.leave_groups(process);
        process.set_group(pgid, sid);
        self.enter_groups(process);
    }
}

/// The member of a group, or a session, with the lowest number.
fn first_member(sets: &BTreeSet<(Pid, Pid)>, number: Pid) -> Option<Pid> {
    next_member(sets, number, 0)
}

/// The member with the lowest number above `last`.
fn next_member(sets: &BTreeSet<(Pid, Pid)>, number: Pid, last: Pid) -> Option<Pid> {
    let rest = (number, last.checked_add(1)?)..=(number, Pid::MAX);
    sets.range(rest).next().map(|(_, member)| *member)
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

/// A new process with its first thread.
pub(super) fn add_process(process: Arc<Process>, task: Arc<Task>) {
    let mut table = TABLE.lock();
    table.forks += 1;
    table.enter_groups(&process);
    table.processes.insert(process.pid(), process);
    table.tasks.insert(task.tid(), task);
}

/// A new thread of a process that is there already.
pub(super) fn add_thread(task: Arc<Task>) {
    let mut table = TABLE.lock();
    table.forks += 1;
    table.tasks.insert(task.tid(), task);
}

/// A thread has ended.
pub(super) fn remove_task(tid: Pid) {
    let task = TABLE.lock().tasks.remove(&tid);
    drop(task);
}

/// A process was waited for.
pub(super) fn remove_process(pid: Pid) {
    let mut table = TABLE.lock();
    let process = table.processes.remove(&pid);
    if let Some(process) = &process {
        table.leave_groups(process);
    }
    drop(table);
    drop(process);
}

/// A thread takes over the number of its leader, which has ended (execve).
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

/// The processes of a group, as [`processes`].
pub(crate) fn group_members(pgid: Pid) -> impl Iterator<Item = Arc<Process>> {
    let mut last = 0;
    core::iter::from_fn(move || {
        let table = TABLE.lock();
        last = next_member(&table.groups, pgid, last)?;
        table.processes.get(&last).cloned()
    })
}

/// A list that may be long, for a caller without locks: lets interrupts and other threads in now
/// and then. Those of its members that come meanwhile have higher numbers, mostly, and are still
/// met.
pub fn in_steps<T>(list: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    list.zip(1..).map(|(item, n)| {
        if n % STEP == 0 {
            sched::breathe();
        }
        item
    })
}

/// Makes room for one more thread in `process`, for it as a process among the children of `parent`
/// and, once that has ended, of PID 1, and in the queue of the scheduler: wherever it goes later
/// needs no memory. ENOMEM.
pub(super) fn make_place(process: &Process, parent: &Process) -> Result {
    let (processes, threads) = {
        let table = TABLE.lock();
        (table.processes.len(), table.tasks.len())
    };
    fallible::reserve(&mut *process.threads.lock(), 1)?;
    fallible::reserve(&mut *parent.children.lock(), 1)?;
    let init = init_process();
    let mut children = init.children.lock();
    let more = (processes + 1).saturating_sub(children.len());
    fallible::reserve(&mut *children, more)?;
    drop(children);
    sched::make_place(threads + 1)
}

/// The session of a process group that has members.
pub fn session_of(pgid: Pid) -> Option<Pid> {
    let table = TABLE.lock();
    let member = first_member(&table.groups, pgid)?;
    table.processes.get(&member).map(|p| p.sid())
}

/// Whether a process group is orphaned: no member has a parent in another group of the same
/// session, which could let it run on when it is stopped; PID 1 lets nothing run on. Source:
/// POSIX.1-2017, 3.264.
pub fn is_orphaned(pgid: Pid) -> bool {
    let cares = |member: &Arc<Process>| {
        member.parent().is_some_and(|parent| {
            !member.has_ended()
                && parent.pid() != 1
                && parent.pgid() != pgid
                && parent.sid() == member.sid()
        })
    };
    !group_members(pgid).any(|member| cares(&member))
}

/// setsid(2): EPERM when there is a group with the process's number already.
pub(crate) fn new_session(process: &Process) -> Result<Pid> {
    let mut table = TABLE.lock();
    let pid = process.pid();
    if first_member(&table.groups, pid).is_some() {
        return Err(Errno::EPERM);
    }
    table.move_to(process, pid, pid);
    Ok(pid)
}

/// setpgid(2), once it is known who: EPERM for a session leader, another session, or a group that
/// is not in it.
pub(crate) fn move_to_group(caller: &Process, process: &Process, pgid: Pid) -> Result {
    let mut table = TABLE.lock();
    let sid = process.sid();
    // A group is in one session.
    let member = first_member(&table.groups, pgid);
    let of_group = member.and_then(|member| table.processes.get(&member));
    let group_is_there = pgid == process.pid() || of_group.is_some_and(|p| p.sid() == sid);
    if sid == process.pid() || sid != caller.sid() || !group_is_there {
        return Err(Errno::EPERM);
    }
    table.move_to(process, pgid, sid);
    Ok(())
}

/// Calls `f` with each address space once or more: a shared one comes once per process. In steps:
/// the caller holds no lock.
pub fn for_each_space(mut f: impl FnMut(&AddressSpace)) {
    for process in in_steps(processes()) {
        if let Some(space) = process.space() {
            f(&space);
        }
    }
}

/// Figures for /proc.
pub fn counts() -> Counts {
    let running = sched::runnable();
    let table = TABLE.lock();
    Counts {
        running,
        total: table.tasks.len(),
        forks: table.forks,
        last_pid: table.last,
    }
}
