//! Signals, as programs ask for them.

use super::time;
use crate::arch::trap::UserContext;
use crate::base::errno::{Errno, Result};
use crate::base::uaccess;
use crate::fs::Fd;
use crate::process::pidfd;
use crate::process::signal::{
    self, Action, LAST, SIGKILL, SIGSTOP, SigInfo, SigSet, UNBLOCKABLE, bit,
};
use crate::process::task::{self, AltStack, Pid, Process, Task};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// EINVAL unless `size` is that of a sigset_t here.
fn check_size(size: u64) -> Result {
    if size == 8 {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// `None` for 0: only ask whether the target is there. EINVAL past 64.
fn check_signal(signo: u64) -> Result<Option<i32>> {
    match signo as i32 {
        0 => Ok(None),
        n @ 1..=LAST => Ok(Some(n)),
        _ => Err(Errno::EINVAL),
    }
}

/// kill(2).
pub fn kill(task: &Task, pid: u64, signo: u64) -> Result<u64> {
    let signo = check_signal(signo)?;
    let me = task.process();
    match pid as Pid {
        Pid::MIN => Err(Errno::ESRCH),
        pid @ 1.. => kill_all(task, task::find(pid).into_iter(), signo),
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
    let info = signo.map(|signo| signal::info_from(task, signo, abi::SI_USER as i32));
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
fn thread(process: Option<u64>, tid: u64) -> Result<Arc<Task>> {
    if tid as Pid <= 0 || process.is_some_and(|pid| pid as Pid <= 0) {
        return Err(Errno::EINVAL);
    }
    let target = task::find_task(tid as Pid).ok_or(Errno::ESRCH)?;
    match process {
        Some(pid) if target.process().pid() != pid as Pid => Err(Errno::ESRCH),
        _ => Ok(target),
    }
}

/// tgkill(2), and tkill(2) without a process.
pub fn tgkill(task: &Task, process: Option<u64>, tid: u64, signo: u64) -> Result<u64> {
    let target = thread(process, tid)?;
    if let Some(signo) = check_signal(signo)? {
        signal::queue_task(&target, signal::info_from(task, signo, abi::SI_TKILL))?;
    }
    Ok(0)
}

/// pidfd_send_signal(2).
pub fn pidfd_send_signal(task: &Task, fd: Fd, signo: u64, info: u64, flags: u64) -> Result<u64> {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let target = pidfd::process(task, fd)?;
    let signo = check_signal(signo)?;
    if target.has_ended() {
        return Err(Errno::ESRCH);
    }
    if let Some(signo) = signo {
        let sent = if info == 0 {
            signal::info_from(task, signo, abi::SI_USER as i32)
        } else {
            read_info(info, signo)?
        };
        signal::queue_process(&target, sent)?;
    }
    Ok(0)
}

fn read_info(address: u64, signo: i32) -> Result<SigInfo> {
    let mut bytes = [0; 128];
    uaccess::read_bytes(address, &mut bytes)?;
    Ok(SigInfo::from_user(signo, &bytes))
}

/// rt_sigqueueinfo(2), and rt_tgsigqueueinfo(2) with a thread. EPERM: only the kernel and kill say
/// where they come from.
pub fn sigqueueinfo(task: &Task, pid: u64, tid: Option<u64>, signo: u64, info: u64) -> Result<u64> {
    let checked = check_signal(signo)?;
    let info = read_info(info, signo as i32)?;
    if (info.code >= 0 || info.code == abi::SI_TKILL) && pid as Pid != task.process().pid() {
        return Err(Errno::EPERM);
    }
    let thread = tid.map(|tid| thread(Some(pid), tid)).transpose()?;
    let process = task::find(pid as Pid).ok_or(Errno::ESRCH)?;
    if checked.is_none() {
        return Ok(0);
    }
    match thread {
        Some(thread) => signal::queue_task(&thread, info),
        None => signal::queue_process(&process, info),
    }
    .map(|()| 0)
}

/// rt_sigaction(2). The structure: handler, flags, restorer, mask (8 bytes each).
pub fn sigaction(task: &Task, signo: u64, new: u64, old: u64, size: u64) -> Result<u64> {
    check_size(size)?;
    let signo = signal::check(signo)?;
    let handlers = task.process().handlers();
    let before = handlers.get(signo);
    if new != 0 {
        let [handler, flags, restorer, mask] = uaccess::read::<[u64; 4]>(new)?;
        if bit(signo) & UNBLOCKABLE != 0 {
            return Err(Errno::EINVAL);
        }
        let restorer = if flags & RESTORER != 0 { restorer } else { 0 };
        let action = Action {
            handler,
            flags,
            restorer,
            mask: mask & !UNBLOCKABLE,
        };
        handlers.set(signo, action);
        if action.ignores(signo) {
            drop_ignored(task.process(), signo);
        }
    }
    if old != 0 {
        uaccess::write(
            old,
            &[before.handler, before.flags, before.restorer, before.mask],
        )?;
    }
    Ok(0)
}

/// SA_RESTORER, which the headers of arm64 do not name.
const RESTORER: u64 = 0x0400_0000;

/// What is pending of a signal that is ignored from now on is dropped, sigaction(2).
fn drop_ignored(process: &Process, signo: i32) {
    process.pending.lock().remove(bit(signo));
    process.with_threads(|threads| {
        threads
            .iter()
            .for_each(|task| task.pending.lock().remove(bit(signo)))
    });
}

/// rt_sigprocmask(2).
pub fn sigprocmask(task: &Task, how: u64, new: u64, old: u64, size: u64) -> Result<u64> {
    check_size(size)?;
    let before = task.blocked();
    if new != 0 {
        let set: SigSet = uaccess::read(new)?;
        let after = match how as u32 {
            abi::SIG_BLOCK => before | set,
            abi::SIG_UNBLOCK => before & !set,
            abi::SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        };
        signal::set_blocked(task, after);
    }
    if old != 0 {
        uaccess::write(old, &before)?;
    }
    Ok(0)
}

/// rt_sigpending(2).
pub fn sigpending(task: &Task, set: u64, size: u64) -> Result<u64> {
    if size > 8 {
        return Err(Errno::EINVAL);
    }
    let pending = signal::pending_set(task);
    let bytes = (pending & task.blocked()).to_ne_bytes();
    uaccess::write_bytes(set, &bytes[..size as usize])?;
    Ok(0)
}

/// rt_sigsuspend(2).
pub fn sigsuspend(set: u64, size: u64) -> Result<u64> {
    check_size(size)?;
    signal::set_temporary_mask(uaccess::read(set)?);
    pause()
}

/// pause(2): until a signal.
pub fn pause() -> Result<u64> {
    crate::sched::wait::sleep_until(None).map(|()| 0)
}

/// rt_sigtimedwait(2).
pub fn sigtimedwait(task: &Arc<Task>, set: u64, info: u64, timeout: u64, size: u64) -> Result<u64> {
    check_size(size)?;
    let set: SigSet = uaccess::read::<SigSet>(set)? & !(bit(SIGKILL) | bit(SIGSTOP));
    let deadline = time::relative_deadline(task, timeout.into())?;
    let process = task.process();
    let take = || {
        let own = task.pending.lock().take(set);
        own.or_else(|| process.pending.lock().take(set))
    };
    let Some(got) = process.signal_queue.wait(deadline, take)? else {
        return Err(Errno::EAGAIN);
    };
    signal::recalculate(task);
    if info != 0 {
        uaccess::write_bytes(info, &got.to_bytes())?;
    }
    Ok(got.signo as u64)
}

/// sigaltstack(2). `struct sigaltstack`: base, flags (4 bytes and padding), size.
pub fn sigaltstack(task: &Task, user: &UserContext, new: u64, old: u64) -> Result<u64> {
    let before = *task.alt_stack.lock();
    let sp = user.sp();
    if new != 0 {
        let [base, flags, size] = uaccess::read::<[u64; 3]>(new)?;
        if before.contains(sp) && before.flags & abi::SS_AUTODISARM == 0 {
            return Err(Errno::EPERM);
        }
        *task.alt_stack.lock() = alt_stack(base, flags as u32, size)?;
    }
    if old != 0 {
        uaccess::write(
            old,
            &[before.base, u64::from(before.told_flags(sp)), before.size],
        )?;
    }
    Ok(0)
}

fn alt_stack(base: u64, flags: u32, size: u64) -> Result<AltStack> {
    match flags & !abi::SS_AUTODISARM {
        abi::SS_DISABLE => Ok(AltStack::NONE),
        0 | abi::SS_ONSTACK if size < u64::from(abi::MINSIGSTKSZ) => Err(Errno::ENOMEM),
        0 | abi::SS_ONSTACK => Ok(AltStack {
            base,
            size,
            flags: flags & abi::SS_AUTODISARM,
        }),
        _ => Err(Errno::EINVAL),
    }
}
