//! ptrace of threads that did not ask for it: attaching, events, registers, steps, breakpoints.
use std::sync::atomic::AtomicU64;
use userland::harness::{Outcome, Stop, in_child, skip};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::trace::{
    self, NT_PRSTATUS, message, ptrace, registers, set_registers, siginfo, stop_of, wait_raw, word,
};
use userland::sys::{file, sig};
use userland::{check, check_eq, check_err};

userland::tests![
    tracer_attaches_and_detaches,
    tracer_interrupts,
    tracer_listens_to_a_stopped_process,
    tracer_attaches_to_a_stopped_process,
    tracer_sees_forks,
    tracer_sees_vforks,
    tracer_sees_threads,
    tracer_sees_programs_and_ends,
    tracer_of_another_ones_child,
    tracer_that_is_traced,
    tracer_of_many_threads,
    tracer_sees_pending_signals,
    tracer_ends_with_many,
    tracer_refuses,
];

const CONT: usize = libc::PTRACE_CONT as usize;
pub const SYSCALL: usize = libc::PTRACE_SYSCALL as usize;
pub const STEP: usize = libc::PTRACE_SINGLESTEP as usize;
const ATTACH: usize = libc::PTRACE_ATTACH as usize;
pub const SEIZE: usize = libc::PTRACE_SEIZE as usize;
const INTERRUPT: usize = libc::PTRACE_INTERRUPT as usize;
const LISTEN: usize = libc::PTRACE_LISTEN as usize;
const DETACH: usize = libc::PTRACE_DETACH as usize;
const EVENT_STOP: i32 = 128;

pub type Result<T> = std::result::Result<T, Stop>;

/// A child that does `act`, which ends it with its value, or 99.
pub fn child(act: impl FnOnce() -> Result<i32>) -> Result<i32> {
    match proc::fork()? {
        Fork::Child => proc::exit_now(act().unwrap_or(99)),
        Fork::Parent(pid) => Ok(pid),
    }
}

/// A child that waits for a byte, and does `act` with it; where the byte goes.
fn waiting(act: impl FnOnce(i32) -> Result<i32>) -> Result<(i32, i32)> {
    let (hear, tell) = file::pipe(0)?;
    let pid = child(|| {
        let mut byte = [0];
        file::read(hear, &mut byte)?;
        act(byte[0].into())
    })?;
    file::close(hear)?;
    proc::wait_until_asleep(pid);
    Ok((pid, tell))
}

/// The next event of a thread is this stop.
pub fn stopped(pid: i32, signal: i32, event: i32) -> Outcome {
    let (found, raw) = wait_raw(pid)?;
    check!(libc::WIFSTOPPED(raw), "status {raw:#x}");
    check_eq!((found, stop_of(raw)), (pid, (signal, event)));
    Ok(())
}

/// A seized child that waits, interrupted, and sent on after `prepare`.
pub fn seized(options: i32, act: impl FnOnce(i32) -> Result<i32>) -> Result<(i32, i32)> {
    let (pid, tell) = waiting(act)?;
    ptrace(SEIZE, pid, 0, options as usize)?;
    ptrace(INTERRUPT, pid, 0, 0)?;
    stopped(pid, libc::SIGTRAP, EVENT_STOP)?;
    Ok((pid, tell))
}

pub fn go_on(pid: i32, signal: i32) -> Outcome {
    ptrace(CONT, pid, 0, signal as usize)?;
    Ok(())
}

/// The call in which it waited is repeated each time.
fn tracer_attaches_and_detaches() -> Outcome {
    let (pid, tell) = waiting(Ok)?;
    for _ in 0..2 {
        ptrace(ATTACH, pid, 0, 0)?;
        stopped(pid, libc::SIGSTOP, 0)?;
        check_err!(ptrace(ATTACH, pid, 0, 0), EPERM);
        let regs = registers(pid, NT_PRSTATUS)?;
        check!(regs[word::SP] != 0 && regs[word::PC] != 0, "{regs:x?}");
        set_registers(pid, NT_PRSTATUS, &regs)?;
        ptrace(DETACH, pid, 0, 0)?;
        check_err!(ptrace(CONT, pid, 0, 0), ESRCH);
        proc::wait_until_asleep(pid);
    }
    file::write(tell, &[7])?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(7));
    file::close(tell)?;
    Ok(())
}

