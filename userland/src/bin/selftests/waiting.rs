//! wait4, waitid, orphans, groups and kill.
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::proc::{self, Fork, Status, WaitInfo};
use userland::sys::{Errno, call, file, sig};
use userland::{check_eq, check_err};

userland::tests![
    wait_nothing_is_echild,
    wait_nohang,
    wait_signal_status,
    wait_stop_and_continue,
    waitid_leaves_and_takes,
    wait_by_group,
    orphan_gets_a_new_parent,
    orphan_goes_to_a_subreaper,
    groups_and_sessions,
    stop_signals_of_a_terminal,
    stopped_orphans_are_hung_up,
    kill_a_group,
    kill_refuses,
];

fn wait_nothing_is_echild() -> Outcome {
    check_err!(proc::wait(-1, 0), ECHILD);
    check_err!(proc::wait(1, libc::WNOHANG), ECHILD);
    check_err!(proc::wait(-1, 0x4000), EINVAL);
    let status = in_child(|| Ok(0))?;
    check_eq!(status, Status::Exited(0));
    check_err!(proc::wait(-1, libc::WNOHANG), ECHILD);
    Ok(())
}

/// A child that ends when the pipe does: (its number, the end to close).
fn lingering() -> Result<(i32, i32), Stop> {
    let (hear, tell) = file::pipe(0)?;
    match proc::fork()? {
        Fork::Child => {
            let _ = file::close(tell);
            let _ = file::read(hear, &mut [0]);
            proc::exit_now(5)
        }
        Fork::Parent(pid) => {
            file::close(hear)?;
            Ok((pid, tell))
        }
    }
}

fn wait_nohang() -> Outcome {
    let (pid, tell) = lingering()?;
    check_eq!(proc::wait(pid, libc::WNOHANG)?, None);
    check_eq!(proc::wait(-1, libc::WNOHANG)?, None);
    file::close(tell)?;
    check_eq!(proc::wait(pid, 0)?, Some((pid, Status::Exited(5))));
    Ok(())
}

fn wait_signal_status() -> Outcome {
    for s in [libc::SIGKILL, libc::SIGTERM, libc::SIGUSR1, libc::SIGALRM] {
        let (pid, tell) = lingering()?;
        proc::kill(pid, s)?;
        check_eq!(proc::wait_for(pid)?, Status::Killed(s));
        file::close(tell)?;
    }
    Ok(())
}

fn wait_stop_and_continue() -> Outcome {
    let (pid, tell) = lingering()?;
    proc::kill(pid, libc::SIGSTOP)?;
    check_eq!(
        proc::wait(pid, libc::WUNTRACED)?,
        Some((pid, Status::Stopped(libc::SIGSTOP)))
    );
    check_eq!(proc::wait(pid, libc::WUNTRACED | libc::WNOHANG)?, None);
    proc::kill(pid, libc::SIGCONT)?;
    check_eq!(
        proc::wait(pid, libc::WCONTINUED)?,
        Some((pid, Status::Continued))
    );
    file::close(tell)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(5));
    Ok(())
}

/// They stop a process, unless its group is orphaned: it would wait for ever.
fn stop_signals_of_a_terminal() -> Outcome {
    for s in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        let pid = stopping(|| proc::setpgid(0, 0), s)?;
        let stop = Some((pid, Status::Stopped(s)));
        check_eq!(proc::wait(pid, libc::WUNTRACED)?, stop);
        proc::kill(pid, libc::SIGCONT)?;
        check_eq!(proc::wait_for(pid)?, Status::Exited(7));
        let pid = stopping(|| proc::setsid().map(|_| ()), s)?;
        let end = Some((pid, Status::Exited(7)));
        check_eq!(proc::wait(pid, libc::WUNTRACED)?, end);
    }
    Ok(())
}

/// A child that goes to another group by `leave`, gets the signal `s`, and ends with status 7.
fn stopping(leave: impl Fn() -> Result<(), Errno>, s: i32) -> Result<i32, Stop> {
    match proc::fork()? {
        Fork::Child => {
            let left = leave();
            sig::raise(s);
            proc::exit_now(if left.is_ok() { 7 } else { 8 })
        }
        Fork::Parent(pid) => Ok(pid),
    }
}

