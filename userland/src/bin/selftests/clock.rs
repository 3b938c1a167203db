//! Clocks and sleeping.
use userland::harness::{Outcome, Stop};
use userland::sys::{Errno, call, cpus, file, proc, sig, time};
use userland::{check, check_eq, check_err};

userland::tests![
    clock_monotonic_never_goes_back,
    clock_kinds,
    clock_of_the_process,
    sleep_lasts,
    sleep_until,
    sleep_interrupted_says_what_is_left,
    sleep_refuses,
    sleepers_wake_in_order,
];

fn clock_monotonic_never_goes_back() -> Outcome {
    let mut last = time::now();
    for _ in 0..10_000 {
        let now = time::now();
        check!(now >= last, "{now} after {last}");
        last = now;
    }
    Ok(())
}

fn clock_kinds() -> Outcome {
    for id in [
        libc::CLOCK_REALTIME,
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_MONOTONIC_RAW,
        libc::CLOCK_BOOTTIME,
    ] {
        check!(time::clock(id)? > 0);
    }
    check_err!(call(libc::SYS_clock_gettime, [77, 0, 0, 0, 0, 0]), EINVAL);
    let mut t = [0u64; 2];
    call(
        libc::SYS_clock_getres,
        [1, t.as_mut_ptr() as usize, 0, 0, 0, 0],
    )?;
    check!(t[0] == 0 && (1..=10_000_000).contains(&t[1]));
    Ok(())
}

fn clock_of_the_process() -> Outcome {
    let before = time::clock(libc::CLOCK_PROCESS_CPUTIME_ID)?;
    let start = time::now();
    while time::now() - start < 50_000_000 {}
    let used = time::clock(libc::CLOCK_PROCESS_CPUTIME_ID)? - before;
    check!(used >= 1_000_000, "{used} ns of 50 ms");
    Ok(())
}

/// How long a wait took, in ns, the first of three that took less than 20 s: the machine may have
/// been stopped during one.
pub fn once_in_time(wait: impl Fn() -> Outcome) -> Result<u64, Stop> {
    let mut took = 0;
    for _ in 0..3 {
        let start = time::now();
        wait()?;
        took = time::now() - start;
        if took < 20_000_000_000 {
            return Ok(took);
        }
    }
    Err(Stop::Fail(format!("a short wait took {took} ns")))
}

fn sleep_lasts() -> Outcome {
    for ms in [1u64, 10, 50] {
        let took = once_in_time(|| Ok(time::sleep(ms * 1_000_000).map_err(|(error, _)| error)?))?;
        check!(took >= ms * 1_000_000, "{ms} ms took {took} ns");
    }
    check_eq!(time::sleep(0), Ok(()));
    Ok(())
}

fn sleep_until() -> Outcome {
    let until = time::now() + 30_000_000;
    let t = [until / 1_000_000_000, until % 1_000_000_000];
    let absolute = [
        libc::CLOCK_MONOTONIC as usize,
        1,
        t.as_ptr() as usize,
        0,
        0,
        0,
    ];
    call(libc::SYS_clock_nanosleep, absolute)?;
    check!(time::now() >= until);
    // In the past: at once.
    call(libc::SYS_clock_nanosleep, absolute)?;
    Ok(())
}

fn sleep_interrupted_says_what_is_left() -> Outcome {
    sig::count(libc::SIGALRM, 0, &[])?;
    time::itimer(100_000, 0)?;
    match time::sleep(600_000_000_000) {
        Err((Errno(libc::EINTR), left)) => {
            check!(
                (400_000_000_000..600_000_000_000).contains(&left),
                "{left} ns left"
            );
        }
        other => check!(false, "{other:?}"),
    }
    check_eq!(sig::seen(libc::SIGALRM), 1);
    Ok(())
}

fn sleep_refuses() -> Outcome {
    let bad = |sec: i64, nsec: i64| {
        let t = [sec, nsec];
        call(libc::SYS_nanosleep, [t.as_ptr() as usize, 0, 0, 0, 0, 0])
    };
    check_err!(bad(0, 1_000_000_000), EINVAL);
    check_err!(bad(0, -1), EINVAL);
    check_err!(bad(-1, 0), EINVAL);
    check_err!(call(libc::SYS_nanosleep, [8, 0, 0, 0, 0, 0]), EFAULT);
    Ok(())
}

/// When a sleeper was late for its own time: another try says more.
const LATE: i32 = 9;

/// Three processes on one CPU that sleep until times of their own, which begin `from` ns from now,
/// in another order than that in which they were started: the numbers in the order in which they
/// woke, `None` if one was late.
fn sleepers(from: u64) -> Result<Option<[u8; 3]>, Stop> {
    let (hear, tell) = file::pipe(0)?;
    let start = time::now() + from;
    let mut pids = Vec::new();
    for n in [3u8, 1, 2] {
        match proc::fork()? {
            proc::Fork::Child => {
                let until = start + u64::from(n) * 50_000_000;
                let left = until.saturating_sub(time::now());
                let at = [until / 1_000_000_000, until % 1_000_000_000];
                let nanosleep = [1, 1, at.as_ptr() as usize, 0, 0, 0];
                let slept = call(libc::SYS_clock_nanosleep, nanosleep);
                let _ = file::write(tell, &[n]);
                let late = left == 0 || slept.is_err();
                proc::exit_now(if late { LATE } else { 0 })
            }
            proc::Fork::Parent(pid) => pids.push(pid),
        }
    }
    let mut late = false;
    for pid in pids {
        late |= proc::wait_for(pid)? == proc::Status::Exited(LATE);
    }
    let mut order = [0u8; 3];
    check_eq!(file::read(hear, &mut order)?, 3);
    file::close(hear)?;
    file::close(tell)?;
    Ok((!late).then_some(order))
}

fn sleepers_wake_in_order() -> Outcome {
    // On several CPUs one may be quicker with its number than another.
    cpus::stay()?;
    for tries in 0..5 {
        if let Some(order) = sleepers(100_000_000 << tries)? {
            check_eq!(order, [1, 2, 3]);
            return Ok(());
        }
    }
    Err(Stop::Fail(
        "three processes cannot be started in 1.6 s".into(),
    ))
}
