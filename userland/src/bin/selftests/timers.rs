//! Signals that come from clocks, into computations, and many at once.
use crate::clock::once_in_time;
use userland::harness::Outcome;
use userland::sys::cpus::{allowed, bind};
use userland::sys::mem::{PAGE, RW, load, mmap, store};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, call, sig, time};
use userland::{check, check_eq};

userland::tests![
    signal_alarm,
    signal_interval_timer,
    signal_alarm_taken_back_elsewhere,
    signal_interrupts_a_long_call,
    signal_keeps_float_registers,
    signal_to_a_busy_process,
    signal_many_from_many,
];

fn signal_alarm() -> Outcome {
    sig::count(libc::SIGALRM, 0, &[])?;
    sig::mask(libc::SIG_BLOCK, &[libc::SIGALRM])?;
    check_eq!(time::alarm(100), 0);
    let left = time::alarm(1);
    check!((99..=100).contains(&left), "{left} s left of 100");
    let took = once_in_time(|| {
        time::alarm(1);
        check_eq!(sig::suspend(&[]), Errno(libc::EINTR));
        Ok(())
    })?;
    check!(took >= 900_000_000, "an alarm of 1 s after {took} ns");
    check_eq!(time::alarm(0), 0);
    Ok(())
}

fn signal_interval_timer() -> Outcome {
    sig::count(libc::SIGALRM, 0, &[])?;
    sig::mask(libc::SIG_BLOCK, &[libc::SIGALRM])?;
    time::itimer(20_000, 10_000)?;
    for _ in 0..5 {
        check_eq!(sig::suspend(&[]), Errno(libc::EINTR));
    }
    time::itimer(0, 0)?;
    check!(sig::seen(libc::SIGALRM) >= 5);
    Ok(())
}

/// A timer that was taken back on another CPU than where it was set, about when it runs out,
/// sends its signal before that or not at all.
fn signal_alarm_taken_back_elsewhere() -> Outcome {
    const ROUNDS: u64 = 600;
    const MICROSECOND: u64 = 1000;
    sig::mask(libc::SIG_BLOCK, &[libc::SIGALRM])?;
    let cpus = allowed(0)?;
    let (here, there) = (cpus[0], cpus[cpus.len() - 1]);
    for round in 0..ROUNDS {
        bind(0, &[there])?;
        let start = time::now();
        time::itimer(300, 0)?;
        bind(0, &[here])?;
        // From before it is due until after the machine has been late.
        let end = start + (280 + round % 100 * 4) * MICROSECOND;
        while time::now() < end {
            std::hint::spin_loop();
        }
        time::itimer(0, 0)?;
        let pends = sig::pending(libc::SIGALRM);
        let _ = time::sleep(200 * MICROSECOND);
        check_eq!((round, sig::pending(libc::SIGALRM)), (round, pends));
        if pends {
            check_eq!(sig::timed_wait(&[libc::SIGALRM], 0)?, libc::SIGALRM);
        }
    }
    Ok(())
}

/// A call that keeps the kernel busy for long notices a signal on the way (getrandom(2)) instead of
/// at its end.
fn signal_interrupts_a_long_call() -> Outcome {
    const BYTES: usize = 64 << 20;
    let at = mmap(0, BYTES, RW, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
    sig::count(libc::SIGALRM, 0, &[])?;
    time::itimer(20_000, 0)?;
    let filled = call(libc::SYS_getrandom, [at, BYTES, 0, 0, 0, 0])?;
    check_eq!(sig::seen(libc::SIGALRM), 1);
    check!(filled > 0 && filled < BYTES);
    Ok(())
}

extern "C" fn spoils_floats(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    userland::sys::fill_vectors(0xdead_beef);
}

fn signal_keeps_float_registers() -> Outcome {
    sig::handle(libc::SIGUSR1, spoils_floats, 0)?;
    let tid = call(libc::SYS_gettid, [0; 6])?;
    for round in 0..50 {
        // The vector registers hold the value across the call that runs the handler.
        let kept = userland::sys::vectors_across(
            round * 7 + 1,
            libc::SYS_tgkill as usize,
            [proc::getpid() as usize, tid, libc::SIGUSR1 as usize],
        );
        check_eq!(kept, [round * 7 + 1; 2]);
    }
    // And across other processes that use them.
    let Fork::Parent(pid) = proc::fork()? else {
        for n in 0..2000 {
            userland::sys::fill_vectors(n);
            proc::sched_yield();
        }
        proc::exit_now(0)
    };
    for n in 0..2000 {
        check_eq!(
            userland::sys::vectors_across(n + 5, libc::SYS_sched_yield as usize, [0; 3]),
            [n + 5; 2]
        );
    }
    proc::wait_for(pid)?;
    Ok(())
}

fn signal_to_a_busy_process() -> Outcome {
    // A loop without system calls is interrupted by the clock and then sees the signal.
    let at = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    let Fork::Parent(pid) = proc::fork()? else {
        store(at, 1);
        loop {
            std::hint::spin_loop();
        }
    };
    while load(at) == 0 {
        proc::sched_yield();
    }
    proc::kill(pid, libc::SIGTERM)?;
    check_eq!(proc::wait_for(pid)?, Status::Killed(libc::SIGTERM));
    Ok(())
}

fn signal_many_from_many() -> Outcome {
    sig::count(libc::SIGUSR1, libc::SA_RESTART, &[])?;
    let parent = proc::getpid();
    let mut pids = Vec::new();
    for _ in 0..10 {
        match proc::fork()? {
            Fork::Child => {
                for _ in 0..50 {
                    let _ = proc::kill(parent, libc::SIGUSR1);
                }
                proc::exit_now(0)
            }
            Fork::Parent(pid) => pids.push(pid),
        }
    }
    for pid in pids {
        check_eq!(proc::wait_for(pid)?, Status::Exited(0));
    }
    check!((1..=500).contains(&sig::seen(libc::SIGUSR1)));
    Ok(())
}
