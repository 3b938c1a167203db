//! ptrace of a child that asks for it: its stops, how it goes on, and what is refused.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::proc::{self, Fork, Status, WaitInfo};
use userland::sys::trace::ptrace;
use userland::sys::{call, fault, file, sig};
use userland::{check, check_eq, check_err};

userland::tests![
    trace_stops_before_a_signal,
    trace_chooses_the_signal,
    trace_stops_at_a_blocked_fault,
    trace_stops_at_system_calls,
    trace_words_of_memory,
    trace_a_stop_of_the_process,
    trace_stops_at_a_new_program,
    trace_is_shown,
    trace_only_sigkill_ends_a_stop,
    trace_ends_with_the_tracer,
    trace_detached,
    trace_refuses,
];

const TRACEME: usize = libc::PTRACE_TRACEME as usize;
const PEEK: usize = libc::PTRACE_PEEKDATA as usize;
const POKE: usize = libc::PTRACE_POKEDATA as usize;
const CONT: usize = libc::PTRACE_CONT as usize;
const KILL: usize = libc::PTRACE_KILL as usize;
const DETACH: usize = libc::PTRACE_DETACH as usize;
const SYSCALL: usize = libc::PTRACE_SYSCALL as usize;
const OPTIONS: usize = libc::PTRACE_SETOPTIONS as usize;
const SYSGOOD: usize = libc::PTRACE_O_TRACESYSGOOD as usize;
const EXITKILL: usize = libc::PTRACE_O_EXITKILL as usize;

/// A traced child that stops itself, and does `act` when it goes on; its exit status is what that
/// says, or 99.
fn traced(act: impl FnOnce() -> Result<i32, Stop>) -> Result<i32, Stop> {
    let pid = match proc::fork()? {
        Fork::Child => {
            let asked = ptrace(TRACEME, 0, 0, 0);
            let _ = proc::kill(proc::getpid(), libc::SIGSTOP);
            let status = asked.map_err(Stop::from).and_then(|_| act());
            proc::exit_now(status.unwrap_or(99))
        }
        Fork::Parent(pid) => pid,
    };
    stopped(pid, libc::SIGSTOP)?;
    Ok(pid)
}

/// The child's next event is a stop with this code, of which wait without WUNTRACED tells once.
fn stopped(pid: i32, code: i32) -> Outcome {
    check_eq!(proc::wait_for(pid)?, Status::Stopped(code));
    check_eq!(proc::wait(pid, libc::WNOHANG)?, None);
    Ok(())
}

fn go_on(pid: i32, signal: i32) -> Outcome {
    ptrace(CONT, pid, 0, signal as usize)?;
    Ok(())
}

fn trace_stops_before_a_signal() -> Outcome {
    let pid = traced(|| {
        sig::count(libc::SIGUSR1, 0, &[])?;
        sig::raise(libc::SIGUSR1);
        sig::raise(libc::SIGUSR1);
        // Nothing happens by default; a tracer sees it all the same.
        sig::raise(libc::SIGWINCH);
        Ok(sig::seen(libc::SIGUSR1) as i32)
    })?;
    go_on(pid, 0)?;
    stopped(pid, libc::SIGUSR1)?;
    go_on(pid, 0)?;
    let trapped = WaitInfo {
        pid,
        code: libc::CLD_TRAPPED,
        status: libc::SIGUSR1,
    };
    check_eq!(
        proc::waitid(libc::P_PID, pid as u32, libc::WSTOPPED | libc::WEXITED)?,
        trapped
    );
    go_on(pid, libc::SIGUSR1)?;
    stopped(pid, libc::SIGWINCH)?;
    go_on(pid, 0)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(1));
    Ok(())
}

fn trace_chooses_the_signal() -> Outcome {
    let act = || {
        sig::count(libc::SIGUSR2, 0, &[])?;
        sig::raise(libc::SIGUSR1);
        let tracer = sig::last().pid == proc::getppid();
        Ok(sig::seen(libc::SIGUSR2) as i32 + 2 * i32::from(tracer))
    };
    for (signal, end) in [
        (libc::SIGUSR2, Status::Exited(3)),
        (libc::SIGUSR1, Status::Killed(libc::SIGUSR1)),
        (libc::SIGTERM, Status::Killed(libc::SIGTERM)),
    ] {
        let pid = traced(act)?;
        go_on(pid, 0)?;
        stopped(pid, libc::SIGUSR1)?;
        go_on(pid, signal)?;
        check_eq!(proc::wait_for(pid)?, end);
    }
    Ok(())
}

