//! Who a process is: groups, sessions, users.

use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::process::task::{self, Credentials, Pid, Process, Task};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

/// NGROUPS_MAX.
const MAX_GROUPS: u64 = 65536;

/// A process by number, 0 for the caller's. ESRCH.
fn process(task: &Task, pid: u64) -> Result<Arc<Process>> {
    match pid as Pid {
        0 => Ok(task.process().clone()),
        pid => task::find(pid).ok_or(Errno::ESRCH),
    }
}

/// setpgid(2).
pub fn setpgid(task: &Task, pid: u64, pgid: u64) -> Result<u64> {
    let caller = task.process();
    let (pid, pgid) = (pid as Pid, pgid as Pid);
    if pgid < 0 {
        return Err(Errno::EINVAL);
    }
    let target = process(task, pid as u64)?;
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
pub fn getpgid(task: &Task, pid: u64) -> Result<u64> {
    Ok(process(task, pid)?.pgid() as u64)
}

/// setsid(2).
pub fn setsid(task: &Task) -> Result<u64> {
    Ok(task::new_session(task.process())? as u64)
}

/// getsid(2).
pub fn getsid(task: &Task, pid: u64) -> Result<u64> {
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
fn check_number(number: u64) -> Result<u64> {
    match number as u32 {
        u32::MAX => Err(Errno::EINVAL),
        _ => Ok(number),
    }
}

/// setuid(2): root's sets all three.
pub fn setuid(task: &Task, uid: u64) -> Result<u64> {
    let uid = check_number(uid)?;
    setresuid(task, uid, uid, uid)
}

/// setgid(2): root's sets all three.
pub fn setgid(task: &Task, gid: u64) -> Result<u64> {
    let gid = check_number(gid)?;
    setresgid(task, gid, gid, gid)
}

/// setresuid(2).
pub fn setresuid(task: &Task, real: u64, effective: u64, saved: u64) -> Result<u64> {
    let wanted = [real as u32, effective as u32, saved as u32];
    task.process()
        .change_credentials(|c| Credentials::set(&mut c.uid, wanted));
    Ok(0)
}

/// setresgid(2).
pub fn setresgid(task: &Task, real: u64, effective: u64, saved: u64) -> Result<u64> {
    let wanted = [real as u32, effective as u32, saved as u32];
    task.process()
        .change_credentials(|c| Credentials::set(&mut c.gid, wanted));
    Ok(0)
}

/// getresuid(2) and getresgid(2).
pub fn getres(task: &Task, users: bool, real: u64, effective: u64, saved: u64) -> Result<u64> {
    let ids = task
        .process()
        .credentials(|c| if users { c.uid } else { c.gid });
    for (address, id) in [real, effective, saved].into_iter().zip(ids) {
        uaccess::write(address, &id)?;
    }
    Ok(0)
}

/// getgroups(2).
pub fn getgroups(task: &Task, size: u64, list: u64) -> Result<u64> {
    let groups = task.process().credentials(|c| c.groups.clone());
    let size = size as i32;
    if size != 0 {
        if (size as i64) < groups.len() as i64 {
            return Err(Errno::EINVAL);
        }
        for (i, group) in (0..).zip(task::in_steps(groups.iter())) {
            uaccess::write(list.wrapping_add(4 * i), group)?;
        }
    }
    Ok(groups.len() as u64)
}

/// setgroups(2).
pub fn setgroups(task: &Task, size: u64, list: u64) -> Result<u64> {
    if size > MAX_GROUPS {
        return Err(Errno::EINVAL);
    }
    let mut groups = fallible::filled(0, size as usize)?;
    for (i, group) in (0..).zip(task::in_steps(groups.iter_mut())) {
        *group = uaccess::read(list.wrapping_add(4 * i))?;
    }
    let groups = Arc::new(groups);
    task.process().change_credentials(|c| c.groups = groups);
    Ok(0)
}
