//! What a tracer does call by call, step by step, and by breakpoints of the CPU.
use crate::tracers::{Result, SEIZE, STEP, SYSCALL, child, go_on, seized, stopped};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use userland::harness::{Outcome, skip};
use userland::sys::proc::{self, Status};
use userland::sys::trace::{
    self, NT_PRSTATUS, message, ptrace, registers, set_registers, siginfo, stop_of, wait_raw, word,
};
use userland::sys::{Errno, call, file, sig};
use userland::{check, check_eq, check_err};

userland::tests![
    tracer_reads_calls,
    tracer_replaces_calls,
    tracer_sets_calls,
    tracer_steps,
    tracer_steps_into_a_handler,
    tracer_breaks,
    tracer_watches,
];

/// `struct ptrace_syscall_info`, in words.
fn call_info(pid: i32) -> Result<(usize, [u64; 11])> {
    let mut words = [0u64; 11];
    let into = words.as_mut_ptr() as usize;
    let n = ptrace(0x420e, pid, 88, into)?;
    Ok((n, words))
}

/// Sends a thread on from the begin of each call to its end and on to the next; its status.
fn each_call(pid: i32, mut at: impl FnMut(usize, [u64; 11]) -> Outcome) -> Result<Status> {
    loop {
        ptrace(SYSCALL, pid, 0, 0)?;
        let (_, raw) = wait_raw(pid)?;
        if !libc::WIFSTOPPED(raw) {
            return Ok(Status::from_raw(raw));
        }
        check_eq!(stop_of(raw), (libc::SIGTRAP | 0x80, 0));
        let (n, info) = call_info(pid)?;
        at(n, info)?;
    }
}

/// Whether it is the begin of this call.
fn begins(info: &[u64; 11], call: i64) -> bool {
    info[0] as u8 == 1 && info[3] == call as u64
}

fn tracer_reads_calls() -> Outcome {
    let (pid, tell) = seized(libc::PTRACE_O_TRACESYSGOOD, |_| {
        let _ = call(libc::SYS_close, [12345, 2, 3, 4, 5, 6]);
        Ok(0)
    })?;
    check_eq!(call_info(pid)?.1[0] as u8, 0);
    file::write(tell, &[1])?;
    let mut seen = None;
    each_call(pid, |n, info| {
        let op = info[0] as u8;
        check!((1..=2).contains(&op), "{info:x?}");
        check_eq!(message(pid)?, u64::from(op));
        if begins(&info, libc::SYS_close) && info[4] == 12345 {
            check_eq!(n, 80);
            check_eq!(info[4..10], [12345, 2, 3, 4, 5, 6]);
            seen = Some(info[1]);
        } else if let Some(pc) = seen.take() {
            check_eq!(
                (n, info[1], info[3] as i64),
                (33, pc, -i64::from(libc::EBADF))
            );
            check_eq!(info[4] as u8, 1);
        }
        Ok(())
    })?;
    file::close(tell)?;
    Ok(())
}

/// A call that its tracer makes none, and one of another result.
fn tracer_replaces_calls() -> Outcome {
    let (pid, tell) = seized(libc::PTRACE_O_TRACESYSGOOD, |_| {
        let id = call(libc::SYS_getppid, [0; 6])?;
        Ok(id as i32)
    })?;
    file::write(tell, &[1])?;
    let status = each_call(pid, |_, info| {
        if begins(&info, libc::SYS_getppid) {
            trace::set_call(pid, -1)?;
            ptrace(SYSCALL, pid, 0, 0)?;
            stopped(pid, libc::SIGTRAP | 0x80, 0)?;
            let mut regs = registers(pid, NT_PRSTATUS)?;
            regs[word::RESULT] = 42;
            set_registers(pid, NT_PRSTATUS, &regs)?;
        }
        Ok(())
    })?;
    check_eq!(status, Status::Exited(42));
    file::close(tell)?;
    Ok(())
}