fn tracer_interrupts() -> Outcome {
    let (pid, tell) = seized(libc::PTRACE_O_TRACESYSGOOD, Ok)?;
    check_eq!(siginfo(pid)?.1, libc::SIGTRAP | EVENT_STOP << 8);
    go_on(pid, 0)?;
    check_err!(ptrace(CONT, pid, 0, 0), ESRCH);
    proc::wait_until_asleep(pid);
    proc::kill(pid, libc::SIGWINCH)?;
    stopped(pid, libc::SIGWINCH, 0)?;
    // Asked for while it is stopped.
    ptrace(INTERRUPT, pid, 0, 0)?;
    go_on(pid, 0)?;
    file::write(tell, &[8])?;
    let (_, mut raw) = wait_raw(pid)?;
    if libc::WIFSTOPPED(raw) {
        check_eq!(stop_of(raw), (libc::SIGTRAP, EVENT_STOP));
        go_on(pid, 0)?;
        raw = wait_raw(pid)?.1;
    }
    check_eq!(Status::from_raw(raw), Status::Exited(8));
    file::close(tell)?;
    Ok(())
}

/// A stop of the process is told to the tracer, which may wait with it for its end.
fn tracer_listens_to_a_stopped_process() -> Outcome {
    let (pid, tell) = seized(0, Ok)?;
    go_on(pid, 0)?;
    proc::kill(pid, libc::SIGSTOP)?;
    stopped(pid, libc::SIGSTOP, 0)?;
    check_err!(ptrace(LISTEN, pid, 0, 0), EIO);
    go_on(pid, libc::SIGSTOP)?;
    stopped(pid, libc::SIGSTOP, EVENT_STOP)?;
    ptrace(LISTEN, pid, 0, 0)?;
    check_err!(ptrace(CONT, pid, 0, 0), ESRCH);
    proc::kill(pid, libc::SIGCONT)?;
    stopped(pid, libc::SIGTRAP, EVENT_STOP)?;
    go_on(pid, 0)?;
    stopped(pid, libc::SIGCONT, 0)?;
    go_on(pid, 0)?;
    file::write(tell, &[9])?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(9));
    file::close(tell)?;
    Ok(())
}

fn tracer_attaches_to_a_stopped_process() -> Outcome {
    let (pid, tell) = waiting(Ok)?;
    proc::kill(pid, libc::SIGSTOP)?;
    check_eq!(
        proc::wait(pid, libc::WUNTRACED)?,
        Some((pid, Status::Stopped(libc::SIGSTOP)))
    );
    ptrace(SEIZE, pid, 0, 0)?;
    // At once, before wait has told of it.
    registers(pid, NT_PRSTATUS)?;
    stopped(pid, libc::SIGSTOP, EVENT_STOP)?;
    // Its process stays stopped; it runs.
    go_on(pid, 0)?;
    proc::wait_until_asleep(pid);
    // The process goes on before the tracer listens.
    proc::kill(pid, libc::SIGSTOP)?;
    stopped(pid, libc::SIGSTOP, 0)?;
    go_on(pid, libc::SIGSTOP)?;
    stopped(pid, libc::SIGSTOP, EVENT_STOP)?;
    proc::kill(pid, libc::SIGCONT)?;
    ptrace(LISTEN, pid, 0, 0)?;
    stopped(pid, libc::SIGTRAP, EVENT_STOP)?;
    go_on(pid, 0)?;
    stopped(pid, libc::SIGCONT, 0)?;
    go_on(pid, 0)?;
    file::write(tell, &[10])?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(10));
    file::close(tell)?;
    Ok(())
}

/// Lets a thread go on with each of its signals until its end, or an event.
fn until_event(pid: i32) -> Result<i32> {
    go_on(pid, 0)?;
    loop {
        let (_, raw) = wait_raw(pid)?;
        if !libc::WIFSTOPPED(raw) || stop_of(raw).1 != 0 {
            return Ok(raw);
        }
        go_on(pid, stop_of(raw).0)?;
    }
}

