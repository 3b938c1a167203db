//! Several CPUs: on which ones threads run, and where their time is counted. With one CPU the same
//! holds.
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::cpus::{allowed, bind, current, mask, numbers, two};
use userland::sys::proc::{self, Status, gettid};
use userland::sys::{call, time};
use userland::{check, check_eq, check_err};
userland::tests![
    cpus_affinity_sizes,
    cpus_affinity_refuses,
    cpus_binding_moves,
    cpus_binding_moves_another,
    cpus_affinity_is_inherited,
    cpus_times,
];

/// sched_getaffinity(2): the size in bytes, a multiple of 8 that has room for all CPUs.
fn cpus_affinity_sizes() -> Outcome {
    let mut bytes = [0xffu8; 1024];
    let at = bytes.as_mut_ptr() as usize;
    let get = |size: usize| call(libc::SYS_sched_getaffinity, [0, size, at, 0, 0, 0]);
    check_err!(get(0), EINVAL);
    check_err!(get(7), EINVAL);
    check_err!(get(1023), EINVAL);
    let len = get(1024)?;
    check!(len % 8 == 0 && (8..=1024).contains(&len), "{len} bytes");
    let mine = numbers(&std::hint::black_box(bytes)[..len]);
    check!(mine.contains(&current()?), "{mine:?}");
    check_eq!(mine, allowed(0)?);
    // No more is written than was returned.
    check!(
        std::hint::black_box(bytes)[len..]
            .iter()
            .all(|byte| *byte == 0xff)
    );
    Ok(())
}

fn cpus_affinity_refuses() -> Outcome {
    let set = |tid: usize, size: usize, at: usize| {
        call(libc::SYS_sched_setaffinity, [tid, size, at, 0, 0, 0])
    };
    let before = allowed(0)?;
    // No CPU, none that is there, and a mask of no bytes.
    check_err!(bind(0, &[]), EINVAL);
    check_err!(bind(0, &[8000]), EINVAL);
    let all = [0xffu8; 1024];
    check_err!(set(0, 0, all.as_ptr() as usize), EINVAL);
    check_err!(set(0, 8, 8), EFAULT);
    check_err!(set(0x3f_fff0, 8, all.as_ptr() as usize), ESRCH);
    check_err!(allowed(0x3f_fff0), ESRCH);
    check_err!(
        call(libc::SYS_sched_getaffinity, [0, 1024, 8, 0, 0, 0]),
        EFAULT
    );
    check_eq!(allowed(0)?, before);
    // A short mask lacks the CPUs beyond its end, a long one has CPUs that are not there.
    if before[0] < 8 {
        let one = mask(&before[..1]);
        set(0, 1, one.as_ptr() as usize)?;
        check_eq!(allowed(0)?, before[..1]);
    }
    set(0, 1024, all.as_ptr() as usize)?;
    check!(
        before
            .iter()
            .all(|cpu| allowed(0).is_ok_and(|now| now.contains(cpu)))
    );
    Ok(())
}

fn cpus_binding_moves() -> Outcome {
    let all = allowed(0)?;
    for cpu in all.iter().chain(all.iter().rev()) {
        bind(0, &[*cpu])?;
        check_eq!(current()?, *cpu);
        check_eq!(allowed(0)?, [*cpu]);
        proc::sched_yield();
        check_eq!(current()?, *cpu);
    }
    bind(0, &all)?;
    check_eq!(allowed(0)?, all);
    Ok(())
}

/// A thread that only computes goes where another one sends it.
fn cpus_binding_moves_another() -> Outcome {
    let (tid, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            tid.store(gettid() as u64, SeqCst);
            while !over.load(SeqCst) {
                std::hint::spin_loop();
            }
        });
        while tid.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        let thread = tid.load(SeqCst) as i32;
        let path = format!("/proc/self/task/{thread}/stat");
        let run = || -> Outcome {
            for cpu in allowed(0)? {
                bind(thread, &[cpu])?;
                check_eq!(allowed(thread)?, [cpu]);
                // Field 39: the CPU that it ran on last. The test's time limit ends the wait.
                while last_cpu(&fs::read_to_string(&path)?) != Some(cpu) {
                    std::thread::yield_now();
                }
            }
            Ok(())
        };
        let outcome = run();
        over.store(true, SeqCst);
        outcome
    })
}

/// The CPU in a thread's stat, proc_pid_stat(5).
fn last_cpu(stat: &str) -> Option<usize> {
    let mut fields = stat.rsplit_once(") ")?.1.split_whitespace();
    fields.nth(36)?.parse().ok()
}

fn cpus_affinity_is_inherited() -> Outcome {
    let one = two()?[1];
    bind(0, &[one])?;
    let there = move || -> Outcome {
        check_eq!(allowed(0)?, [one]);
        check_eq!(current()?, one);
        Ok(())
    };
    check_eq!(in_child(|| there().map(|()| 0))?, Status::Exited(0));
    std::thread::spawn(there)
        .join()
        .map_err(|_| Stop::Fail("a thread has panicked".into()))??;
    // Each has its own from then on.
    check_eq!(
        in_child(|| {
            bind(0, &[two()?[0]])?;
            Ok(0)
        })?,
        Status::Exited(0)
    );
    check_eq!(allowed(0)?, [one]);
    Ok(())
}

/// Time in user mode, by CPU, and for all, in ticks: /proc/stat.
fn user_ticks() -> Result<Vec<(String, u64)>, Stop> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.strip_prefix("cpu")?.to_owned();
        let (user, nice) = (words.next()?, words.next()?);
        Some((name, user.parse::<u64>().ok()? + nice.parse::<u64>().ok()?))
    };
    Ok(text.lines().map_while(line).collect())
}

/// What a thread computes is on the line of its CPU, and on that of all.
fn cpus_times() -> Outcome {
    let cpu = two()?[1];
    bind(0, &[cpu])?;
    let mine = |ticks: &[(String, u64)], name: &str| {
        let line = ticks.iter().find(|(other, _)| other == name);
        line.map(|(_, ticks)| *ticks)
            .ok_or_else(|| Stop::Fail(format!("no cpu{name} in /proc/stat")))
    };
    let before = user_ticks()?;
    let own = || time::clock(libc::CLOCK_THREAD_CPUTIME_ID);
    let start = own()?;
    while own()? - start < 300_000_000 {
        time::spin(100_000);
    }
    let after = user_ticks()?;
    // 30 ticks of 10 ms; the clock is asked in the kernel, and what a tick falls into is chance.
    for name in ["", &cpu.to_string()] {
        let spent = mine(&after, name)? - mine(&before, name)?;
        check!(spent >= 10, "cpu{name} has {spent} ticks more");
    }
    Ok(())
}