/// A fault's signal ends a process that blocks it: its tracer is told before.
fn trace_stops_at_a_blocked_fault() -> Outcome {
    let pid = traced(|| {
        sig::mask(libc::SIG_BLOCK, &[libc::SIGSEGV])?;
        let _ = fault::read(16);
        Ok(1)
    })?;
    go_on(pid, 0)?;
    stopped(pid, libc::SIGSEGV)?;
    go_on(pid, libc::SIGSEGV)?;
    check_eq!(proc::wait_for(pid)?, Status::Killed(libc::SIGSEGV));
    Ok(())
}

/// Stops at system calls until another event.
fn calls(pid: i32, code: i32) -> Result<(u32, Status), Stop> {
    let mut stops = 0;
    loop {
        ptrace(SYSCALL, pid, 0, 0)?;
        match proc::wait_for(pid)? {
            Status::Stopped(stop) if stop == code => stops += 1,
            other => return Ok((stops, other)),
        }
    }
}

fn trace_stops_at_system_calls() -> Outcome {
    let act = || {
        call(libc::SYS_getpid, [0; 6])?;
        call(libc::SYS_getppid, [0; 6])?;
        call(libc::SYS_getuid, [0; 6])?;
        call(libc::SYS_exit, [4, 0, 0, 0, 0, 0])?;
        Ok(5)
    };
    for (options, code) in [
        (0, libc::SIGTRAP),
        (SYSGOOD, libc::SIGTRAP | 0x80),
        (SYSGOOD | EXITKILL, libc::SIGTRAP | 0x80),
    ] {
        let pid = traced(act)?;
        ptrace(OPTIONS, pid, 0, options)?;
        // Three calls, and the beginning of the last one.
        check_eq!(calls(pid, code)?, (7, Status::Exited(4)));
    }
    // Two calls, and then the signal that the second one sends.
    let pid = traced(|| {
        proc::kill(proc::getpid(), libc::SIGUSR1)?;
        Ok(0)
    })?;
    ptrace(OPTIONS, pid, 0, SYSGOOD)?;
    let stops = calls(pid, libc::SIGTRAP | 0x80)?;
    check_eq!(stops, (4, Status::Stopped(libc::SIGUSR1)));
    go_on(pid, 0)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(0));
    Ok(())
}

fn trace_words_of_memory() -> Outcome {
    static WORD: AtomicU64 = AtomicU64::new(0x1122_3344_5566_7788);
    const CONSTANT: &u64 = &0x0102_0304_0506_0708;
    let (word, constant) = (WORD.as_ptr() as usize, &raw const *CONSTANT as usize);
    let pid = traced(move || {
        let constant = fault::read(constant).unwrap_or(0);
        Ok((WORD.load(Relaxed) as u8 ^ constant).into())
    })?;
    let peek = |at: usize| {
        let mut value = 0u64;
        ptrace(PEEK, pid, at, &raw mut value as usize).map(|_| value)
    };
    check_eq!(peek(word)?, 0x1122_3344_5566_7788);
    check_eq!(peek(word + 3)? as u8, 0x55);
    ptrace(POKE, pid, word, 0x1122_3344_5566_7700 | 0x21)?;
    check_eq!(peek(word)? as u8, 0x21);
    // Also what the program may only read, without a change here.
    check_eq!(peek(constant)?, *CONSTANT);
    ptrace(POKE, pid, constant, 0x4)?;
    check_eq!(*CONSTANT, 0x0102_0304_0506_0708);
    check_err!(peek(16), EIO);
    check_err!(ptrace(POKE, pid, 16, 0), EIO);
    check_err!(ptrace(PEEK, pid, word, 16), EFAULT);
    go_on(pid, 0)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(0x25));
    check_eq!(WORD.load(Relaxed) as u8, 0x88);
    Ok(())
}

/// A signal that stops the process is told of twice: before it, and when all threads have stopped.
fn trace_a_stop_of_the_process() -> Outcome {
    let pid = traced(|| Ok(6))?;
    go_on(pid, libc::SIGSTOP)?;
    stopped(pid, libc::SIGSTOP)?;
    go_on(pid, 0)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(6));
    Ok(())
}

