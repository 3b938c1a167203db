//! Signals: handlers, masks, stacks, restarts, timers.
use userland::harness::{Outcome, in_child, need};
use userland::sys::mem::{RW, mmap};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, call, file, sig};
use userland::{check, check_eq, check_err};

userland::tests![
    signal_handler_runs,
    signal_default_actions,
    signal_ignored,
    signal_to_a_threads_number,
    signal_blocked_waits,
    signal_mask_of_handler,
    signal_nodefer,
    signal_resethand,
    signal_restart,
    signal_eintr,
    signal_alternate_stack,
    signal_child_ends,
    signal_child_ignored_leaves_none,
    signal_suspend,
    signal_timed_wait,
    signal_sender,
    signal_kill_and_stop_are_fixed,
    signal_inherited_by_fork,
    signal_pending_not_inherited,
    signal_pending_limit,
];

/// A real-time signal that no library uses.
const REALTIME: i32 = 40;

/// rt_sigqueueinfo(2) of [`REALTIME`] to this process, as sigqueue(3) makes it.
fn queue() -> userland::sys::Result<usize> {
    queue_to(proc::getpid())
}

fn queue_to(number: i32) -> userland::sys::Result<usize> {
    let mut info = [0u32; 32];
    (info[0], info[2]) = (REALTIME as u32, libc::SI_QUEUE as u32);
    let (number, at) = (number as usize, info.as_ptr() as usize);
    call(
        libc::SYS_rt_sigqueueinfo,
        [number, REALTIME as usize, at, 0, 0, 0],
    )
}

/// How many signals are queued for this user's processes: `SigQ:  3/96364`, proc_pid_status(5).
fn queued_by_user() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigQ:"));
    let number = line.and_then(|line| line.trim().split('/').next()?.parse().ok());
    number.unwrap_or(0)
}

/// A thread's number means its process, for kill(2) and rt_sigqueueinfo(2).
fn signal_to_a_threads_number() -> Outcome {
    let status = in_child(|| {
        sig::mask(libc::SIG_BLOCK, &[REALTIME, libc::SIGUSR1])?;
        let (hear, tell) = file::pipe(0)?;
        let (send, receive) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let _ = send.send(proc::gettid());
            file::read(hear, &mut [0])
        });
        let tid = receive.recv().unwrap_or(0);
        queue_to(tid)?;
        proc::kill(tid, libc::SIGUSR1)?;
        let status = std::fs::read_to_string("/proc/self/status")?;
        let shared = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        let shared = shared.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        check_eq!(shared, Some(1 << (REALTIME - 1) | 1 << (libc::SIGUSR1 - 1)));
        file::close(tell)?;
        check!(thread.join().is_ok());
        check_err!(queue_to(1 << 29), ESRCH);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    Ok(())
}

/// RLIMIT_SIGPENDING: sigqueue and tgkill are refused at the limit, kill pends once all the same;
/// getrlimit(2), tgkill(2).
fn signal_pending_limit() -> Outcome {
    // Others of this user may have some queued.
    let limit = queued_by_user() + 10;
    let status = in_child(|| {
        sig::mask(libc::SIG_BLOCK, &[REALTIME, libc::SIGUSR1])?;
        proc::setrlimit(libc::RLIMIT_SIGPENDING, limit, limit)?;
        let mut queued = 0;
        let refused = loop {
            match queue() {
                Ok(_) => queued += 1,
                Err(error) => break error,
            }
        };
        let me = proc::getpid() as usize;
        let refusals = [
            Err(refused),
            queue(),
            call(libc::SYS_tgkill, [me, me, REALTIME as usize, 0, 0, 0]),
            call(libc::SYS_tkill, [me, REALTIME as usize, 0, 0, 0, 0]),
        ];
        let all_refused = refusals.iter().all(|r| *r == Err(Errno(libc::EAGAIN)));
        proc::kill(me as i32, REALTIME)?;
        proc::kill(me as i32, libc::SIGUSR1)?;
        let both = sig::pending(REALTIME) && sig::pending(libc::SIGUSR1);
        let mut taken = 0;
        while sig::timed_wait(&[REALTIME], 0).is_ok() {
            taken += 1;
        }
        // What is taken makes room.
        let counts = queued <= limit && taken == queued.max(1);
        Ok(i32::from(
            !(all_refused && both && counts && queue().is_ok()),
        ))
    })?;
    check_eq!(status, Status::Exited(0));
    Ok(())
}

fn signal_handler_runs() -> Outcome {
    sig::count(libc::SIGUSR1, 0, &[])?;
    for n in 1..=100 {
        sig::raise(libc::SIGUSR1);
        check_eq!(sig::seen(libc::SIGUSR1), n);
    }
    proc::kill(proc::getpid(), libc::SIGUSR1)?;
    check_eq!(sig::seen(libc::SIGUSR1), 101);
    Ok(())
}

