//! Signals of a process with several threads: which one takes them, and who waits for whom.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use userland::harness::{Outcome, in_child};
use userland::sys::mem::{load, shared_page, store, word32};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Result, call, sig, time};
use userland::{check, check_eq};

userland::tests![
    signal_blocked_by_one_goes_to_another,
    signal_of_an_ending_thread_goes_to_another,
    signal_ends_a_parent_in_vfork,
];

/// How long a signal may take, in ns; many times what it needs.
const LIMIT: u64 = 5_000_000_000;

/// Sleeps in pieces until something holds, or the time is over; whether it holds.
fn wait(holds: impl Fn() -> bool) -> bool {
    let mut running = time::Running::begin();
    while !holds() && running.passed() < LIMIT {
        let _ = time::sleep(1_000_000);
    }
    holds()
}

/// The thread that has taken SIGUSR2.
static TAKER: AtomicU64 = AtomicU64::new(0);

extern "C" fn takes(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    TAKER.store(proc::gettid() as u64, SeqCst);
}

extern "C" fn waits_for_the_taker(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    wait(|| TAKER.load(SeqCst) != 0);
}

/// A handler's mask blocks a signal that came with its own, and which its thread was to take: the
/// other thread does.
fn signal_blocked_by_one_goes_to_another() -> Outcome {
    sig::handle_with(libc::SIGUSR1, waits_for_the_taker, 0, &[libc::SIGUSR2])?;
    sig::handle(libc::SIGUSR2, takes, 0)?;
    let other = AtomicU64::new(0);
    let taken = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = sig::mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
            other.store(proc::gettid() as u64, SeqCst);
            wait(|| TAKER.load(SeqCst) != 0);
        });
        wait(|| other.load(SeqCst) != 0);
        // Both come while this thread waits for its child, which no signal makes it leave.
        let flags = (libc::CLONE_VFORK | libc::SIGCHLD) as usize;
        let pid = proc::clone_raw([flags, 0, 0, 0, 0, 0]);
        if pid == 0 {
            let parent = proc::getppid();
            let sent = [libc::SIGUSR1, libc::SIGUSR2].map(|signal| proc::kill(parent, signal));
            proc::exit_now(i32::from(sent.iter().any(|one| one.is_err())))
        }
        (TAKER.load(SeqCst), proc::wait_for(pid as i32))
    });
    check_eq!(taken, (other.load(SeqCst), Ok(Status::Exited(0))));
    Ok(())
}

/// One thread ends when a signal comes that it could take: one of two takes it, whatever it was
/// doing.
fn signal_of_an_ending_thread_goes_to_another() -> Outcome {
    const ROUNDS: u64 = 100;
    sig::count(libc::SIGUSR1, 0, &[])?;
    sig::mask(libc::SIG_BLOCK, &[libc::SIGUSR1])?;
    let words = shared_page()?;
    let lost = in_child(|| {
        for round in 1..=ROUNDS {
            if !one_ends(words, round)? {
                return Ok(1);
            }
        }
        Ok(0)
    })?;
    check_eq!(lost, Status::Exited(0));
    Ok(())
}

/// One round, from 1: whether the signal was taken.
fn one_ends(words: usize, round: u64) -> Result<bool> {
    let (number, go) = (word32(words), words + 64);
    number.store(1, SeqCst);
    let ready = std::sync::Arc::new(AtomicBool::new(false));
    let says = ready.clone();
    // Not joined: the C library's own end would block the signal first.
    std::thread::spawn(move || {
        let _ = call(libc::SYS_set_tid_address, [words, 0, 0, 0, 0, 0]);
        let _ = sig::mask(libc::SIG_UNBLOCK, &[libc::SIGUSR1]);
        says.store(true, SeqCst);
        drop(says);
        // Runnable all the time, and with one CPU in nobody's way.
        while load(go) != round {
            std::thread::yield_now();
        }
        time::spin(1 + round % 7 * 40);
        let _ = call(libc::SYS_exit, [0; 6]);
    });
    wait(|| ready.load(SeqCst));
    let awake = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The younger of the two, so that the other one is asked first.
        scope.spawn(|| {
            let _ = sig::mask(libc::SIG_UNBLOCK, &[libc::SIGUSR1]);
            awake.store(true, SeqCst);
            wait(|| sig::seen(libc::SIGUSR1) == round);
        });
        wait(|| awake.load(SeqCst));
        store(go, round);
        time::spin(1 + round % 11 * 40);
        proc::kill(proc::getpid(), libc::SIGUSR1)
    })?;
    // The kernel has cleared its word: it has ended.
    Ok(wait(|| number.load(SeqCst) == 0) && sig::seen(libc::SIGUSR1) == round)
}

/// vfork's parent waits for its child, but not when a signal ends it.
fn signal_ends_a_parent_in_vfork() -> Outcome {
    let words = shared_page()?;
    let (child, go, ended) = (words, words + 64, words + 128);
    let Fork::Parent(parent) = proc::fork()? else {
        let _ = sig::default(libc::SIGTERM);
        let flags = (libc::CLONE_VFORK | libc::SIGCHLD) as usize;
        if proc::clone_raw([flags, 0, 0, 0, 0, 0]) == 0 {
            store(child, 1);
            wait(|| load(go) == 1);
            store(ended, 1);
        }
        proc::exit_now(0)
    };
    check!(wait(|| load(child) == 1), "no child");
    proc::kill(parent, libc::SIGTERM)?;
    let how = proc::wait_for(parent)?;
    let before = load(ended) == 0;
    store(go, 1);
    check_eq!((how, before), (Status::Killed(libc::SIGTERM), true));
    check!(wait(|| load(ended) == 1), "the child has ended too");
    Ok(())
}
