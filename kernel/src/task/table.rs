//! All processes and threads by number.

use super::{Pid, Process, Task};
use crate::errno::{Errno, Result};
use crate::machine::AddressSpace;
use crate::ranks;
use crate::sched;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use mm::sync::Lock;

/// Numbers go from 1 to here, then again from the low ones that are free (as /proc/sys/kernel/pid_max).
const PID_MAX: Pid = 32768;
/// Where numbers start again.
const RESERVED: Pid = 300;

struct Table {
    processes: BTreeMap<Pid, Arc<Process>>,
    tasks: BTreeMap<Pid, Arc<Task>>,
    last: Pid,
    wrapped: bool,
    forks: u64,
}

static TABLE: Lock<Table, { ranks::PROCESS_TABLE }> = Lock::new(Table {
    processes: BTreeMap::new(),
    tasks: BTreeMap::new(),
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
            || !(self.tasks.contains_key(&pid)
                || self.processes.contains_key(&pid)
                || self
                    .processes
                    .values()
                    .any(|p| p.pgid() == pid || p.sid() == pid))
    }

    fn next_pid(&mut self) -> Result<Pid> {
        for _ in 0..PID_MAX {
            self.last += 1;
            if self.last > PID_MAX {
                self.last = RESERVED;
                self.wrapped = true;
            }
            if self.is_free(self.last) {
                return Ok(self.last);
            }
        }
        Err(Errno::EAGAIN)
    }
}

/// A number for a new thread or process. EAGAIN when there are `limit` threads already, or no number is free.
pub(super) fn reserve_pid(limit: u64) -> Result<Pid> {
    let mut table = TABLE.lock();
    if table.tasks.len() as u64 >= limit {
        return Err(Errno::EAGAIN);
    }
    table.next_pid()
}

/// A new process with its first thread.
pub(super) fn add_process(process: Arc<Process>, task: Arc<Task>) {
    let mut table = TABLE.lock();
    table.forks += 1;
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
    let process = TABLE.lock().processes.remove(&pid);
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

/// All processes in the order of their numbers, zombies too. Each is looked up when it is asked for: there is no list, which
/// would need memory.
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

/// The processes of a group.
pub(crate) fn group_members(pgid: Pid) -> impl Iterator<Item = Arc<Process>> {
    processes().filter(move |process| process.pgid() == pgid)
}

/// Makes room for one more thread in `process`, for it as a process among the children of `parent` and, once that has ended,
/// of PID 1, and in the queue of the scheduler: wherever it goes later needs no memory. ENOMEM.
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
    TABLE
        .lock()
        .processes
        .values()
        .find(|p| p.pgid() == pgid)
        .map(|p| p.sid())
}

/// Whether a process group is orphaned: no member has a parent in another group of the same session, which could let it run on
/// when it is stopped; PID 1 lets nothing run on. Source: POSIX.1-2017, 3.264.
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
    let table = TABLE.lock();
    let pid = process.pid();
    if table.processes.values().any(|p| p.pgid() == pid) {
        return Err(Errno::EPERM);
    }
    process.set_group(pid, pid);
    Ok(pid)
}

/// setpgid(2), once it is known who: EPERM for a session leader, another session, or a group that is not in it.
pub(crate) fn move_to_group(caller: &Process, process: &Process, pgid: Pid) -> Result {
    let table = TABLE.lock();
    let sid = process.sid();
    let group_is_there = pgid == process.pid()
        || table
            .processes
            .values()
            .any(|p| p.pgid() == pgid && p.sid() == sid);
    if sid == process.pid() || sid != caller.sid() || !group_is_there {
        return Err(Errno::EPERM);
    }
    process.set_group(pgid, sid);
    Ok(())
}

/// Calls `f` with each address space once or more: a shared one comes once per process.
pub fn for_each_space(mut f: impl FnMut(&AddressSpace)) {
    for process in processes() {
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