/// The tracer follows the child: it hears of its end first, and the parent after it.
fn follow(options: i32, event: i32, fork: impl FnOnce() -> Result<i32>) -> Outcome {
    let (pid, tell) = seized(options, |_| {
        let child = fork()?;
        match proc::wait_for(child)? {
            Status::Exited(status) => Ok(status),
            _ => Ok(98),
        }
    })?;
    file::write(tell, &[1])?;
    let raw = until_event(pid)?;
    check_eq!(stop_of(raw), (libc::SIGTRAP, event));
    let child = message(pid)? as i32;
    stopped(child, libc::SIGTRAP, EVENT_STOP)?;
    // The parent waits for it in the meantime.
    go_on(pid, 0)?;
    check_eq!(Status::from_raw(until_event(child)?), Status::Exited(5));
    check_err!(ptrace(CONT, child, 0, 0), ESRCH);
    let mut raw = wait_raw(pid)?.1;
    while libc::WIFSTOPPED(raw) {
        // Its child's SIGCHLD, and what vfork ends with.
        let signal = if stop_of(raw).1 == 0 {
            stop_of(raw).0
        } else {
            0
        };
        go_on(pid, signal)?;
        raw = wait_raw(pid)?.1;
    }
    check_eq!(Status::from_raw(raw), Status::Exited(5));
    file::close(tell)?;
    Ok(())
}

fn tracer_sees_forks() -> Outcome {
    let fork = || child(|| Ok(5));
    follow(libc::PTRACE_O_TRACEFORK, libc::PTRACE_EVENT_FORK, fork)
}

fn tracer_sees_vforks() -> Outcome {
    let vfork = || {
        static WORD: AtomicU64 = AtomicU64::new(0);
        Ok(proc::vfork_store_and_exit(WORD.as_ptr() as usize, 1, 5)?)
    };
    let options = libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACEVFORKDONE;
    follow(options, libc::PTRACE_EVENT_VFORK, vfork)
}

/// A thread that ends is there until its tracer has waited for it.
fn tracer_sees_threads() -> Outcome {
    let (hear, end) = file::pipe(0)?;
    let (pid, tell) = seized(libc::PTRACE_O_TRACECLONE, |_| {
        let thread = std::thread::spawn(proc::gettid);
        let other = thread.join().is_ok_and(|tid| tid != proc::getpid());
        // The end of the process would be the thread's.
        file::read(hear, &mut [0])?;
        Ok(i32::from(other))
    })?;
    file::write(tell, &[1])?;
    let raw = until_event(pid)?;
    check_eq!(stop_of(raw), (libc::SIGTRAP, libc::PTRACE_EVENT_CLONE));
    let thread = message(pid)? as i32;
    stopped(thread, libc::SIGTRAP, EVENT_STOP)?;
    let regs = registers(thread, NT_PRSTATUS)?;
    check!(
        regs[word::SP] != registers(pid, NT_PRSTATUS)?[word::SP],
        "{regs:x?}"
    );
    go_on(pid, 0)?;
    check_eq!(Status::from_raw(until_event(thread)?), Status::Exited(0));
    file::write(end, &[1])?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(1));
    for fd in [hear, end, tell] {
        file::close(fd)?;
    }
    Ok(())
}

fn tracer_sees_programs_and_ends() -> Outcome {
    let me = std::env::current_exe()?.to_string_lossy().into_owned();
    let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACEEXIT;
    let (pid, tell) = seized(options, |_| {
        proc::exec(&me, &["x", "--as", "args"].map(String::from), &[]);
        Ok(1)
    })?;
    file::write(tell, &[1])?;
    let raw = until_event(pid)?;
    check_eq!(stop_of(raw), (libc::SIGTRAP, libc::PTRACE_EVENT_EXEC));
    check_eq!(message(pid)?, pid as u64);
    let raw = until_event(pid)?;
    check_eq!(stop_of(raw), (libc::SIGTRAP, libc::PTRACE_EVENT_EXIT));
    check_eq!(message(pid)?, 3 << 8);
    check_eq!(Status::from_raw(until_event(pid)?), Status::Exited(3));
    file::close(tell)?;
    Ok(())
}

