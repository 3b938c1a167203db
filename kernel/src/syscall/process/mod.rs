//! Threads and processes: clone, exit; exec, wait and futex in files of their own.

mod exec;
mod futex;
mod membarrier;
mod ptrace;
mod wait;

pub use exec::{execve, execveat};
pub use futex::{futex, get_robust_list, set_robust_list};
pub use membarrier::membarrier;
pub use ptrace::ptrace;
pub use wait::{wait4, waitid};

use super::door::{Argument, Registers};
use crate::arch::trap::UserContext;
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::process::pidfd;
use crate::process::task::{self, CloneFlags, CloneRequest, Pid, Task};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;
use mm::addr::PAGE_SIZE;

bitflags::bitflags! {
    /// PIDFD_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct PidFdFlags: u32 {
        /// PIDFD_NONBLOCK.
        const NONBLOCK = abi::O_NONBLOCK;
    }
}

super::door::flag_arguments!(PidFdFlags: invalid);

/// The arguments of clone(2), whose last two change places between machines.
pub struct CloneArguments {
    flags: u32,
    stack: u64,
    parent_tid: UserPtr<Pid>,
    child_tid: UserPtr<Pid>,
    tls: u64,
}

impl Argument<'_> for CloneArguments {
    #[inline(always)]
    fn take(registers: &mut Registers<'_>) -> Result<Self> {
        let (flags, stack) = (registers.next() as u32, registers.next());
        let parent_tid = registers.next().into();
        let (fourth, fifth) = (registers.next(), registers.next());
        let (child_tid, tls) = match cfg!(target_arch = "x86_64") {
            true => (fourth.into(), fifth),
            false => (fifth.into(), fourth),
        };
        Ok(Self {
            flags,
            stack,
            parent_tid,
            child_tid,
            tls,
        })
    }
}

/// clone(2). The lowest byte of the flags is the exit signal.
pub fn clone(task: &Arc<Task>, user: &mut UserContext, args: CloneArguments) -> Result<u64> {
    let request = CloneRequest {
        flags: CloneFlags::from_bits_truncate(args.flags & !EXIT_SIGNAL),
        exit_signal: (args.flags & EXIT_SIGNAL) as i32,
        stack: args.stack,
        parent_tid: args.parent_tid,
        // One argument for two: not both may be asked for.
        pidfd: args.parent_tid.field(0),
        child_tid: args.child_tid,
        tls: args.tls,
    };
    let both = CloneFlags::PIDFD | CloneFlags::PARENT_SETTID;
    if request.flags.contains(both) {
        return Err(Errno::EINVAL);
    }
    start(task, user, &request)
}

/// CSIGNAL of clone(2).
const EXIT_SIGNAL: u32 = abi::CSIGNAL;

/// `struct clone_args`: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls,
/// set_tid, set_tid_size, cgroup.
const CLONE_ARGS: usize = abi::CLONE_ARGS_SIZE_VER2 as usize;

/// clone3(2). E2BIG for bytes past `struct clone_args` that are not zero.
pub fn clone3(task: &Arc<Task>, user: &mut UserContext, args: UserBytes) -> Result<u64> {
    if args.len < u64::from(abi::CLONE_ARGS_SIZE_VER0) {
        return Err(Errno::EINVAL);
    }
    if args.len > PAGE_SIZE {
        return Err(Errno::E2BIG);
    }
    let mut bytes = [0; CLONE_ARGS];
    let known = CLONE_ARGS.min(args.len as usize);
    args.read(&mut bytes[..known])?;
    for byte in args.elements().skip(known) {
        if byte.read()? != 0 {
            return Err(Errno::E2BIG);
        }
    }
    let mut fields = [0; CLONE_ARGS / 8];
    for (field, bytes) in fields.iter_mut().zip(bytes.chunks_exact(8)) {
        *field = u64::from_ne_bytes(bytes.try_into().map_err(|_| Errno::EINVAL)?);
    }
    let [
        flags,
        pidfd,
        child_tid,
        parent_tid,
        exit_signal,
        stack,
        stack_size,
        tls,
        set_tid,
        count,
        _,
    ] = fields;
    let flags = u32::try_from(flags).ok().and_then(CloneFlags::from_bits);
    let flags = flags.ok_or(Errno::EINVAL)?;
    if flags.contains(CloneFlags::DETACHED)
        || set_tid != 0
        || count != 0
        || (stack == 0) != (stack_size == 0)
        || exit_signal > 64
    {
        return Err(Errno::EINVAL);
    }
    let request = CloneRequest {
        flags,
        exit_signal: exit_signal as i32,
        stack: stack.wrapping_add(stack_size),
        parent_tid: parent_tid.into(),
        pidfd: pidfd.into(),
        child_tid: child_tid.into(),
        tls,
    };
    start(task, user, &request)
}

/// fork(2).
#[cfg(target_arch = "x86_64")]
pub fn fork(task: &Arc<Task>, user: &mut UserContext) -> Result<u64> {
    start(task, user, &CloneRequest::fork())
}

/// vfork(2).
#[cfg(target_arch = "x86_64")]
pub fn vfork(task: &Arc<Task>, user: &mut UserContext) -> Result<u64> {
    start(task, user, &CloneRequest::vfork())
}

fn start(task: &Arc<Task>, user: &mut UserContext, request: &CloneRequest) -> Result<u64> {
    Ok(task::clone(task, user, request)? as u64)
}

/// exit(2): this thread.
pub fn exit(task: &Task, status: i32) -> Result<u64> {
    task::exit_thread(task, (status & 0xff) << 8);
    Ok(0)
}

/// exit_group(2): all threads.
pub fn exit_group(task: &Arc<Task>, status: i32) -> Result<u64> {
    task::exit_group(task, (status & 0xff) << 8);
    Ok(0)
}

/// pidfd_open(2).
pub fn pidfd_open(task: &Task, pid: Pid, flags: PidFdFlags) -> Result<u64> {
    if pid <= 0 {
        return Err(Errno::EINVAL);
    }
    let process = task::find(pid).ok_or(match task::find_task(pid) {
        Some(_) => Errno::EINVAL,
        None => Errno::ESRCH,
    })?;
    Ok(pidfd::open(task, process, flags.contains(PidFdFlags::NONBLOCK))?.to_return())
}

/// set_tid_address(2).
pub fn set_tid_address(task: &Task, address: UserPtr<Pid>) -> Result<u64> {
    task.clear_child_tid.store(address.address(), Relaxed);
    Ok(task.tid() as u64)
}
