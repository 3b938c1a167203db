//! clone, execve, exit, wait, futex.

use super::Call;
use super::time;
use super::usage::Usage;
use crate::base::errno::{Errno, Result};
use crate::base::room;
use crate::base::uaccess;
use crate::exec::{self, Strings};
use crate::fs::{self, ExecFile};
use crate::fs::{DirFd, Fd};
use crate::process::futex as words;
use crate::process::pidfd;
use crate::process::task::{self, CloneRequest, Pid, Task, WaitRequest, WaitTarget, Waited};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;

/// clone(2). The order of the last two arguments differs between machines.
pub fn clone(call: &mut Call<'_>) -> Result<u64> {
    let [flags, stack, parent_tid, d, e, _] = call.args;
    let (child_tid, tls) = if cfg!(target_arch = "x86_64") {
        (d, e)
    } else {
        (e, d)
    };
    let request = CloneRequest {
        flags: flags as u32 & !0xff,
        exit_signal: flags as i32 & 0xff,
        stack,
        parent_tid,
        child_tid,
        tls,
    };
    start(call, &request)
}

/// clone3(2): the first 64 bytes of `struct clone_args` (flags, pidfd, child_tid, parent_tid,
/// exit_signal, stack, stack_size, tls); EINVAL for what comes after unless it is zero.
pub fn clone3(call: &mut Call<'_>, address: u64, size: u64) -> Result<u64> {
    if size < u64::from(abi::CLONE_ARGS_SIZE_VER0) {
        return Err(Errno::EINVAL);
    }
    if size > u64::from(abi::CLONE_ARGS_SIZE_VER2) {
        return Err(Errno::E2BIG);
    }
    let mut bytes = [0; abi::CLONE_ARGS_SIZE_VER2 as usize];
    uaccess::read_bytes(address, &mut bytes[..size as usize])?;
    let mut fields = [0; 11];
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
    let flags32 = u32::try_from(flags).map_err(|_| Errno::EINVAL)?;
    if flags32 & 0xff != 0
        || set_tid != 0
        || count != 0
        || (stack == 0) != (stack_size == 0)
        || exit_signal > 64
    {
        return Err(Errno::EINVAL);
    }
    let with_pidfd = flags32 & abi::CLONE_PIDFD != 0;
    let request = CloneRequest {
        flags: flags32,
        exit_signal: exit_signal as i32,
        stack: stack.wrapping_add(stack_size),
        parent_tid: if with_pidfd { pidfd } else { parent_tid },
        child_tid,
        tls,
    };
    start(call, &request)
}

/// fork, vfork and clone.
pub fn start(call: &mut Call<'_>, request: &CloneRequest) -> Result<u64> {
    Ok(task::clone(call.task, call.user, request)? as u64)
}

/// execve(2).
pub fn execve(call: &mut Call<'_>, path: u64, args: u64, env: u64) -> Result<u64> {
    let path = uaccess::read_cstr(path, 4096)?;
    let file = fs::open_exec(&call.task.fs(), &path)?;
    let strings = read_strings(args, env)?;
    exec::execve(call.task, call.user, file, &path, strings)
}

