//! timer_create(2): timers that send signals.
use userland::harness::{Outcome, in_child};
use userland::sys::proc::{self, Status};
use userland::sys::{Result, call, sig, time};
use userland::{check, check_eq, check_err};

userland::tests![
    posix_timer_sends,
    posix_timer_repeats,
    posix_timer_absolute,
    posix_timer_overruns,
    posix_timer_to_a_thread,
    posix_timer_refuses,
    posix_timer_not_inherited,
];

const MS: u64 = 1_000_000;
/// No library uses it.
const REALTIME: i32 = 40;

/// Value, signal and kind, thread.
pub fn create(clock: i32, event: Option<[u64; 8]>) -> Result<i32> {
    let mut number = -1i32;
    let at = event.as_ref().map_or(0, |event| event.as_ptr() as usize);
    let into = (&raw mut number) as usize;
    call(libc::SYS_timer_create, [clock as usize, at, into, 0, 0, 0])?;
    Ok(std::hint::black_box(number))
}

fn event(value: u64, signal: i32, kind: i32, thread: i32) -> [u64; 8] {
    let words = (kind as u64) << 32 | signal as u64;
    [value, words, thread as u64, 0, 0, 0, 0, 0]
}

/// First time and interval in ns; what was left of the old ones.
pub fn set(number: i32, flags: i32, first: u64, interval: u64) -> Result<(u64, u64)> {
    let words = |ns: u64| [ns / 1_000_000_000, ns % 1_000_000_000];
    let (new, mut old) = ([words(interval), words(first)], [[0u64; 2]; 2]);
    let (at, into) = (new.as_ptr() as usize, old.as_mut_ptr() as usize);
    call(
        libc::SYS_timer_settime,
        [number as usize, flags as usize, at, into, 0, 0],
    )?;
    let [interval, first] = std::hint::black_box(old).map(|[s, ns]| s * 1_000_000_000 + ns);
    Ok((first, interval))
}

fn delete(number: i32) -> Result<usize> {
    call(libc::SYS_timer_delete, [number as usize, 0, 0, 0, 0, 0])
}

/// Waits for one of these blocked signals: its number, code, timer, overrun and value.
fn wait_for(signal: i32) -> Result<(i32, i32, i32, i32, u64)> {
    let (set, mut info) = (1u64 << (signal - 1), [0u64; 16]);
    let (at, into) = ((&raw const set) as usize, info.as_mut_ptr() as usize);
    call(libc::SYS_rt_sigtimedwait, [at, into, 0, 8, 0, 0])?;
    let info = std::hint::black_box(info);
    let high = |word: u64| (word >> 32) as i32;
    Ok((
        info[0] as i32,
        info[1] as i32,
        info[2] as i32,
        high(info[2]),
        info[3],
    ))
}

fn posix_timer_sends() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[libc::SIGALRM, REALTIME])?;
    let plain = create(libc::CLOCK_MONOTONIC, None)?;
    let valued = create(
        libc::CLOCK_REALTIME,
        Some(event(77, REALTIME, libc::SIGEV_SIGNAL, 0)),
    )?;
    check!(plain != valued, "two timers of one number");
    check_eq!(set(plain, 0, 0, 0)?, (0, 0));
    let start = time::now();
    set(plain, 0, 5 * MS, 0)?;
    let (signal, code, number, overrun, value) = wait_for(libc::SIGALRM)?;
    check!(time::now() - start >= 5 * MS, "too early");
    check_eq!((signal, code), (libc::SIGALRM, libc::SI_TIMER));
    check_eq!((number, overrun, value as i32), (plain, 0, plain));
    let overrun = call(libc::SYS_timer_getoverrun, [plain as usize, 0, 0, 0, 0, 0])?;
    check_eq!(overrun, 0);
    check_eq!(set(plain, 0, 1000 * MS, 3 * MS)?, (0, 0));
    let (left, interval) = set(plain, 0, 0, 0)?;
    check!(
        (1..=1000 * MS).contains(&left) && interval == 3 * MS,
        "{left} {interval}"
    );
    set(valued, 0, MS, 0)?;
    check_eq!(
        wait_for(REALTIME)?,
        (REALTIME, libc::SI_TIMER, valued, 0, 77)
    );
    delete(plain)?;
    check_err!(delete(plain), EINVAL);
    check_err!(set(plain, 0, 1, 0), EINVAL);
    // One that is deleted sends nothing.
    set(valued, 0, 5 * MS, 0)?;
    delete(valued)?;
    check_err!(sig::timed_wait(&[REALTIME], 10 * MS), EAGAIN);
    Ok(())
}

