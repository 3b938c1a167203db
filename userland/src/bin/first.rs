//! `first`: what is different for PID 1, tried by PID 1 itself (`init=/bin/first`). On Linux:
//! `unshare --pid --fork first`. The last line is `first: done`, the status 0.
use userland::harness::{Outcome, in_child};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::sig;
use userland::{check, check_eq, check_err};

const SECOND: u64 = 1_000_000_000;

/// What is tried.
type Rule = (&'static str, fn() -> Outcome);

/// In this order: setsid comes last, because it cannot be undone.
const RULES: &[Rule] = &[
    ("no session", no_session),
    ("default actions", default_actions),
    ("blocked signals wait", blocked_signals_wait),
    ("unblocked without a handler", unblocked_without_a_handler),
    ("handlers", handlers),
    ("a session of its own", session),
];

fn main() -> std::process::ExitCode {
    if proc::getpid() != 1 {
        eprintln!("first: only as PID 1: init=/bin/first, or `unshare --pid --fork first`");
        return std::process::ExitCode::from(2);
    }
    for (name, holds) in RULES {
        if let Err(why) = holds() {
            println!("first: {name}: FAILED: {why:?}");
            return std::process::ExitCode::FAILURE;
        }
        println!("first: {name}: ok");
    }
    println!("first: done");
    std::process::ExitCode::SUCCESS
}

/// Neither a session nor a group has its number, and its children are in none either.
fn no_session() -> Outcome {
    check_eq!((proc::getsid(0)?, proc::getpgid(0)?), (0, 0));
    let child = in_child(|| {
        let of_the_parent = (proc::getsid(0)?, proc::getpgid(0)?) == (0, 0);
        Ok((of_the_parent && proc::setsid()? == proc::getpid()) as i32)
    })?;
    check_eq!(child, Status::Exited(1));
    Ok(())
}

/// A child that sends `signals` to PID 1, one after the other, and has ended.
fn from_a_child(signals: &[i32]) -> Outcome {
    let sent = in_child(|| {
        signals
            .iter()
            .try_for_each(|signal| proc::kill(1, *signal))?;
        Ok(5)
    })?;
    check_eq!(sent, Status::Exited(5));
    Ok(())
}

/// A signal whose action is the default does nothing, and is not remembered.
fn default_actions() -> Outcome {
    let deadly = [
        libc::SIGTERM,
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGSEGV,
        libc::SIGRTMIN(),
    ];
    from_a_child(&deadly)?;
    deadly.iter().for_each(|signal| sig::raise(*signal));
    sig::mask(libc::SIG_BLOCK, &[libc::SIGTERM])?;
    check!(!sig::pending(libc::SIGTERM));
    Ok(sig::mask(libc::SIG_UNBLOCK, &[libc::SIGTERM])?)
}

/// As inits do it: SIGCHLD is blocked, has no handler, and is waited for.
fn blocked_signals_wait() -> Outcome {
    let all = [libc::SIGCHLD, libc::SIGTERM, libc::SIGRTMIN()];
    sig::mask(libc::SIG_BLOCK, &all)?;
    let Fork::Parent(child) = proc::fork()? else {
        proc::exit_now(3)
    };
    check_eq!(
        sig::timed_wait(&[libc::SIGCHLD], 10 * SECOND)?,
        libc::SIGCHLD
    );
    check_eq!(proc::wait_for(child)?, Status::Exited(3));
    from_a_child(&[libc::SIGTERM, libc::SIGRTMIN(), libc::SIGRTMIN()])?;
    for signal in [libc::SIGTERM, libc::SIGRTMIN(), libc::SIGRTMIN()] {
        check_eq!(sig::timed_wait(&[signal], SECOND)?, signal);
    }
    check_err!(sig::timed_wait(&[libc::SIGTERM], 0), EAGAIN);
    Ok(sig::mask(libc::SIG_UNBLOCK, &all)?)
}

/// What waited is dropped when it is unblocked and the action is still the default.
fn unblocked_without_a_handler() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[libc::SIGTERM])?;
    from_a_child(&[libc::SIGTERM])?;
    check!(sig::pending(libc::SIGTERM));
    sig::mask(libc::SIG_UNBLOCK, &[libc::SIGTERM])?;
    check!(!sig::pending(libc::SIGTERM));
    Ok(())
}

/// A handler is called, for what waited, too.
fn handlers() -> Outcome {
    sig::count(libc::SIGTERM, 0, &[])?;
    sig::mask(libc::SIG_BLOCK, &[libc::SIGTERM])?;
    from_a_child(&[libc::SIGTERM])?;
    check_eq!(sig::seen(libc::SIGTERM), 0);
    sig::mask(libc::SIG_UNBLOCK, &[libc::SIGTERM])?;
    check_eq!(sig::seen(libc::SIGTERM), 1);
    Ok(sig::default(libc::SIGTERM)?)
}

/// It leads no group, so it may lead a session; once.
fn session() -> Outcome {
    check_eq!(proc::setsid()?, 1);
    check_eq!((proc::getsid(0)?, proc::getpgid(0)?), (1, 1));
    check_err!(proc::setsid(), EPERM);
    check_err!(proc::setpgid(0, 0), EPERM);
    Ok(())
}
