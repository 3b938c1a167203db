//! ptrace(2): what a parent may ask of a child that wants to be traced. Others are not traced, and
//! registers are not read.

use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::signal::{self, SIGKILL, SigInfo, TraceOptions};
use crate::process::task::{self, Pid, Process, Task};
use alloc::sync::Arc;
use linux_raw_sys::ptrace as abi;
use mm::addr::VirtAddr;

/// ptrace(2). ESRCH: not a child that is traced and stopped; EIO: no such request, no such signal,
/// or no memory there; EPERM: see [`signal::trace_me`].
pub fn ptrace(task: &Task, request: u64, pid: Pid, at: VirtAddr, data: u64) -> Result<u64> {
    let request = u32::try_from(request).map_err(|_| Errno::EIO)?;
    if request == abi::PTRACE_TRACEME {
        return signal::trace_me(task).map(|()| 0);
    }
    if matches!(request, abi::PTRACE_ATTACH | abi::PTRACE_SEIZE) {
        return Err(Errno::EPERM);
    }
    let tracee = tracee(task, pid)?;
    if request == abi::PTRACE_KILL {
        signal::send_process(&tracee, SigInfo::kernel(SIGKILL));
        return Ok(0);
    }
    if !signal::is_trace_stopped(&tracee) {
        return Err(Errno::ESRCH);
    }
    match request {
        abi::PTRACE_PEEKTEXT | abi::PTRACE_PEEKDATA => {
            let mut word = [0; 8];
            let n = tracee.space.get().map(|space| space.read(at, &mut word));
            whole_word(n)?;
            UserPtr::from(data).write(&u64::from_ne_bytes(word))?;
        }
        abi::PTRACE_POKETEXT | abi::PTRACE_POKEDATA => {
            let word = data.to_ne_bytes();
            let space = tracee.space.get();
            whole_word(space.map(|space| space.write(at, &word, true)))?;
        }
        abi::PTRACE_CONT => signal::go_on(&tracee, signo(data)?, false),
        abi::PTRACE_SYSCALL => signal::go_on(&tracee, signo(data)?, true),
        abi::PTRACE_DETACH => signal::detach(&tracee, signo(data)?),
        abi::PTRACE_SETOPTIONS => {
            let options = TraceOptions::from_bits(data).ok_or(Errno::EINVAL)?;
            tracee.trace.lock().options = options;
        }
        _ => return Err(Errno::EIO),
    }
    Ok(0)
}

/// A child of the caller's process that is traced.
fn tracee(task: &Task, pid: Pid) -> Result<Arc<Process>> {
    let child = task::find(pid).filter(|child| {
        let is_child = child.ppid() == task.process().pid();
        is_child && !child.has_ended() && child.trace.lock().is_on()
    });
    child.ok_or(Errno::ESRCH)
}

fn signo(data: u64) -> Result<i32> {
    match data {
        0 => Ok(0),
        _ => signal::check(data as i32).map_err(|_| Errno::EIO),
    }
}

fn whole_word(bytes: Option<usize>) -> Result {
    match bytes {
        Some(8) => Ok(()),
        _ => Err(Errno::EIO),
    }
}
