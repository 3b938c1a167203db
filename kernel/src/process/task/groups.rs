//! Process groups and sessions, setpgid(2), setsid(2).

use super::membership::Membership;
use super::table::{TABLE, TaskTable};
use super::{Pid, Process};
use crate::base::errno::{Errno, Result};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

impl TaskTable {
    /// Enters a process into its group and session.
    pub(super) fn enter_groups(&mut self, process: &Process) {
        let [group, session] = memberships(process);
        self.groups.0.insert(group);
        self.sessions.0.insert(session);
    }

    /// Takes a process out of its group and session.
    pub(super) fn leave_groups(&mut self, process: &Process) {
        let [group, session] = memberships(process);
        self.groups.0.remove(&group);
        self.sessions.0.remove(&session);
    }

    fn move_to(&mut self, process: &Process, pgid: Pid, sid: Pid) {
        self.leave_groups(process);
        process.set_group(pgid, sid);
        self.enter_groups(process);
    }
}

impl Process {
    /// Its process group.
    pub fn pgid(&self) -> Pid {
        self.pgid.load(Relaxed)
    }

    /// Its session.
    pub fn sid(&self) -> Pid {
        self.sid.load(Relaxed)
    }

    fn set_group(&self, pgid: Pid, sid: Pid) {
        self.pgid.store(pgid, Relaxed);
        self.sid.store(sid, Relaxed);
    }
}

/// The processes of a group, in the order of their numbers, as [`super::processes`].
pub(crate) fn group_members(pgid: Pid) -> impl Iterator<Item = Arc<Process>> {
    let mut last = 0;
    core::iter::from_fn(move || {
        let table = TABLE.lock();
        last = table.groups.next_member(pgid, last)?;
        table.processes.get(&last).cloned()
    })
}

/// The session of a process group that has members.
pub fn session_of(pgid: Pid) -> Option<Pid> {
    let table = TABLE.lock();
    let member = table.groups.first_member(pgid)?;
    table.processes.get(&member).map(|p| p.sid())
}

/// Whether a process group is orphaned: no member has a parent in another group of the same
/// session, which could continue it when it is stopped; PID 1 continues nothing. Source:
/// POSIX.1-2017, 3.264.
pub fn is_orphaned(pgid: Pid) -> bool {
    let has_guardian = |member: Arc<Process>| {
        member.parent().is_some_and(|parent| {
            !member.has_ended()
                && parent.pid() != 1
                && parent.pgid() != pgid
                && parent.sid() == member.sid()
        })
    };
    !group_members(pgid).any(has_guardian)
}

/// setsid(2): EPERM when there is a group with the process's number already.
pub(crate) fn new_session(process: &Process) -> Result<Pid> {
    let mut table = TABLE.lock();
    let pid = process.pid();
    if table.groups.first_member(pid).is_some() {
        return Err(Errno::EPERM);
    }
    table.move_to(process, pid, pid);
    Ok(pid)
}

/// setpgid(2) of a process: EPERM for a session leader, another session, or a group that is not in
/// it.
pub(crate) fn move_to_group(caller: &Process, process: &Process, pgid: Pid) -> Result {
    let mut table = TABLE.lock();
    let sid = process.sid();
    // A group is in one session.
    let member = table.groups.first_member(pgid);
    let of_group = member.and_then(|member| table.processes.get(&member));
    let group_is_there = pgid == process.pid() || of_group.is_some_and(|p| p.sid() == sid);
    if sid == process.pid() || sid != caller.sid() || !group_is_there {
        return Err(Errno::EPERM);
    }
    table.move_to(process, pgid, sid);
    Ok(())
}

/// A process as a member of its group and of its session.
fn memberships(process: &Process) -> [Membership; 2] {
    let pid = process.pid();
    [process.pgid(), process.sid()].map(|of| Membership { of, pid })
}
