//! Threads on several CPUs that change the mapping of memory which others of them use.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use userland::harness::{Outcome, Stop};
use userland::sys::call;
use userland::sys::cpus::{bind, two};
use userland::sys::fault::{self, Trap};
use userland::sys::mem::{ANON, PAGE, RW, madvise, mmap, mremap, munmap, store};
use userland::{check, check_eq};

userland::tests![cpus_two_unmap_one_page, cpus_memory_is_replaced,];

/// A place where nothing else is mapped.
const PLACE: usize = 0x6100_0000_0000;
const ROUNDS: u64 = 3000;

/// What a thread did wrong, for the test to say.
type Wrong = Option<String>;

/// Two threads map, unmap, wipe and fault the same page: an access succeeds or gives SIGSEGV for
/// its address, and a word is zero or one that a thread has begun to write.
fn cpus_two_unmap_one_page() -> Outcome {
    fault::arm();
    let cpus = two()?;
    let begun = [const { AtomicU64::new(0) }; 2];
    let play = |me: usize| -> Wrong {
        let _ = bind(0, &[cpus[me]]);
        (1..=ROUNDS).find_map(|round| {
            begun[me].store(round, SeqCst);
            change(round + me as u64);
            let written = fault::store(PLACE, round << 1 | me as u64);
            let read = fault::load(PLACE);
            let known = |word: u64| word >> 1 <= begun[word as usize & 1].load(SeqCst);
            match (written, read) {
                (Err(trap), _) | (_, Err(trap)) if !is_for_the_page(trap) => {
                    Some(format!("round {round}: {trap:x?}"))
                }
                (_, Ok(word)) if !known(word) => Some(format!("round {round} finds {word:#x}")),
                _ => None,
            }
        })
    };
    let wrong = std::thread::scope(|scope| {
        let threads = [0, 1].map(|me| scope.spawn(move || play(me)));
        threads.map(|thread| thread.join())
    });
    let _ = munmap(PLACE, PAGE);
    for one in wrong {
        let one = one.map_err(|_| Stop::Fail("a thread has panicked".into()))?;
        check_eq!(one, None);
    }
    Ok(())
}

/// Changes the page, in one of four ways.
fn change(way: u64) {
    // Each may find the page gone, or mapped by the other thread.
    let _ = match way % 4 {
        0 => munmap(PLACE, PAGE).map(drop),
        1 => madvise(PLACE, PAGE, libc::MADV_DONTNEED).map(drop),
        _ => mmap(PLACE, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0).map(drop),
    };
}

fn is_for_the_page(trap: Trap) -> bool {
    trap.signal == libc::SIGSEGV && trap.addr == PLACE
}

/// Memory that goes in many steps, and where its like comes from.
const AREA: usize = 0x6200_0000_0000;
const FROM: usize = 0x6300_0000_0000;
const LEN: usize = 64 << 20;
/// One page in so many bytes is touched.
const STRIDE: usize = 64 << 10;
const REPLACED: usize = 5;

/// Maps [`LEN`] bytes, whatever is there, and writes a word to some of its pages.
fn fill(at: usize) -> Outcome {
    mmap(at, LEN, RW, ANON | libc::MAP_FIXED, -1, 0)?;
    madvise(at, LEN, libc::MADV_NOHUGEPAGE)?;
    (at..at + LEN).step_by(STRIDE).for_each(|at| store(at, 1));
    Ok(())
}

/// Access `n` to [`AREA`], by the thread or by the kernel for it; whether it succeeds.
fn access(n: usize) -> bool {
    let at = AREA + n * 37 % (LEN / STRIDE) * STRIDE;
    match n % 4 {
        0 => fault::store(at, 1).is_ok(),
        1 => fault::load(at).is_ok(),
        2 => call(libc::SYS_getrandom, [at, 8, 0, 0, 0, 0]) == Ok(8),
        _ => {
            let clock = libc::CLOCK_MONOTONIC as usize;
            call(libc::SYS_clock_gettime, [clock, at, 0, 0, 0, 0]).is_ok()
        }
    }
}

/// Memory that MAP_FIXED and MREMAP_FIXED replace is there all the time.
fn cpus_memory_is_replaced() -> Outcome {
    fault::arm();
    fill(AREA)?;
    let over = AtomicBool::new(false);
    let replace = || {
        for _ in 0..REPLACED {
            fill(AREA)?;
            fill(FROM)?;
            let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            check_eq!(mremap(FROM, LEN, LEN, how, AREA)?, AREA);
        }
        Ok(())
    };
    let cpu = two()?[1];
    let use_it = || {
        bind(0, &[cpu])?;
        for n in 0.. {
            check!(access(n), "access {n}");
            if over.load(SeqCst) {
                break;
            }
        }
        Ok(())
    };
    let ends = std::thread::scope(|scope| {
        let user = scope.spawn(use_it);
        let panicked = |_| Err(Stop::Fail("a thread has panicked".into()));
        let replaced = replace();
        over.store(true, SeqCst);
        [replaced, user.join().unwrap_or_else(panicked)]
    });
    munmap(AREA, LEN)?;
    ends.into_iter().collect()
}