fn signal_default_actions() -> Outcome {
    for s in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGABRT,
        libc::SIGUSR1,
        libc::SIGPIPE,
        libc::SIGTERM,
    ] {
        let status = in_child(|| {
            proc::setrlimit(libc::RLIMIT_CORE, 0, 0)?;
            sig::raise(s);
            Ok(0)
        })?;
        check_eq!(status, Status::Killed(s));
    }
    for s in [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT] {
        let status = in_child(|| {
            sig::raise(s);
            Ok(0)
        })?;
        check_eq!(status, Status::Exited(0));
    }
    Ok(())
}

fn signal_ignored() -> Outcome {
    sig::ignore(libc::SIGTERM)?;
    sig::raise(libc::SIGTERM);
    // Ignored while blocked: forgotten, not kept for later.
    sig::mask(libc::SIG_BLOCK, &[libc::SIGTERM])?;
    sig::count(libc::SIGTERM, 0, &[])?;
    sig::raise(libc::SIGTERM);
    check!(sig::pending(libc::SIGTERM));
    sig::ignore(libc::SIGTERM)?;
    check!(!sig::pending(libc::SIGTERM));
    Ok(())
}

fn signal_blocked_waits() -> Outcome {
    sig::count(libc::SIGUSR1, 0, &[])?;
    sig::mask(libc::SIG_BLOCK, &[libc::SIGUSR1])?;
    sig::raise(libc::SIGUSR1);
    sig::raise(libc::SIGUSR1);
    check_eq!(sig::seen(libc::SIGUSR1), 0);
    check!(sig::pending(libc::SIGUSR1) && !sig::pending(libc::SIGUSR2));
    sig::mask(libc::SIG_UNBLOCK, &[libc::SIGUSR1])?;
    // A signal of the old kind is remembered once.
    check_eq!(sig::seen(libc::SIGUSR1), 1);
    check!(!sig::pending(libc::SIGUSR1));
    Ok(())
}

extern "C" fn raises_itself(s: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    use std::sync::atomic::Ordering::SeqCst;
    let depth = DEPTH.fetch_add(1, SeqCst) + 1;
    DEEPEST.fetch_max(depth, SeqCst);
    if RAISES.fetch_add(1, SeqCst) < 3 {
        sig::raise(s);
    }
    DEPTH.fetch_sub(1, SeqCst);
}
static DEPTH: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
static DEEPEST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
static RAISES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

fn signal_mask_of_handler() -> Outcome {
    use std::sync::atomic::Ordering::SeqCst;
    sig::handle(libc::SIGUSR1, raises_itself, 0)?;
    sig::raise(libc::SIGUSR1);
    // Blocked while it is handled: one after the other.
    check_eq!((RAISES.load(SeqCst), DEEPEST.load(SeqCst)), (4, 1));
    check!(!sig::blocked(libc::SIGUSR1));
    Ok(())
}

fn signal_nodefer() -> Outcome {
    use std::sync::atomic::Ordering::SeqCst;
    sig::handle(libc::SIGUSR1, raises_itself, libc::SA_NODEFER)?;
    sig::raise(libc::SIGUSR1);
    check_eq!((RAISES.load(SeqCst), DEEPEST.load(SeqCst)), (4, 4));
    Ok(())
}

fn signal_resethand() -> Outcome {
    sig::count(libc::SIGUSR1, libc::SA_RESETHAND, &[])?;
    sig::raise(libc::SIGUSR1);
    check_eq!(sig::seen(libc::SIGUSR1), 1);
    check!(sig::is_default(libc::SIGUSR1)?);
    Ok(())
}

/// A child that sends SIGUSR1 to its parent as soon as that sleeps in a call, and then a byte into
/// the pipe.
fn poker(tell: i32) -> Result<i32, userland::harness::Stop> {
    let parent = proc::getpid();
    match proc::fork()? {
        Fork::Child => {
            proc::wait_until_asleep(parent);
            let _ = proc::kill(parent, libc::SIGUSR1);
            proc::wait_until_asleep(parent);
            let _ = file::write(tell, b"x");
            proc::exit_now(0)
        }
        Fork::Parent(pid) => Ok(pid),
    }
}

fn signal_restart() -> Outcome {
    sig::count(libc::SIGUSR1, libc::SA_RESTART, &[])?;
    let (hear, tell) = file::pipe(0)?;
    let pid = poker(tell)?;
    let mut buf = [0u8; 4];
    check_eq!(file::read(hear, &mut buf), Ok(1));
    check_eq!(sig::seen(libc::SIGUSR1), 1);
    proc::wait_for(pid)?;
    // poll is never restarted.
    let pid = poker(tell)?;
    check_eq!(
        file::poll(hear, libc::POLLIN, 20_000),
        Err(Errno(libc::EINTR))
    );
    proc::wait_for(pid)?;
    Ok(())
}

fn signal_eintr() -> Outcome {
    sig::count(libc::SIGUSR1, 0, &[])?;
    let (hear, tell) = file::pipe(0)?;
    let pid = poker(tell)?;
    check_eq!(file::read(hear, &mut [0; 4]), Err(Errno(libc::EINTR)));
    check_eq!(file::read(hear, &mut [0; 4]), Ok(1));
    proc::wait_for(pid)?;
    let pid = poker(tell)?;
    check_eq!(proc::wait(pid, 0), Err(Errno(libc::EINTR)));
    proc::wait_for(pid)?;
    Ok(())
}

