//! Signal actions, masks and alternate stacks; waiting for signals. Sending is in a file of its
//! own.

mod file;
mod send;

#[cfg(target_arch = "x86_64")]
pub use file::signalfd;
pub use file::signalfd4;
pub use send::{kill, pidfd_send_signal, sigqueueinfo, tgkill, tgsigqueueinfo, tkill};

use super::time::{self, Timespec};
use crate::arch::trap::UserContext;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::process::signal::{
    self, Action, ActionFlags, SIGKILL, SIGSTOP, SigSet, UNBLOCKABLE, bit,
};
use crate::process::task::{AltStack, Process, Task};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// `siginfo_t`.
pub type InfoBytes = [u8; 128];

/// EINVAL unless `size` is that of a sigset_t.
fn check_size(size: u64) -> Result {
    if size == 8 {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// `struct sigaction` as the kernel has it: handler, flags, restorer, mask.
pub type SigAction = [u64; 4];

/// rt_sigaction(2). Unknown flags are dropped, so that programs can find out which are known.
pub fn sigaction(
    task: &Task,
    signo: i32,
    new: UserPtr<SigAction>,
    old: UserPtr<SigAction>,
    size: u64,
) -> Result<u64> {
    check_size(size)?;
    let signo = signal::check(signo)?;
    let handlers = task.process().handlers();
    let before = handlers.get(signo);
    if let Some(new) = new.given() {
        let [handler, flags, restorer, mask] = new.read()?;
        if bit(signo) & UNBLOCKABLE != 0 {
            return Err(Errno::EINVAL);
        }
        let flags = ActionFlags::from_bits_truncate(flags);
        let has_restorer = flags.contains(ActionFlags::RESTORER);
        let action = Action {
            handler,
            flags,
            restorer: if has_restorer { restorer } else { 0 },
            mask: mask & !UNBLOCKABLE,
        };
        handlers.set(signo, action);
        if action.ignores(signo) {
            drop_ignored(task.process(), signo);
        }
    }
    let flags = before.flags.bits();
    old.write_given(&[before.handler, flags, before.restorer, before.mask])?;
    Ok(0)
}

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
pub fn sigprocmask(
    task: &Task,
    how: u32,
    new: UserPtr<SigSet>,
    old: UserPtr<SigSet>,
    size: u64,
) -> Result<u64> {
    check_size(size)?;
    let before = task.blocked();
    if let Some(new) = new.given() {
        let set = new.read()?;
        let after = match how {
            abi::SIG_BLOCK => before | set,
            abi::SIG_UNBLOCK => before & !set,
            abi::SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL),
        };
        signal::set_blocked(task, after);
    }
    old.write_given(&before)?;
    Ok(0)
}

/// rt_sigpending(2).
pub fn sigpending(task: &Task, set: UserBytes) -> Result<u64> {
    if set.len > size_of::<SigSet>() as u64 {
        return Err(Errno::EINVAL);
    }
    let pending = signal::pending_set(task);
    let bytes = (pending & task.blocked()).to_ne_bytes();
    set.write(0, &bytes[..set.len as usize])?;
    Ok(0)
}

/// rt_sigsuspend(2).
pub fn sigsuspend(set: UserPtr<SigSet>, size: u64) -> Result<u64> {
    check_size(size)?;
    signal::set_temporary_mask(set.read()?);
    pause()
}

/// pause(2): until a signal.
pub fn pause() -> Result<u64> {
    crate::sched::wait::sleep_until(None).map(|()| 0)
}

/// rt_sigtimedwait(2).
pub fn sigtimedwait(
    task: &Task,
    set: UserPtr<SigSet>,
    info: UserPtr<InfoBytes>,
    timeout: UserPtr<Timespec>,
    size: u64,
) -> Result<u64> {
    check_size(size)?;
    let set = set.read()? & !(bit(SIGKILL) | bit(SIGSTOP));
    let deadline = time::relative_deadline(task, timeout)?;
    let process = task.process();
    let take = || signal::take_of(task, set);
    let Some(got) = process.signal_queue.wait(deadline, take)? else {
        return Err(Errno::EAGAIN);
    };
    signal::recalculate(task);
    info.write_given(&got.to_bytes())?;
    Ok(got.signo as u64)
}

/// `struct sigaltstack`: base, flags (4 bytes and padding), size.
pub type AltStackWords = [u64; 3];

/// rt_sigreturn(2).
pub fn sigreturn(task: &Arc<Task>, user: &mut UserContext) -> Result<u64> {
    Ok(signal::sigreturn(task, user))
}

/// sigaltstack(2).
pub fn sigaltstack(
    task: &Task,
    user: &mut UserContext,
    new: UserPtr<AltStackWords>,
    old: UserPtr<AltStackWords>,
) -> Result<u64> {
    let before = *task.alt_stack.lock();
    let sp = user.sp();
    if let Some(new) = new.given() {
        let [base, flags, size] = new.read()?;
        if before.contains(sp) && before.flags & abi::SS_AUTODISARM == 0 {
            return Err(Errno::EPERM);
        }
        *task.alt_stack.lock() = alt_stack(base, flags as u32, size)?;
    }
    let flags = u64::from(before.reported_flags(sp));
    old.write_given(&[before.base, flags, before.size])?;
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