/// execveat(2).
pub fn execveat(
    call: &mut Call<'_>,
    dir: DirFd,
    path: u64,
    args: u64,
    env: u64,
    flags: u64,
) -> Result<u64> {
    if flags & !u64::from(abi::AT_EMPTY_PATH | abi::AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    let path = uaccess::read_cstr(path, 4096)?;
    let file = exec_file(call.task, dir, &path, flags as u32)?;
    let strings = read_strings(args, env)?;
    exec::execve(call.task, call.user, file, &path, strings)
}

/// The program that execveat means: by path from the working directory or from an open one, or an
/// open file itself.
fn exec_file(task: &Task, dir: DirFd, path: &[u8], flags: u32) -> Result<ExecFile> {
    let context = task.fs();
    if path.is_empty() {
        return if flags & abi::AT_EMPTY_PATH == 0 {
            Err(Errno::ENOENT)
        } else {
            fs::exec_of(&*task.files().get(dir.open()?)?)
        };
    }
    let base = match dir {
        DirFd::Open(fd) if path[0] != b'/' => task.files().get(fd)?.place.clone(),
        _ => context.cwd(),
    };
    fs::open_exec_at(&context, base, path, flags & abi::AT_SYMLINK_NOFOLLOW == 0)
}

/// argv and envp.
fn read_strings(args: u64, env: u64) -> Result<Strings> {
    let mut budget = exec::MAX_STRINGS;
    let mut args = read_vector(args, &mut budget)?;
    if args.is_empty() {
        // As Linux since 5.18: a program always has a name.
        args.push(Vec::new());
    }
    Ok(Strings {
        args,
        env: read_vector(env, &mut budget)?,
    })
}

/// A null-terminated array of strings; E2BIG when they take more than `budget` bytes or one is too
/// long.
fn read_vector(mut address: u64, budget: &mut usize) -> Result<Vec<Vec<u8>>> {
    let mut strings = Vec::new();
    if address == 0 {
        return Ok(strings);
    }
    loop {
        let pointer: u64 = uaccess::read(address)?;
        if pointer == 0 {
            return Ok(strings);
        }
        room::check(Errno::ENOMEM)?;
        fallible::reserve(&mut strings, 1)?;
        let string = uaccess::read_cstr(pointer, exec::MAX_STRING);
        let string = string.map_err(|e| {
            if e == Errno::ENAMETOOLONG {
                Errno::E2BIG
            } else {
                e
            }
        })?;
        let before = *budget;
        *budget = before.checked_sub(string.len() + 9).ok_or(Errno::E2BIG)?;
        exec::breathe_between(before, *budget)?;
        strings.push(string);
        address += 8;
    }
}

/// exit(2): this thread.
pub fn exit(task: &Task, status: u64) -> Result<u64> {
    task::exit_thread(task, (status as i32 & 0xff) << 8);
    Ok(0)
}

/// exit_group(2): all threads.
pub fn exit_group(task: &Arc<Task>, status: u64) -> Result<u64> {
    task::exit_group(task, (status as i32 & 0xff) << 8);
    Ok(0)
}

const WUNTRACED: u32 = 2;
const WCONTINUED: u32 = 8;
const WNOWAIT: u32 = 0x0100_0000;
/// __WNOTHREAD, __WALL and __WCLONE.
const KINDS: u32 = 0xe000_0000;

/// wait4(2).
pub fn wait4(task: &Task, pid: u64, status: u64, options: u64, usage: u64) -> Result<u64> {
    let options = options as u32;
    if options & !(abi::WNOHANG | WUNTRACED | WCONTINUED | KINDS) != 0 {
        return Err(Errno::EINVAL);
    }
    let target = match pid as i32 {
        i32::MIN => return Err(Errno::ESRCH),
        -1 => WaitTarget::Any,
        0 => WaitTarget::Group(task.process().pgid()),
        pid @ 1.. => WaitTarget::Pid(pid),
        group => WaitTarget::Group(-group),
    };
    let request = WaitRequest {
        target,
        options: options | abi::WEXITED,
    };
    let Some(waited) = task::wait_for_child(task, &request)? else {
        return Ok(0);
    };
    if status != 0 {
        uaccess::write(status, &waited.status)?;
    }
    write_usage(usage, &waited)?;
    Ok(waited.pid as u64)
}

/// The child's resource usage, to where wait4 and waitid want it (0: nowhere).
fn write_usage(address: u64, waited: &Waited) -> Result {
    if address == 0 {
        return Ok(());
    }
    let times = &waited.times;
    let usage = Usage {
        user: times.user + times.children_user,
        system: times.system + times.children_system,
        peak_rss: waited.peak_rss,
        faults: waited.faults,
        switches: (0, 0),
    };
    usage.write(address.into())
}

/// waitid(2).
pub fn waitid(task: &Task, kind: u64, id: u64, info: u64, options: u64, usage: u64) -> Result<u64> {
    let options = options as u32;
    let events = abi::WEXITED | WUNTRACED | WCONTINUED;
    if options & !(events | abi::WNOHANG | WNOWAIT | KINDS) != 0 || options & events == 0 {
        return Err(Errno::EINVAL);
    }
    let id = id as Pid;
    let target = match kind as u32 {
        abi::P_ALL => WaitTarget::Any,
        abi::P_PID if id > 0 => WaitTarget::Pid(id),
        abi::P_PGID if id == 0 => WaitTarget::Group(task.process().pgid()),
        abi::P_PGID if id > 0 => WaitTarget::Group(id),
        abi::P_PIDFD => WaitTarget::Pid(pidfd::process(task, Fd(id))?.pid()),
        _ => return Err(Errno::EINVAL),
    };
    let waited = task::wait_for_child(task, &WaitRequest { target, options })?;
    if let Some(waited) = &waited {
        write_usage(usage, waited)?;
    }
    if info != 0 {
        write_info(info, waited.as_ref())?;
    }
    Ok(0)
}

/// SIGCHLD's siginfo, of which waitid fills six fields; zeros when there is nothing to tell.
fn write_info(address: u64, waited: Option<&Waited>) -> Result {
    let words: [i32; 7] = waited.map_or([0; 7], |w| {
        [
            crate::process::signal::SIGCHLD,
            0,
            w.code as i32,
            0,
            w.pid,
            w.uid as i32,
            w.number,
        ]
    });
    for (i, word) in words.iter().enumerate().filter(|(i, _)| *i != 3) {
        uaccess::write(address.wrapping_add(4 * i as u64), word)?;
    }
    Ok(())
}

/// pidfd_open(2).
pub fn pidfd_open(task: &Task, pid: u64, flags: u64) -> Result<u64> {
    let flags = flags as u32;
    if (pid as Pid) <= 0 || flags & !abi::O_NONBLOCK != 0 {
        return Err(Errno::EINVAL);
    }
    let process = task::find(pid as Pid).ok_or(match task::find_task(pid as Pid) {
        Some(_) => Errno::EINVAL,
        None => Errno::ESRCH,
    })?;
    Ok(pidfd::open(task, process, flags)?.to_return())
}

/// set_tid_address(2).
pub fn set_tid_address(task: &Task, address: u64) -> Result<u64> {
    task.clear_child_tid.store(address, Relaxed);
    Ok(task.tid() as u64)
}

/// futex(2).
pub fn futex(
    task: &Task,
    address: u64,
    operation: u64,
    value: u64,
    time: u64,
    other: u64,
    value3: u64,
) -> Result<u64> {
    let operation = operation as u32;
    let private = operation & abi::FUTEX_PRIVATE_FLAG != 0;
    let realtime = operation & abi::FUTEX_CLOCK_REALTIME != 0;
    let command = operation & !(abi::FUTEX_PRIVATE_FLAG | abi::FUTEX_CLOCK_REALTIME);
    let (value, value3) = (value as u32, value3 as u32);
    // Only this call of those here takes a time of either clock.
    if realtime && command != abi::FUTEX_WAIT_BITSET {
        return Err(Errno::ENOSYS);
    }
    match command {
        abi::FUTEX_WAIT => {
            let deadline = time::relative_deadline(task, time.into())?;
            words::wait(address, value, u32::MAX, private, deadline).map(|()| 0)
        }
        abi::FUTEX_WAIT_BITSET => {
            let deadline = time::absolute_deadline(time.into(), realtime)?;
            words::wait(address, value, value3, private, deadline).map(|()| 0)
        }
        abi::FUTEX_WAKE => words::wake(address, value, u32::MAX, private),
        abi::FUTEX_WAKE_BITSET => words::wake(address, value, value3, private),
        abi::FUTEX_REQUEUE => words::requeue(address, other, value, time as u32, None, private),
        abi::FUTEX_CMP_REQUEUE => {
            words::requeue(address, other, value, time as u32, Some(value3), private)
        }
        abi::FUTEX_WAKE_OP => words::wake_op(address, other, value, time as u32, value3, private),
        _ => Err(Errno::ENOSYS),
    }
}