/// The parent waits in vain while another process traces its child, and until that has waited.
fn tracer_of_another_ones_child() -> Outcome {
    let (pid, tell) = waiting(Ok)?;
    let (hear, say) = file::pipe(0)?;
    let other = child(|| {
        ptrace(SEIZE, pid, 0, 0)?;
        file::write(say, b"x")?;
        proc::wait_for_state(pid, "Z");
        file::write(say, b"y")?;
        proc::wait_until_asleep(proc::getppid());
        let end = wait_raw(pid)?;
        Ok(i32::from(end == (pid, 11 << 8)))
    })?;
    file::close(say)?;
    if file::read(hear, &mut [0])? == 0 {
        proc::kill(pid, libc::SIGKILL)?;
        return skip("only a parent may trace here");
    }
    file::write(tell, &[11])?;
    file::read(hear, &mut [0])?;
    check_eq!(proc::wait(pid, libc::WNOHANG)?, None);
    check_eq!(proc::wait_for(pid)?, Status::Exited(11));
    check_eq!(proc::wait_for(other)?, Status::Exited(1));
    file::close(tell)?;
    file::close(hear)?;
    Ok(())
}

/// Two processes that trace each other.
fn tracer_that_is_traced() -> Outcome {
    let parent = proc::getpid();
    let (pid, tell) = waiting(|n| {
        // Else it would stop, for a tracer that has stopped for it.
        sig::mask(libc::SIG_BLOCK, &[libc::SIGCHLD])?;
        if ptrace(SEIZE, parent, 0, 0).is_err() {
            return Ok(1);
        }
        ptrace(INTERRUPT, parent, 0, 0)?;
        stopped(parent, libc::SIGTRAP, EVENT_STOP)?;
        Ok(n)
    })?;
    ptrace(SEIZE, pid, 0, 0)?;
    file::write(tell, &[14])?;
    // It goes on when its own tracee, its tracer, has ended.
    let status = proc::wait_for(pid)?;
    file::close(tell)?;
    if status == Status::Exited(1) {
        return skip("only a parent may trace here");
    }
    check_eq!(status, Status::Exited(14));
    Ok(())
}

/// All threads of a process, stopped at once, and let go by the end of their tracer.
fn tracer_of_many_threads() -> Outcome {
    const MANY: usize = 200;
    let (hear, tell) = file::pipe(0)?;
    let (pid, start) = waiting(|_| {
        let read = move || file::read(hear, &mut [0]);
        let threads: Vec<_> = (0..MANY).map(|_| std::thread::spawn(read)).collect();
        let ended = threads.into_iter().filter_map(|it| it.join().ok()?.ok());
        Ok((ended.sum::<usize>() == MANY).into())
    })?;
    file::write(start, &[1])?;
    let tasks = || -> Result<Vec<i32>> {
        let names = std::fs::read_dir(format!("/proc/{pid}/task"))?;
        let number = |name: std::fs::DirEntry| name.file_name().to_str()?.parse().ok();
        Ok(names.flatten().filter_map(number).collect())
    };
    while tasks()?.len() <= MANY {
        proc::sched_yield();
    }
    let status = in_child(|| {
        for tid in tasks()? {
            ptrace(SEIZE, tid, 0, 0)?;
        }
        for tid in tasks()? {
            ptrace(INTERRUPT, tid, 0, 0)?;
        }
        for tid in tasks()? {
            stopped(tid, libc::SIGTRAP, EVENT_STOP)?;
            registers(tid, NT_PRSTATUS)?;
        }
        Ok(0)
    })?;
    if status == Status::Exited(99) {
        proc::kill(pid, libc::SIGKILL)?;
        return skip("only a parent may trace here");
    }
    check_eq!(status, Status::Exited(0));
    file::write(tell, &[0; MANY])?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(1));
    for fd in [hear, tell, start] {
        file::close(fd)?;
    }
    Ok(())
}

fn tracer_sees_pending_signals() -> Outcome {
    const PEEK: usize = 0x4209;
    let (pid, tell) = waiting(Ok)?;
    ptrace(ATTACH, pid, 0, 0)?;
    stopped(pid, libc::SIGSTOP, 0)?;
    let mask = 1u64 << (libc::SIGUSR1 - 1) | 1 << (libc::SIGUSR2 - 1);
    ptrace(0x420b, pid, 8, &raw const mask as usize)?;
    for signal in [libc::SIGUSR2, libc::SIGUSR1] {
        proc::kill(pid, signal)?;
    }
    let mut infos = [[0u64; 16]; 3];
    let mut peek = |first: u64, flags: u32, most: i32| {
        let arguments = [first, u64::from(flags) | (most as u32 as u64) << 32];
        let at = arguments.as_ptr() as usize;
        let found = ptrace(PEEK, pid, at, infos.as_mut_ptr() as usize);
        found.map(|n| (n, infos.map(|info| info[0] as i32)))
    };
    check_eq!(peek(0, 0, 3)?.0, 0);
    let (n, signals) = peek(0, 1, 3)?;
    check_eq!((n, &signals[..2]), (2, &[libc::SIGUSR2, libc::SIGUSR1][..]));
    check_eq!(peek(1, 1, 3)?.0, 1);
    check_eq!(peek(2, 1, 3)?.0, 0);
    check_err!(peek(0, 2, 1), EINVAL);
    check_err!(peek(0, 1, -1), EINVAL);
    let none = 0u64;
    let mut found = 0u64;
    ptrace(0x420a, pid, 8, &raw mut found as usize)?;
    check_eq!(found, mask);
    check_err!(ptrace(0x420b, pid, 4, &raw const none as usize), EINVAL);
    proc::kill(pid, libc::SIGKILL)?;
    check_eq!(proc::wait_for(pid)?, Status::Killed(libc::SIGKILL));
    file::close(tell)?;
    Ok(())
}

