//! eventfd(2) and timerfd_create(2).
use userland::harness::{Outcome, Stop};
use userland::sys::{Result, call, file, time};
use userland::{check, check_eq, check_err};

userland::tests![
    eventfd_counts,
    eventfd_semaphore,
    eventfd_refuses,
    eventfd_wakes,
    timerfd_once,
    timerfd_again_and_again,
    timerfd_absolute,
    timerfd_refuses,
];

const NONBLOCK: i32 = libc::O_NONBLOCK;

pub fn eventfd(count: u32, flags: i32) -> Result<i32> {
    Ok(call(
        libc::SYS_eventfd2,
        [count as usize, flags as usize, 0, 0, 0, 0],
    )? as i32)
}

fn add(fd: i32, more: u64) -> Result<usize> {
    file::write(fd, &more.to_ne_bytes())
}

fn take(fd: i32) -> Result<u64> {
    let mut bytes = [0; 8];
    file::read(fd, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn eventfd_counts() -> Outcome {
    let fd = eventfd(3, NONBLOCK)?;
    add(fd, 4)?;
    check_eq!(
        file::poll(fd, libc::POLLIN | libc::POLLOUT, 0)?,
        libc::POLLIN | libc::POLLOUT
    );
    check_eq!(take(fd)?, 7);
    check_err!(take(fd), EAGAIN);
    check_eq!(
        file::poll(fd, libc::POLLIN | libc::POLLOUT, 0)?,
        libc::POLLOUT
    );
    add(fd, u64::MAX - 1)?;
    check_eq!(
        file::poll(fd, libc::POLLIN | libc::POLLOUT, 0)?,
        libc::POLLIN
    );
    check_err!(add(fd, 1), EAGAIN);
    add(fd, 0)?;
    check_eq!(take(fd)?, u64::MAX - 1);
    Ok(())
}

fn eventfd_semaphore() -> Outcome {
    let fd = eventfd(2, NONBLOCK | libc::EFD_SEMAPHORE)?;
    check_eq!((take(fd)?, take(fd)?), (1, 1));
    check_err!(take(fd), EAGAIN);
    Ok(())
}

fn eventfd_refuses() -> Outcome {
    check_err!(eventfd(0, 2), EINVAL);
    let fd = eventfd(1, 0)?;
    check_err!(add(fd, u64::MAX), EINVAL);
    check_err!(file::write(fd, &[0; 7]), EINVAL);
    check_err!(file::read(fd, &mut [0; 7]), EINVAL);
    // More than eight bytes: the rest is not touched.
    let mut bytes = [9; 16];
    check_eq!(file::read(fd, &mut bytes)?, 8);
    check_eq!((bytes[0], bytes[8]), (1, 9));
    Ok(())
}

fn eventfd_wakes() -> Outcome {
    let fd = eventfd(0, 0)?;
    let waits = std::thread::spawn(move || take(fd));
    time::sleep(5_000_000).map_err(|(error, _)| error)?;
    add(fd, 5)?;
    check_eq!(
        waits
            .join()
            .map_err(|_| Stop::Fail("the thread died".into()))??,
        5
    );
    add(fd, u64::MAX - 1)?;
    let waits = std::thread::spawn(move || add(fd, 6));
    time::sleep(5_000_000).map_err(|(error, _)| error)?;
    check_eq!(take(fd)?, u64::MAX - 1);
    check_eq!(
        waits
            .join()
            .map_err(|_| Stop::Fail("the thread died".into()))??,
        8
    );
    check_eq!(take(fd)?, 6);
    Ok(())
}

pub fn timerfd(clock: i32, flags: i32) -> Result<i32> {
    Ok(call(
        libc::SYS_timerfd_create,
        [clock as usize, flags as usize, 0, 0, 0, 0],
    )? as i32)
}

/// Interval and first time in ns; the old ones.
pub fn set(fd: i32, flags: i32, interval: u64, first: u64) -> Result<[u64; 2]> {
    let seconds = |ns: u64| [ns / 1_000_000_000, ns % 1_000_000_000];
    let (new, mut old) = ([seconds(interval), seconds(first)], [[0u64; 2]; 2]);
    let (at, before) = (new.as_ptr() as usize, old.as_mut_ptr() as usize);
    call(
        libc::SYS_timerfd_settime,
        [fd as usize, flags as usize, at, before, 0, 0],
    )?;
    Ok(old.map(|[seconds, ns]| seconds * 1_000_000_000 + ns))
}

fn left(fd: i32) -> Result<[u64; 2]> {
    let mut times = [[0u64; 2]; 2];
    call(
        libc::SYS_timerfd_gettime,
        [fd as usize, times.as_mut_ptr() as usize, 0, 0, 0, 0],
    )?;
    Ok(times.map(|[seconds, ns]| seconds * 1_000_000_000 + ns))
}

const MS: u64 = 1_000_000;

fn timerfd_once() -> Outcome {
    let fd = timerfd(libc::CLOCK_MONOTONIC, 0)?;
    check_eq!(left(fd)?, [0, 0]);
    let start = time::now();
    set(fd, 0, 0, 20 * MS)?;
    check_eq!(take(fd)?, 1);
    check!(time::now() - start >= 20 * MS, "too early");
    check_eq!(left(fd)?, [0, 0]);
    check_eq!(file::poll(fd, libc::POLLIN, 5)?, 0);
    // A timer that is set anew forgets that it has run out, and says what was left.
    set(fd, 0, 0, MS)?;
    check_eq!(file::poll(fd, libc::POLLIN, -1)?, libc::POLLIN);
    set(fd, 0, 0, 1000 * MS)?;
    check_eq!(file::poll(fd, libc::POLLIN, 0)?, 0);
    let [interval, old] = set(fd, 0, 0, 0)?;
    check!(
        interval == 0 && (1..=1000 * MS).contains(&old),
        "{old} ns were left"
    );
    check_eq!(left(fd)?, [0, 0]);
    Ok(())
}

fn timerfd_again_and_again() -> Outcome {
    let fd = timerfd(libc::CLOCK_MONOTONIC, NONBLOCK)?;
    check_err!(take(fd), EAGAIN);
    let start = time::now();
    set(fd, 0, 5 * MS, MS)?;
    let mut count = 0;
    while count < 4 {
        check_eq!(file::poll(fd, libc::POLLIN, -1)?, libc::POLLIN);
        count += take(fd)?;
    }
    let passed = time::now() - start;
    check!(passed >= 16 * MS, "{count} rounds after {passed} ns");
    // Rounds that nobody read are counted.
    time::sleep(30 * MS).map_err(|(error, _)| error)?;
    let [interval, next] = left(fd)?;
    check!(
        interval == 5 * MS && (1..=5 * MS).contains(&next),
        "the next is in {next} ns"
    );
    let missed = take(fd)?;
    check!(missed >= 5, "only {missed} rounds in 30 ms");
    Ok(())
}

fn timerfd_absolute() -> Outcome {
    for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
        let fd = timerfd(clock, 0)?;
        let start = time::clock(clock)?;
        set(fd, libc::TFD_TIMER_ABSTIME, 0, start + 10 * MS)?;
        check_eq!(take(fd)?, 1);
        check!(time::clock(clock)? >= start + 10 * MS, "too early");
        // In the past: at once.
        set(fd, libc::TFD_TIMER_ABSTIME, 0, 1)?;
        check_eq!(take(fd)?, 1);
    }
    Ok(())
}

fn timerfd_refuses() -> Outcome {
    check_err!(timerfd(libc::CLOCK_THREAD_CPUTIME_ID, 0), EINVAL);
    check_err!(timerfd(libc::CLOCK_MONOTONIC, 1), EINVAL);
    let fd = timerfd(libc::CLOCK_MONOTONIC, 0)?;
    check_err!(set(fd, 8, 0, 1), EINVAL);
    check_err!(set(eventfd(0, 0)?, 0, 0, 1), EINVAL);
    check_err!(set(1000, 0, 0, 1), EBADF);
    check_err!(file::read(fd, &mut [0; 7]), EINVAL);
    check_err!(file::write(fd, &[0; 8]), EINVAL);
    let wrong = [[0u64, 1_000_000_000], [0, 1]];
    let at = wrong.as_ptr() as usize;
    check_err!(
        call(libc::SYS_timerfd_settime, [fd as usize, 0, at, 0, 0, 0]),
        EINVAL
    );
    Ok(())
}
