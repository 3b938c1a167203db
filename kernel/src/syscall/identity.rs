//! Process groups, sessions and credentials.

use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::task::{self, Credentials, Pid, Process, Task};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

/// NGROUPS_MAX.
const MAX_GROUPS: u32 = 65536;

/// A process by number, 0 for the caller's. ESRCH.
fn process(task: &Task, pid: Pid) -> Result<Arc<Process>> {
    match pid {
        0 => Ok(task.process().clone()),
        pid => task::find(pid).ok_or(Errno::ESRCH),
    }
}

/// setpgid(2).
pub fn setpgid(task: &Task, pid: Pid, pgid: Pid) -> Result<u64> {
    let caller = task.process();
    if pgid < 0 {
        return Err(Errno::EINVAL);
    }
    let target = process(task, pid)?;
    let is_self = Arc::ptr_eq(&target, caller);
    if !is_self && target.ppid() != caller.pid() {
        return Err(Errno::ESRCH);
    }
    if !is_self && target.did_exec.load(Relaxed) {
        return Err(Errno::EACCES);
    }
    let pgid = if pgid == 0 { target.pid() } else { pgid };
    task::move_to_group(caller, &target, pgid)?;
    Ok(0)
}

/// getpgid(2).
pub fn getpgid(task: &Task, pid: Pid) -> Result<u64> {
    Ok(process(task, pid)?.pgid() as u64)
}

/// setsid(2).
pub fn setsid(task: &Task) -> Result<u64> {
    Ok(task::new_session(task.process())? as u64)
}

/// getsid(2).
pub fn getsid(task: &Task, pid: Pid) -> Result<u64> {
    Ok(process(task, pid)?.sid() as u64)
}

/// getuid (0) and geteuid (1).
pub fn user(task: &Task, which: usize) -> Result<u64> {
    Ok(u64::from(task.process().credentials(|c| c.uid[which])))
}

/// getgid (0) and getegid (1).
pub fn group(task: &Task, which: usize) -> Result<u64> {
    Ok(u64::from(task.process().credentials(|c| c.gid[which])))
}

/// EINVAL for -1, which is no number of a user or a group.
fn check_number(number: u32) -> Result<u32> {
    match number {
        u32::MAX => Err(Errno::EINVAL),
        _ => Ok(number),
    }
}

/// setuid(2): root's sets all three.
pub fn setuid(task: &Task, uid: u32) -> Result<u64> {
    let uid = check_number(uid)?;
    setresuid(task, uid, uid, uid)
}

/// setgid(2): root's sets all three.
pub fn setgid(task: &Task, gid: u32) -> Result<u64> {
    let gid = check_number(gid)?;
    setresgid(task, gid, gid, gid)
}

/// setreuid(2): the saved one becomes the effective one.
pub fn setreuid(task: &Task, real: u32, effective: u32) -> Result<u64> {
    setresuid(task, real, effective, effective)
}

/// setregid(2).
pub fn setregid(task: &Task, real: u32, effective: u32) -> Result<u64> {
    setresgid(task, real, effective, effective)
}

/// setresuid(2).
pub fn setresuid(task: &Task, real: u32, effective: u32, saved: u32) -> Result<u64> {
    let wanted = [real, effective, saved];
    task.process()
        .change_credentials(|c| Credentials::set(&mut c.uid, wanted));
    Ok(0)
}

/// setresgid(2).
pub fn setresgid(task: &Task, real: u32, effective: u32, saved: u32) -> Result<u64> {
    let wanted = [real, effective, saved];
    task.process()
        .change_credentials(|c| Credentials::set(&mut c.gid, wanted));
    Ok(0)
}

/// getresuid(2).
pub fn getresuid(task: &Task, real: IdPtr, effective: IdPtr, saved: IdPtr) -> Result<u64> {
    let ids = task.process().credentials(|c| c.uid);
    write_ids([real, effective, saved], ids)
}

/// getresgid(2).
pub fn getresgid(task: &Task, real: IdPtr, effective: IdPtr, saved: IdPtr) -> Result<u64> {
    let ids = task.process().credentials(|c| c.gid);
    write_ids([real, effective, saved], ids)
}

/// Where the number of a user or a group goes.
type IdPtr = UserPtr<u32>;

fn write_ids(into: [IdPtr; 3], ids: [u32; 3]) -> Result<u64> {
    for (into, id) in into.into_iter().zip(ids) {
        into.write(&id)?;
    }
    Ok(0)
}

/// getgroups(2).
pub fn getgroups(task: &Task, size: i32, list: IdPtr) -> Result<u64> {
    let groups = task.process().credentials(|c| c.groups.clone());
    if size != 0 {
        if !usize::try_from(size).is_ok_and(|size| size >= groups.len()) {
            return Err(Errno::EINVAL);
        }
        for (i, group) in (0..).zip(task::in_steps(groups.iter())) {
            list.element(i).write(group)?;
        }
    }
    Ok(groups.len() as u64)
}

/// setgroups(2).
pub fn setgroups(task: &Task, size: u32, list: IdPtr) -> Result<u64> {
    if size > MAX_GROUPS {
        return Err(Errno::EINVAL);
    }
    let mut groups = fallible::filled(0, size as usize)?;
    for (i, group) in (0..).zip(task::in_steps(groups.iter_mut())) {
        *group = list.element(i).read()?;
    }
    let groups = Arc::new(groups);
    task.process().change_credentials(|c| c.groups = groups);
    Ok(0)
}