fn trace_stops_at_a_new_program() -> Outcome {
    let me = std::env::current_exe()?.to_string_lossy().into_owned();
    let pid = traced(|| {
        let words = ["x", "--as", "args"].map(String::from);
        proc::exec(&me, &words, &[]);
        Ok(1)
    })?;
    go_on(pid, 0)?;
    stopped(pid, libc::SIGTRAP)?;
    go_on(pid, 0)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(3));
    Ok(())
}

fn trace_is_shown() -> Outcome {
    let pid = traced(|| Ok(0))?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let tracer = format!("TracerPid:\t{}\n", proc::getpid());
    check!(
        status.contains("State:\tt (tracing stop)\n") && status.contains(&tracer),
        "{status}"
    );
    go_on(pid, 0)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(0));
    Ok(())
}

fn trace_only_sigkill_ends_a_stop() -> Outcome {
    let pid = traced(|| Ok(0))?;
    proc::kill(pid, libc::SIGTERM)?;
    proc::kill(pid, libc::SIGCONT)?;
    check_eq!(proc::wait(pid, libc::WNOHANG | libc::WUNTRACED)?, None);
    proc::kill(pid, libc::SIGKILL)?;
    check_eq!(proc::wait_for(pid)?, Status::Killed(libc::SIGKILL));
    let pid = traced(|| Ok(0))?;
    ptrace(KILL, pid, 0, 0)?;
    check_eq!(proc::wait_for(pid)?, Status::Killed(libc::SIGKILL));
    Ok(())
}

/// A traced child goes on when its tracer ends, or is killed with it. It holds a pipe meanwhile,
/// and writes to it when it goes on.
fn trace_ends_with_the_tracer() -> Outcome {
    for (options, written) in [(0, 1), (EXITKILL, 0)] {
        let (hear, tell) = file::pipe(0)?;
        let status = in_child(|| {
            let pid = traced(|| Ok(file::write(tell, b"x")? as i32))?;
            ptrace(OPTIONS, pid, 0, options)?;
            Ok(0)
        })?;
        check_eq!(status, Status::Exited(0));
        file::close(tell)?;
        check_eq!(file::read(hear, &mut [0; 4])?, written);
        file::close(hear)?;
    }
    Ok(())
}

fn trace_detached() -> Outcome {
    let pid = traced(|| {
        sig::count(libc::SIGUSR1, 0, &[])?;
        sig::raise(libc::SIGUSR1);
        Ok(sig::seen(libc::SIGUSR1) as i32)
    })?;
    ptrace(DETACH, pid, 0, 0)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(1));
    let pid = traced(|| Ok(0))?;
    ptrace(DETACH, pid, 0, libc::SIGTERM as usize)?;
    check_eq!(proc::wait_for(pid)?, Status::Killed(libc::SIGTERM));
    Ok(())
}

fn trace_refuses() -> Outcome {
    let me = proc::getpid();
    check_err!(ptrace(CONT, 0x3f_fff0, 0, 0), ESRCH);
    check_err!(ptrace(CONT, me, 0, 0), ESRCH);
    let status = in_child(|| {
        ptrace(TRACEME, 0, 0, 0)?;
        check_err!(ptrace(TRACEME, 0, 0, 0), EPERM);
        check_err!(ptrace(CONT, me, 0, 0), ESRCH);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    let (hear, tell) = file::pipe(0)?;
    let pid = traced(|| Ok(file::read(hear, &mut [0])? as i32))?;
    check_err!(ptrace(12345, pid, 0, 0), EIO);
    check_err!(ptrace(CONT, pid, 0, 65), EIO);
    check_err!(ptrace(OPTIONS, pid, 0, 1 << 30), EINVAL);
    go_on(pid, 0)?;
    // It runs, or sleeps in its call.
    check_err!(ptrace(SYSCALL, pid, 0, 0), ESRCH);
    check_err!(ptrace(OPTIONS, pid, 0, 0), ESRCH);
    file::write(tell, b"x")?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(1));
    check_err!(ptrace(CONT, pid, 0, 0), ESRCH);
    let _ = (file::close(hear), file::close(tell));
    Ok(())
}