fn signal_alternate_stack() -> Outcome {
    let size = 64 * 1024;
    let at = mmap(0, size, RW, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
    sig::alt_stack(at, size)?;
    sig::count(libc::SIGUSR1, libc::SA_ONSTACK, &[])?;
    sig::count(libc::SIGUSR2, 0, &[])?;
    sig::raise(libc::SIGUSR1);
    check!((at..at + size).contains(&sig::last().stack));
    sig::raise(libc::SIGUSR2);
    check!(!(at..at + size).contains(&sig::last().stack));
    check_err!(sig::alt_stack(at, 100), ENOMEM);
    Ok(())
}

fn signal_child_ends() -> Outcome {
    sig::count(libc::SIGCHLD, 0, &[])?;
    let Fork::Parent(pid) = proc::fork()? else {
        proc::exit_now(3)
    };
    while sig::seen(libc::SIGCHLD) == 0 {
        proc::sched_yield();
    }
    let last = sig::last();
    check_eq!(
        (last.signal, last.code, last.pid),
        (libc::SIGCHLD, libc::CLD_EXITED, pid)
    );
    check_eq!(proc::wait_for(pid)?, Status::Exited(3));
    Ok(())
}

fn signal_child_ignored_leaves_none() -> Outcome {
    sig::ignore(libc::SIGCHLD)?;
    let Fork::Parent(pid) = proc::fork()? else {
        proc::exit_now(3)
    };
    // The wait lasts until the child is gone, and then there is none to report.
    check_err!(proc::wait(pid, 0), ECHILD);
    Ok(())
}

fn signal_suspend() -> Outcome {
    sig::count(libc::SIGUSR1, 0, &[])?;
    sig::mask(libc::SIG_BLOCK, &[libc::SIGUSR1])?;
    proc::kill(proc::getpid(), libc::SIGUSR1)?;
    check_eq!(sig::suspend(&[]), Errno(libc::EINTR));
    check_eq!(sig::seen(libc::SIGUSR1), 1);
    check!(sig::blocked(libc::SIGUSR1));
    Ok(())
}

fn signal_timed_wait() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[libc::SIGUSR1])?;
    sig::raise(libc::SIGUSR1);
    check_eq!(
        need(
            sig::timed_wait(&[libc::SIGUSR1], 5_000_000_000),
            "rt_sigtimedwait"
        )?,
        libc::SIGUSR1
    );
    check!(!sig::pending(libc::SIGUSR1));
    check_err!(sig::timed_wait(&[libc::SIGUSR1], 10_000_000), EAGAIN);
    Ok(())
}

fn signal_sender() -> Outcome {
    sig::count(libc::SIGUSR1, 0, &[])?;
    let parent = proc::getpid();
    let Fork::Parent(child) = proc::fork()? else {
        let _ = proc::kill(parent, libc::SIGUSR1);
        proc::exit_now(0)
    };
    while sig::seen(libc::SIGUSR1) == 0 {
        proc::sched_yield();
    }
    // SI_USER is 0.
    check_eq!((sig::last().code, sig::last().pid), (0, child));
    proc::wait_for(child)?;
    Ok(())
}

fn signal_kill_and_stop_are_fixed() -> Outcome {
    for s in [libc::SIGKILL, libc::SIGSTOP] {
        check_err!(sig::ignore(s), EINVAL);
        check_err!(sig::count(s, 0, &[]), EINVAL);
    }
    check_err!(call(libc::SYS_rt_sigaction, [65, 0, 0, 8, 0, 0]), EINVAL);
    check_err!(
        call(
            libc::SYS_rt_sigaction,
            [libc::SIGUSR1 as usize, 0, 0, 4, 0, 0]
        ),
        EINVAL
    );
    sig::mask(libc::SIG_BLOCK, &[libc::SIGKILL, libc::SIGSTOP])?;
    check!(!sig::blocked(libc::SIGKILL) && !sig::blocked(libc::SIGSTOP));
    Ok(())
}

fn signal_inherited_by_fork() -> Outcome {
    sig::count(libc::SIGUSR1, 0, &[])?;
    sig::mask(libc::SIG_BLOCK, &[libc::SIGUSR2])?;
    let status = in_child(|| {
        sig::raise(libc::SIGUSR1);
        Ok((sig::seen(libc::SIGUSR1) == 1 && sig::blocked(libc::SIGUSR2)) as i32)
    })?;
    check_eq!(status, Status::Exited(1));
    check_eq!(sig::seen(libc::SIGUSR1), 0);
    Ok(())
}

fn signal_pending_not_inherited() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[libc::SIGUSR1])?;
    sig::raise(libc::SIGUSR1);
    check_eq!(
        in_child(|| Ok(sig::pending(libc::SIGUSR1) as i32))?,
        Status::Exited(0)
    );
    check!(sig::pending(libc::SIGUSR1));
    Ok(())
}