/// A call that its tracer makes another one, with another result.
fn tracer_sets_calls() -> Outcome {
    const SET: usize = 0x4212;
    let (pid, tell) = seized(libc::PTRACE_O_TRACESYSGOOD, |_| {
        let value = call(libc::SYS_getppid, [0; 6])?;
        Ok(value as i32)
    })?;
    let set = |words: &[u64; 11]| ptrace(SET, pid, 88, words.as_ptr() as usize);
    if set(&call_info(pid)?.1) == Err(Errno(libc::EIO)) {
        proc::kill(pid, libc::SIGKILL)?;
        return skip("PTRACE_SET_SYSCALL_INFO is new in Linux 6.16");
    }
    check_err!(set(&call_info(pid)?.1), EINVAL);
    file::write(tell, &[1])?;
    let status = each_call(pid, |_, mut info| {
        if !begins(&info, libc::SYS_getppid) {
            return Ok(());
        }
        info[0] = 1;
        for (at, wrong, why) in [
            (0, 2, libc::EINVAL),
            (0, 1 | 1 << 8, libc::EINVAL),
            (0, 1 | 1 << 16, libc::EINVAL),
            (3, 1 << 32, libc::ERANGE),
        ] {
            let mut words = info;
            words[at] = wrong;
            check_eq!(set(&words), Err(Errno(why)));
        }
        check_err!(ptrace(SET, pid, 87, info.as_ptr() as usize), EINVAL);
        (info[3], info[4]) = (libc::SYS_close as u64, 12345);
        set(&info)?;
        check_eq!(call_info(pid)?.1[3..10], info[3..10]);
        ptrace(SYSCALL, pid, 0, 0)?;
        stopped(pid, libc::SIGTRAP | 0x80, 0)?;
        let (_, mut info) = call_info(pid)?;
        check_eq!(info[3] as i64, -i64::from(libc::EBADF));
        (info[0], info[3], info[4]) = (2, 43, 0);
        set(&info)?;
        Ok(())
    })?;
    check_eq!(status, Status::Exited(43));
    file::close(tell)?;
    Ok(())
}

fn tracer_steps() -> Outcome {
    let (pid, tell) = seized(0, |_| Ok(12))?;
    file::write(tell, &[1])?;
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..30 {
        ptrace(STEP, pid, 0, 0)?;
        stopped(pid, libc::SIGTRAP, 0)?;
        places.insert(registers(pid, NT_PRSTATUS)?[word::PC]);
    }
    check!(places.len() > 10, "{places:x?}");
    go_on(pid, 0)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(12));
    file::close(tell)?;
    Ok(())
}

extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    HANDLED.fetch_add(1, Relaxed);
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

/// The first instruction of a handler is a step of its own.
fn tracer_steps_into_a_handler() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let pid = child(|| {
        sig::handle(libc::SIGUSR1, handler, libc::SA_RESTART)?;
        file::read(hear, &mut [0])?;
        Ok(HANDLED.load(Relaxed) as i32)
    })?;
    proc::wait_until_asleep(pid);
    ptrace(SEIZE, pid, 0, 0)?;
    proc::kill(pid, libc::SIGUSR1)?;
    stopped(pid, libc::SIGUSR1, 0)?;
    ptrace(STEP, pid, 0, libc::SIGUSR1 as usize)?;
    stopped(pid, libc::SIGTRAP, 0)?;
    check_eq!(
        registers(pid, NT_PRSTATUS)?[word::PC],
        handler as *const () as u64
    );
    go_on(pid, 0)?;
    proc::wait_until_asleep(pid);
    file::write(tell, &[1])?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(1));
    file::close(hear)?;
    file::close(tell)?;
    Ok(())
}

#[inline(never)]
extern "C" fn here(n: i32) -> i32 {
    std::hint::black_box(n) + 1
}

fn tracer_breaks() -> Outcome {
    let (pid, tell) = seized(0, |n| {
        Ok(std::hint::black_box(here as extern "C" fn(i32) -> i32)(n))
    })?;
    let at = here as *const () as usize;
    trace::set_breakpoint(pid, Some(at))?;
    go_on(pid, 0)?;
    file::write(tell, &[20])?;
    stopped(pid, libc::SIGTRAP, 0)?;
    check_eq!(registers(pid, NT_PRSTATUS)?[word::PC], at as u64);
    let (signo, code, addr) = siginfo(pid)?;
    check_eq!((signo, code, addr), (libc::SIGTRAP, 4, at as u64));
    trace::set_breakpoint(pid, None)?;
    go_on(pid, 0)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(21));
    file::close(tell)?;
    Ok(())
}

fn tracer_watches() -> Outcome {
    static WORD: AtomicU64 = AtomicU64::new(5);
    let (pid, tell) = seized(0, |n| {
        let before = WORD.load(Relaxed);
        WORD.store(n as u64, Relaxed);
        Ok((before + WORD.load(Relaxed)) as i32)
    })?;
    trace::set_watchpoint(pid, Some(WORD.as_ptr() as usize))?;
    go_on(pid, 0)?;
    file::write(tell, &[30])?;
    stopped(pid, libc::SIGTRAP, 0)?;
    check_eq!(siginfo(pid)?.1, 4);
    trace::set_watchpoint(pid, None)?;
    go_on(pid, 0)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(35));
    file::close(tell)?;
    Ok(())
}