/// A tracer that dies lets all of them go, or has them killed.
fn tracer_ends_with_many() -> Outcome {
    const MANY: usize = 64;
    for (options, end) in [
        (0, Status::Exited(1)),
        (libc::PTRACE_O_EXITKILL, Status::Killed(libc::SIGKILL)),
    ] {
        let (hear, tell) = file::pipe(0)?;
        let children: Vec<i32> = (0..MANY)
            .map(|_| child(|| Ok(file::read(hear, &mut [0])? as i32)))
            .collect::<Result<_>>()?;
        let status = in_child(|| {
            for pid in &children {
                ptrace(SEIZE, *pid, 0, options as usize)?;
            }
            for pid in children.iter().take(MANY / 2) {
                ptrace(INTERRUPT, *pid, 0, 0)?;
                stopped(*pid, libc::SIGTRAP, EVENT_STOP)?;
            }
            Ok(0)
        })?;
        check_eq!(status, Status::Exited(0));
        file::write(tell, &[0; MANY])?;
        for pid in children {
            check_eq!(proc::wait_for(pid)?, end);
        }
        file::close(hear)?;
        file::close(tell)?;
    }
    Ok(())
}

fn tracer_refuses() -> Outcome {
    let me = proc::getpid();
    check_err!(ptrace(ATTACH, me, 0, 0), EPERM);
    check_err!(ptrace(SEIZE, me, 0, 0), EPERM);
    check_err!(ptrace(ATTACH, 0x3f_fff0, 0, 0), ESRCH);
    let (pid, tell) = waiting(Ok)?;
    check_err!(ptrace(INTERRUPT, pid, 0, 0), ESRCH);
    check_err!(ptrace(SEIZE, pid, 1, 0), EIO);
    check_err!(ptrace(SEIZE, pid, 0, 1 << 30), EIO);
    ptrace(ATTACH, pid, 0, 0)?;
    stopped(pid, libc::SIGSTOP, 0)?;
    check_err!(ptrace(INTERRUPT, pid, 0, 0), EIO);
    check_err!(ptrace(LISTEN, pid, 0, 0), EIO);
    check_err!(registers(pid, 12345), EINVAL);
    let regs = registers(pid, NT_PRSTATUS)?;
    for privilege in [0, 8, 0x10, 5] {
        let mut regs = regs.clone();
        if cfg!(target_arch = "x86_64") {
            regs[word::PRIVILEGE] = privilege;
            check_err!(set_registers(pid, NT_PRSTATUS, &regs), EIO);
        } else {
            regs[word::PRIVILEGE] |= privilege | 4;
            check_err!(set_registers(pid, NT_PRSTATUS, &regs), EINVAL);
        }
    }
    check_err!(trace::set_breakpoint(pid, Some(usize::MAX & !7)), EINVAL);
    let mut range = [regs.as_ptr() as usize, 12];
    let range = range.as_mut_ptr() as usize;
    check_err!(
        ptrace(libc::PTRACE_SETREGSET as usize, pid, NT_PRSTATUS, range),
        EINVAL
    );
    check_err!(
        ptrace(libc::PTRACE_GETREGSET as usize, pid, NT_PRSTATUS, 16),
        EFAULT
    );
    check_eq!(registers(pid, NT_PRSTATUS)?, regs);
    go_on(pid, 0)?;
    file::write(tell, &[13])?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(13));
    file::close(tell)?;
    Ok(())
}
