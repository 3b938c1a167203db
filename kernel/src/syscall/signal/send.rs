//! Sending signals: kill(2), tgkill(2), rt_sigqueueinfo(2), pidfd_send_signal(2).

use super::InfoBytes;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::fs::Fd;
use crate::process::pidfd;
use crate::process::signal::{self, LAST, SigInfo};
use crate::process::task::{self, Pid, Process, Task};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// `None` for 0: only ask whether the target is there. EINVAL past 64.
fn check_signal(signo: i32) -> Result<Option<i32>> {
    match signo {
        0 => Ok(None),
        n @ 1..=LAST => Ok(Some(n)),
        _ => Err(Errno::EINVAL),
    }
}

/// The process that a number means: its own, or that of any of its threads.
fn process(number: Pid) -> Option<Arc<Process>> {
    let of_thread = || task::find_task(number).map(|task| Arc::clone(task.process()));
    task::find(number).or_else(of_thread)
}

/// kill(2).
pub fn kill(task: &Task, pid: Pid, signo: i32) -> Result<u64> {
    let signo = check_signal(signo)?;
    let me = task.process();
    match pid {
        Pid::MIN => Err(Errno::ESRCH),
        pid @ 1.. => kill_all(task, process(pid).into_iter(), signo),
        0 => kill_all(task, task::in_steps(task::group_members(me.pgid())), signo),
        -1 => {
            let others = |process: &Arc<Process>| ![1, me.pid()].contains(&process.pid());
            kill_all(
                task,
                task::in_steps(task::processes()).filter(others),
                signo,
            )
        }
        group => kill_all(task, task::in_steps(task::group_members(-group)), signo),
    }
}

/// Sends a signal to each process, or only asks whether there is one. ESRCH.
fn kill_all(
    task: &Task,
    targets: impl Iterator<Item = Arc<Process>>,
    signo: Option<i32>,
) -> Result<u64> {
    let info = signo.map(|signo| signal::info_from(task.process(), signo, abi::SI_USER as i32));
    let mut found = false;
    for process in targets {
        found = true;
        if let Some(info) = info {
            signal::queue_process(&process, info)?;
        }
    }
    if found { Ok(0) } else { Err(Errno::ESRCH) }
}

/// A thread by number, in a process if one is given. EINVAL, ESRCH.
fn thread(process: Option<Pid>, tid: Pid) -> Result<Arc<Task>> {
    if tid <= 0 || process.is_some_and(|pid| pid <= 0) {
        return Err(Errno::EINVAL);
    }
    let target = task::find_task(tid).ok_or(Errno::ESRCH)?;
    match process {
        Some(pid) if target.process().pid() != pid => Err(Errno::ESRCH),
        _ => Ok(target),
    }
}

/// tkill(2).
pub fn tkill(task: &Task, tid: Pid, signo: i32) -> Result<u64> {
    send_to(task, thread(None, tid)?, signo)
}

/// tgkill(2).
pub fn tgkill(task: &Task, process: Pid, tid: Pid, signo: i32) -> Result<u64> {
    send_to(task, thread(Some(process), tid)?, signo)
}

fn send_to(task: &Task, target: Arc<Task>, signo: i32) -> Result<u64> {
    if let Some(signo) = check_signal(signo)? {
        signal::queue_task(
            &target,
            signal::info_from(task.process(), signo, abi::SI_TKILL),
        )?;
    }
    Ok(0)
}

/// pidfd_send_signal(2).
pub fn pidfd_send_signal(
    task: &Task,
    fd: Fd,
    signo: i32,
    info: UserPtr<InfoBytes>,
    flags: u32,
) -> Result<u64> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let target = pidfd::process(task, fd)?;
    let signo = check_signal(signo)?;
    if target.has_ended() {
        return Err(Errno::ESRCH);
    }
    if let Some(signo) = signo {
        let sent = match info.given() {
            Some(info) => SigInfo::from_user(signo, &info.read()?),
            None => signal::info_from(task.process(), signo, abi::SI_USER as i32),
        };
        signal::queue_process(&target, sent)?;
    }
    Ok(0)
}

/// rt_sigqueueinfo(2).
pub fn sigqueueinfo(task: &Task, pid: Pid, signo: i32, info: UserPtr<InfoBytes>) -> Result<u64> {
    queue_info(task, pid, None, signo, info)
}

/// rt_tgsigqueueinfo(2).
pub fn tgsigqueueinfo(
    task: &Task,
    pid: Pid,
    tid: Pid,
    signo: i32,
    info: UserPtr<InfoBytes>,
) -> Result<u64> {
    queue_info(task, pid, Some(tid), signo, info)
}

/// Sends a signal with a siginfo of the caller's. EPERM: codes of the kernel's own and of kill(2),
/// for another process.
fn queue_info(
    task: &Task,
    pid: Pid,
    tid: Option<Pid>,
    signo: i32,
    info: UserPtr<InfoBytes>,
) -> Result<u64> {
    let checked = check_signal(signo)?;
    let info = SigInfo::from_user(signo, &info.read()?);
    if (info.code >= 0 || info.code == abi::SI_TKILL) && pid != task.process().pid() {
        return Err(Errno::EPERM);
    }
    let thread = tid.map(|tid| thread(Some(pid), tid)).transpose()?;
    let process = process(pid).ok_or(Errno::ESRCH)?;
    if checked.is_none() {
        return Ok(0);
    }
    match thread {
        Some(thread) => signal::queue_task(&thread, info),
        None => signal::queue_process(&process, info),
    }
    .map(|()| 0)
}