fn posix_timer_repeats() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[libc::SIGALRM])?;
    let timer = create(libc::CLOCK_MONOTONIC, None)?;
    let start = time::now();
    set(timer, 0, MS, 4 * MS)?;
    let mut rounds = 0;
    while rounds < 5 {
        rounds += 1 + wait_for(libc::SIGALRM)?.3;
    }
    check!(time::now() - start >= 17 * MS, "{rounds} rounds too early");
    Ok(())
}

fn posix_timer_absolute() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[libc::SIGALRM])?;
    for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
        let timer = create(clock, None)?;
        let at = time::clock(clock)? + 5 * MS;
        set(timer, libc::TIMER_ABSTIME, at, 0)?;
        wait_for(libc::SIGALRM)?;
        check!(time::clock(clock)? >= at, "too early");
        set(timer, libc::TIMER_ABSTIME, 1, 0)?;
        wait_for(libc::SIGALRM)?;
        delete(timer)?;
    }
    Ok(())
}

fn posix_timer_overruns() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[REALTIME])?;
    let timer = create(
        libc::CLOCK_MONOTONIC,
        Some(event(0, REALTIME, libc::SIGEV_SIGNAL, 0)),
    )?;
    set(timer, 0, MS, MS)?;
    time::sleep(30 * MS).map_err(|(error, _)| error)?;
    // One signal, however many rounds there were: the others count with it or the next.
    let missed = wait_for(REALTIME)?.3 + wait_for(REALTIME)?.3;
    check!(missed >= 20, "{missed} of 30 rounds");
    // As short as can be: the process goes on.
    set(timer, 0, 1, 1)?;
    for _ in 0..20 {
        wait_for(REALTIME)?;
    }
    delete(timer)?;
    Ok(())
}

fn posix_timer_to_a_thread() -> Outcome {
    sig::mask(libc::SIG_BLOCK, &[REALTIME])?;
    let own = proc::gettid();
    let kind = libc::SIGEV_THREAD_ID;
    let timer = create(libc::CLOCK_MONOTONIC, Some(event(5, REALTIME, kind, own)))?;
    set(timer, 0, MS, 0)?;
    check_eq!(wait_for(REALTIME)?.4, 5);
    let none = create(
        libc::CLOCK_MONOTONIC,
        Some(event(5, 0, libc::SIGEV_NONE, 0)),
    )?;
    set(none, 0, MS, 0)?;
    check_err!(sig::timed_wait(&[REALTIME], 5 * MS), EAGAIN);
    check_eq!(set(none, 0, 0, 0)?, (0, 0));
    let other = event(5, REALTIME, kind, proc::getppid());
    check_err!(create(libc::CLOCK_MONOTONIC, Some(other)), EINVAL);
    Ok(())
}

fn posix_timer_refuses() -> Outcome {
    check_err!(create(1000, None), EINVAL);
    check_err!(
        create(libc::CLOCK_MONOTONIC, Some(event(0, 65, 0, 0))),
        EINVAL
    );
    check_err!(
        create(libc::CLOCK_MONOTONIC, Some(event(0, 0, 0, 0))),
        EINVAL
    );
    check_err!(
        create(libc::CLOCK_MONOTONIC, Some(event(0, 10, 77, 0))),
        EINVAL
    );
    let clock = libc::CLOCK_MONOTONIC as usize;
    check_err!(call(libc::SYS_timer_create, [clock, 0, 8, 0, 0, 0]), EFAULT);
    check_err!(set(1000, 0, 1, 0), EINVAL);
    check_err!(set(-1, 0, 1, 0), EINVAL);
    let timer = create(libc::CLOCK_MONOTONIC, None)? as usize;
    let wrong = [[0u64, 0], [0, 1_000_000_000]];
    let at = wrong.as_ptr() as usize;
    check_err!(
        call(libc::SYS_timer_settime, [timer, 0, at, 0, 0, 0]),
        EINVAL
    );
    check_err!(
        call(libc::SYS_timer_settime, [timer, 0, 0, 0, 0, 0]),
        EINVAL
    );
    check_err!(
        call(libc::SYS_timer_settime, [timer, 0, 8, 0, 0, 0]),
        EFAULT
    );
    check_err!(
        call(libc::SYS_timer_gettime, [timer, 8, 0, 0, 0, 0]),
        EFAULT
    );
    check_err!(
        call(libc::SYS_timer_getoverrun, [1000, 0, 0, 0, 0, 0]),
        EINVAL
    );
    Ok(())
}

fn posix_timer_not_inherited() -> Outcome {
    let timer = create(libc::CLOCK_MONOTONIC, None)?;
    let status = in_child(|| {
        check_err!(delete(timer), EINVAL);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    delete(timer)?;
    Ok(())
}
