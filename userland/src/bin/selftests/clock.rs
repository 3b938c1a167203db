//! Clocks and sleeping.
use userland::harness::Outcome;
use userland::sys::{Errno, call, proc, sig, time};
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

fn sleep_lasts() -> Outcome {
    for ms in [1u64, 10, 50] {
        let start = time::now();
        check_eq!(time::sleep(ms * 1_000_000), Ok(()));
        let took = time::now() - start;
        check!(took >= ms * 1_000_000, "{ms} ms took {took} ns");
        check!(took < 20_000_000_000, "{ms} ms took {took} ns");
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
    match time::sleep(60_000_000_000) {
        Err((Errno(libc::EINTR), left)) => {
            check!(
                (20_000_000_000..60_000_000_000).contains(&left),
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

fn sleepers_wake_in_order() -> Outcome {
    let (hear, tell) = userland::sys::file::pipe(0)?;
    let mut pids = Vec::new();
    for n in [3u8, 1, 2] {
        match proc::fork()? {
            proc::Fork::Child => {
                let _ = time::sleep(n as u64 * 200_000_000);
                let _ = userland::sys::file::write(tell, &[n]);
                proc::exit_now(0)
            }
            proc::Fork::Parent(pid) => pids.push(pid),
        }
    }
    for pid in pids {
        proc::wait_for(pid)?;
    }
    let mut order = [0u8; 3];
    userland::sys::file::read(hear, &mut order)?;
    check_eq!(order, [1, 2, 3]);
    Ok(())
}