/// The end of a shell orphans its jobs: those that are stopped get SIGHUP and run on, to end by it.
fn stopped_orphans_are_hung_up() -> Outcome {
    let (hear, held) = file::pipe(0)?;
    let status = in_child(|| {
        proc::setsid()?;
        let job = stopping(|| proc::setpgid(0, 0), libc::SIGSTOP)?;
        let stop = Some((job, Status::Stopped(libc::SIGSTOP)));
        check_eq!(proc::wait(job, libc::WUNTRACED)?, stop);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    file::close(held)?;
    // Only the stopped one holds the other end now.
    check_eq!(file::poll(hear, libc::POLLIN, 10_000)?, libc::POLLHUP);
    file::close(hear)?;
    Ok(())
}

fn waitid_leaves_and_takes() -> Outcome {
    let (pid, tell) = lingering()?;
    let none = proc::waitid(libc::P_PID, pid as u32, libc::WEXITED | libc::WNOHANG)?;
    check_eq!(none.pid, 0);
    file::close(tell)?;
    let want = WaitInfo {
        pid,
        code: libc::CLD_EXITED,
        status: 5,
    };
    check_eq!(
        proc::waitid(libc::P_PID, pid as u32, libc::WEXITED | libc::WNOWAIT)?,
        want
    );
    check_eq!(proc::waitid(libc::P_ALL, 0, libc::WEXITED)?, want);
    check_err!(proc::waitid(libc::P_ALL, 0, libc::WEXITED), ECHILD);
    check_err!(proc::waitid(libc::P_ALL, 0, 0), EINVAL);
    let (pid, tell) = lingering()?;
    proc::kill(pid, libc::SIGKILL)?;
    let want = WaitInfo {
        pid,
        code: libc::CLD_KILLED,
        status: libc::SIGKILL,
    };
    check_eq!(proc::waitid(libc::P_PID, pid as u32, libc::WEXITED)?, want);
    Ok(file::close(tell)?)
}

fn wait_by_group() -> Outcome {
    let (pid, tell) = lingering()?;
    proc::setpgid(pid, pid)?;
    // None of the children is in this process's own group now.
    check_err!(proc::wait(0, libc::WNOHANG), ECHILD);
    check_eq!(proc::wait(-pid, libc::WNOHANG)?, None);
    file::close(tell)?;
    check_eq!(proc::wait(-pid, 0)?, Some((pid, Status::Exited(5))));
    Ok(())
}

fn orphan_gets_a_new_parent() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let (gone_read, gone_write) = file::pipe(0)?;
    match proc::fork()? {
        Fork::Child => {
            let middle = proc::getpid();
            if let Ok(Fork::Child) = proc::fork() {
                let _ = file::close(gone_write);
                // The middle process holds the other end: its end is the sign.
                let _ = file::read(gone_read, &mut [0]);
                // The end of its files comes before its children move: ask until they did.
                while proc::getppid() == middle {
                    proc::sched_yield();
                }
                let _ = file::write(tell, b"moved");
            }
            proc::exit_now(0)
        }
        Fork::Parent(pid) => {
            let _ = (file::close(gone_write), file::close(tell));
            proc::wait_for(pid)?;
            let mut buf = [0u8; 8];
            check_eq!(file::read(hear, &mut buf)?, 5);
            // It is not ours.
            check_err!(proc::wait(-1, 0), ECHILD);
        }
    }
    Ok(())
}

fn groups_and_sessions() -> Outcome {
    let me = proc::getpid();
    check_eq!(proc::getpgid(0)?, me);
    check_err!(proc::setsid(), EPERM);
    check_err!(proc::getpgid(0x3f_fff0), ESRCH);
    check_err!(proc::setpgid(0, -1), EINVAL);
    let status = in_child(|| {
        let own = proc::getpid();
        check_eq!(proc::getpgid(0)?, me);
        check_eq!(proc::setsid()?, own);
        check_eq!((proc::getpgid(0)?, proc::getsid(0)?), (own, own));
        // A session's leader keeps its group.
        check_err!(proc::setpgid(0, 0), EPERM);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    Ok(())
}

fn kill_a_group() -> Outcome {
    let (first, a) = lingering()?;
    proc::setpgid(first, first)?;
    let (second, b) = lingering()?;
    proc::setpgid(second, first)?;
    proc::kill(-first, libc::SIGTERM)?;
    check_eq!(proc::wait_for(first)?, Status::Killed(libc::SIGTERM));
    check_eq!(proc::wait_for(second)?, Status::Killed(libc::SIGTERM));
    check_err!(proc::kill(-first, 0), ESRCH);
    let _ = (file::close(a), file::close(b));
    Ok(())
}

fn kill_refuses() -> Outcome {
    check_err!(proc::kill(0x3f_fff0, 0), ESRCH);
    check_err!(proc::kill(proc::getpid(), 65), EINVAL);
    check_err!(proc::kill(proc::getpid(), -1), EINVAL);
    proc::kill(proc::getpid(), 0)?;
    let me = proc::getpid() as usize;
    check_err!(call(libc::SYS_tgkill, [me, 0x3f_fff0, 0, 0, 0, 0]), ESRCH);
    sig::count(libc::SIGUSR1, 0, &[])?;
    call(libc::SYS_tgkill, [me, me, libc::SIGUSR1 as usize, 0, 0, 0])?;
    check_eq!(sig::seen(libc::SIGUSR1), 1);
    Ok(())
}

fn orphan_goes_to_a_subreaper() -> Outcome {
    let prctl =
        |option: i32, value: usize| call(libc::SYS_prctl, [option as usize, value, 0, 0, 0, 0]);
    let is_subreaper = || -> Result<i32, Errno> {
        let mut answer = -1i32;
        prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut answer as usize)?;
        Ok(std::hint::black_box(answer))
    };
    check_eq!(is_subreaper()?, 0);
    prctl(libc::PR_SET_CHILD_SUBREAPER, 1)?;
    check_eq!(is_subreaper()?, 1);
    let (hear, tell) = file::pipe(0)?;
    let me = proc::getpid();
    // A child that is none itself, and ends at once; its child is ours then.
    let child = in_child(|| {
        let inherited = is_subreaper()?;
        if let Fork::Child = proc::fork()? {
            let _ = file::read(hear, &mut [0]);
            proc::exit_now((proc::getppid() == me) as i32 + 5)
        }
        Ok(inherited + 3)
    })?;
    check_eq!(child, Status::Exited(3));
    file::write_all(tell, b"x")?;
    let Some((_, status)) = proc::wait(-1, 0)? else {
        return Err(Stop::Fail("no child".into()));
    };
    check_eq!(status, Status::Exited(6));
    Ok(())
}
