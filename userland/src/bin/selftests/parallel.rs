//! Calls that change only memory, sleep or tell the time, by several threads of one process at
//! once: each is right beside the others, and on Quire none waits for the kernel lock.
use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use userland::harness::{Outcome, Stop, skip};
use userland::invariants;
use userland::random::Random;
use userland::sys::cpus::{allowed, bind};
use userland::sys::mem::{
    self, ANON, PAGE, RW, byte, madvise, mincore, mmap, mprotect, mremap, munmap, store_bytes,
    word32,
};
use userland::sys::proc::{self, futex};
use userland::sys::{Errno, file, time};
use userland::{check, check_eq, check_err};

userland::tests![
    parallel_memory,
    parallel_same_memory,
    parallel_files_and_memory,
    parallel_futex_counts,
    parallel_without_the_kernel_lock,
    parallel_faults,
    parallel_check,
];

const THREADS: usize = 4;

/// Runs `act` in four threads, each with its number and on a CPU of its own as far as there are
/// as many; they begin together.
fn together<T: Send>(act: impl Fn(usize) -> Result<T, Stop> + Sync) -> Result<Vec<T>, Stop> {
    let cpus = allowed(0)?;
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|n| {
                let (act, start, cpu) = (&act, &start, cpus[n % cpus.len()]);
                scope.spawn(move || {
                    let bound = bind(0, &[cpu]);
                    start.wait();
                    bound?;
                    act(n)
                })
            })
            .collect();
        let ends = threads.into_iter().map(|thread| {
            let end = thread.join();
            end.unwrap_or_else(|_| Err(Stop::Fail("a thread has panicked".into())))
        });
        ends.collect()
    })
}

/// Each has its own memory, in one space: what a thread wrote stays through all that it and the
/// others do.
fn parallel_memory() -> Outcome {
    const PAGES: usize = 40;
    const LEN: usize = PAGES * PAGE;
    together(|n| {
        for round in 0..10 {
            let value = (1 + n * 60 + round) as u8;
            let at = mmap(0, LEN, RW, ANON, -1, 0)?;
            store_bytes(at, at + LEN, value);
            mprotect(at + PAGE, 8 * PAGE, libc::PROT_READ)?;
            madvise(at + 20 * PAGE, 4 * PAGE, libc::MADV_DONTNEED)?;
            let in_memory = mincore(at, PAGES)?.into_iter().filter(|byte| byte & 1 == 1);
            check_eq!(in_memory.count(), PAGES - 4);
            mprotect(at + PAGE, 8 * PAGE, RW)?;
            let moved = mremap(at, LEN, 2 * LEN, libc::MREMAP_MAYMOVE, 0)?;
            for page in 0..2 * PAGES {
                let gone = (20..24).contains(&page) || page >= PAGES;
                let found = byte(moved + page * PAGE);
                let wanted = if gone { 0 } else { value };
                check!(found == wanted, "page {page}: {found}, not {wanted}");
            }
            mprotect(moved, LEN, libc::PROT_NONE)?;
            munmap(moved + LEN / 2, LEN)?;
            munmap(moved, LEN / 2)?;
            munmap(moved + LEN + LEN / 2, LEN / 2)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// All change the same memory: each call does all of its work or says why not, and what is read is
/// what somebody wrote there.
fn parallel_same_memory() -> Outcome {
    const PAGES: usize = 64;
    let at = mmap(
        0,
        PAGES * PAGE,
        RW,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        -1,
        0,
    )?;
    let word = |page: usize| word32(at + page * PAGE);
    let ends = together(|n| {
        let mut random = Random::new(0x9a11 + n as u64);
        let mut written = 0u32;
        for _ in 0..100 {
            let first = random.below(PAGES as u64 / 2) as usize;
            let pages = 1 + random.below(PAGES as u64 / 2) as usize;
            let (start, len) = (at + first * PAGE, pages * PAGE);
            match random.below(4) {
                0 => drop(mprotect(start, len, RW)?),
                1 => drop(madvise(start, len, libc::MADV_DONTNEED)?),
                2 => drop(mincore(start, pages)?),
                _ => {
                    for page in first..first + pages {
                        word(page).fetch_add(1, SeqCst);
                        written += 1;
                    }
                }
            }
        }
        Ok(written)
    })?;
    // Shared memory keeps what was written: no addition is lost.
    let sum: u32 = (0..PAGES).map(|page| word(page).load(SeqCst)).sum();
    check_eq!(sum, ends.iter().sum::<u32>());
    Ok(())
}

/// Two threads map and unmap files, whose last reference may be the mapping's; two have memory
/// alone.
fn parallel_files_and_memory() -> Outcome {
    const LEN: usize = 16 * PAGE;
    together(|n| {
        for round in 0..80u8 {
            let value = round + 1;
            if n % 2 == 0 {
                let at = mmap(0, LEN, RW, ANON, -1, 0)?;
                store_bytes(at, at + LEN, value);
                check_eq!(byte(at + LEN - PAGE), value);
                munmap(at, LEN)?;
                continue;
            }
            let path = format!("/tmp/parallel-{}-{n}-{round}", std::process::id());
            let fd = file::open(&path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, 0o600)?;
            file::ftruncate(fd, LEN as i64)?;
            let at = mmap(0, LEN, RW, libc::MAP_SHARED, fd, 0)?;
            file::close(fd)?;
            fs::remove_file(&path)?;
            store_bytes(at, at + LEN, value);
            check_eq!(byte(at + LEN - PAGE), value);
            // Memory in the place of the file, which ends with it.
            let fixed = ANON | libc::MAP_FIXED;
            check_eq!(mmap(at, LEN, RW, fixed, -1, 0)?, at);
            check_eq!(byte(at), 0);
            munmap(at, LEN)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Sleepers with short time-outs on one word, while others are woken there, are moved to a second
/// word, and are woken through that: as many waits end with a wake-up as wake-ups say that they
/// ended. None is lost, and nobody is left.
fn parallel_futex_counts() -> Outcome {
    for (seed, flag) in [(1, 0), (2, libc::FUTEX_PRIVATE_FLAG), (3, 0)] {
        futex_counts(seed, flag)?;
    }
    Ok(())
}

fn futex_counts(seed: u64, flag: i32) -> Outcome {
    const WAITS: usize = 400;
    let at = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
    let (from, to) = (word32(at), word32(at + 256));
    let sleeping = AtomicUsize::new(THREADS - 1);
    let wake = |word, count: usize| futex(word, libc::FUTEX_WAKE | flag, [count, 0, 0, 0]);
    let requeue = |compare: bool, count: usize| {
        let (call, target) = (
            if compare {
                libc::FUTEX_CMP_REQUEUE
            } else {
                libc::FUTEX_REQUEUE
            },
            to.as_ptr() as usize,
        );
        futex(from, call | flag, [0, count, target, 0])
    };
    let wait = |ns: u64| {
        let time = [0u64, ns];
        let time = std::hint::black_box(&time).as_ptr() as usize;
        futex(from, libc::FUTEX_WAIT | flag, [0, time, 0, 0])
    };
    let ends = together(|n| {
        let mut random = Random::new(seed << 8 | n as u64);
        let mut count = 0;
        if n == 0 {
            while sleeping.load(SeqCst) > 0 {
                let some = 1 + random.below(3) as usize;
                match random.below(5) {
                    0 => count += wake(from, some)?,
                    1 | 2 => count += wake(to, some)?,
                    3 => drop(requeue(false, some)?),
                    _ => drop(requeue(true, some)?),
                }
                if random.one_in(4) {
                    time::spin(1 + random.below(20_000));
                }
            }
            return Ok(count);
        }
        let result = (0..WAITS).try_for_each(|_| match wait(random.below(300_000)) {
            Ok(_) => {
                count += 1;
                Ok(())
            }
            Err(Errno(libc::ETIMEDOUT)) => Ok(()),
            Err(other) => Err(other),
        });
        sleeping.fetch_sub(1, SeqCst);
        result?;
        Ok(count)
    })?;
    check_eq!(ends[0], ends[1..].iter().sum::<usize>());
    check_eq!((wake(from, 9)?, wake(to, 9)?), (0, 0));
    Ok(())
}

const CONTENTION: &str = "/sys/kernel/mm/quire/contention";

/// A number of a lock's line, the first behind the name is 0.
fn contention(lock: &str, column: usize) -> Option<u64> {
    let text = fs::read_to_string(CONTENTION).ok()?;
    let mut lines = text.lines().map(str::split_whitespace);
    let mut numbers = lines.find_map(|mut words| (words.next()? == lock).then_some(words))?;
    numbers.nth(column)?.parse().ok()
}

/// How often the kernel lock was taken.
fn kernel_lock_taken() -> Option<u64> {
    contention("kernel", 2)
}

/// Thousands of calls take the kernel lock a few times: what else runs does.
fn parallel_without_the_kernel_lock() -> Outcome {
    const ROUNDS: u64 = 400;
    /// Rounds for one in which memory is mapped and unmapped, which all CPUs have to hear of.
    const FEW: u64 = 8;
    const CALLS: u64 = ROUNDS * 6 + ROUNDS / FEW * 8;
    let Some(before) = kernel_lock_taken() else {
        return skip("there is no kernel lock");
    };
    together(|n| {
        let word = mmap(0, PAGE, RW, ANON, -1, 0)?;
        for round in 0..ROUNDS {
            if round % FEW == 0 {
                memory_calls(n)?;
            }
            mem::brk(0);
            futex(word32(word), libc::FUTEX_WAKE, [1, 0, 0, 0])?;
            // The word is another one.
            let waits = futex(word32(word), libc::FUTEX_WAIT, [1, 0, 0, 0]);
            check_err!(waits, EAGAIN);
            time::clock(libc::CLOCK_MONOTONIC)?;
            proc::sched_yield();
            let _ = time::sleep(1);
        }
        munmap(word, PAGE)?;
        Ok(())
    })?;
    let taken = kernel_lock_taken().map(|after| after.saturating_sub(before));
    let calls = THREADS as u64 * CALLS;
    check!(
        taken.is_some_and(|taken| taken < calls / 10),
        "{calls} calls took the kernel lock {taken:?} times"
    );
    Ok(())
}

/// Eight calls that change memory.
fn memory_calls(n: usize) -> Outcome {
    let at = mmap(0, 4 * PAGE, RW, ANON, -1, 0)?;
    mem::store(at, n as u64);
    mprotect(at, 4 * PAGE, libc::PROT_READ)?;
    mincore(at, 4)?;
    madvise(at, 4 * PAGE, libc::MADV_DONTNEED)?;
    let at = mremap(at, 4 * PAGE, 8 * PAGE, libc::MREMAP_MAYMOVE, 0)?;
    mem::mlock(at, PAGE)?;
    mem::munlock(at, PAGE)?;
    munmap(at, 8 * PAGE)?;
    Ok(())
}

/// Threads that fault in one area, each in 2 MiB of its own, wait for no lock of the space or of
/// its tables.
fn parallel_faults() -> Outcome {
    const SPAN: usize = 2 << 20;
    if contention("space", 0).is_none() {
        return skip("the kernel does not count waits for locks");
    }
    let at = mmap(0, (THREADS + 1) * SPAN, RW, ANON, -1, 0)?;
    let first = at.next_multiple_of(SPAN);
    // The first write of an area changes the area, and that of 2 MiB the table above.
    (0..THREADS).for_each(|n| mem::store(first + n * SPAN, 1));
    let [ready, done, looked] = [const { AtomicUsize::new(0) }; 3];
    // Without calls: sleepers would wake, and go to sleep, beside the faults.
    let wait = |count: &AtomicUsize, wanted: usize| {
        while count.load(SeqCst) < wanted {
            std::hint::spin_loop();
        }
    };
    let waits = together(|n| {
        let span = first + n * SPAN;
        ready.fetch_add(1, SeqCst);
        if n == 0 {
            wait(&ready, THREADS);
            fs::write(CONTENTION, "0")?;
            ready.fetch_add(1, SeqCst);
        }
        wait(&ready, THREADS + 1);
        mem::store_addresses(span, span + SPAN);
        done.fetch_add(1, SeqCst);
        wait(&done, THREADS);
        if n != 0 {
            // Who looks takes memory for it, and might wait for another one that does.
            wait(&looked, 1);
            return Ok([None; 2]);
        }
        let waits = [contention("space", 0), contention("node", 0)];
        looked.store(1, SeqCst);
        Ok(waits)
    })?;
    check_eq!(waits[0], [Some(0), Some(0)]);
    munmap(at, (THREADS + 1) * SPAN)?;
    Ok(())
}

/// All invariants of Quire's memory manager hold at any moment in which the CPUs are stopped:
/// three threads change memory of one space while one asks for the check. A violation is a panic.
fn parallel_check() -> Outcome {
    const PAGES: usize = 40;
    const CHECKS: usize = 5;
    if invariants::is_refused() {
        return skip("allocations of this process are counted");
    }
    let ends = AtomicUsize::new(0);
    let rounds = together(|n| {
        if n == 0 {
            let result = (0..CHECKS).try_for_each(|_| invariants::check().map(drop));
            ends.store(1, SeqCst);
            result?;
        }
        let mut rounds = 0u8;
        while rounds == 0 || ends.load(SeqCst) == 0 {
            rounds = rounds.wrapping_add(1).max(1);
            let at = mmap(0, PAGES * PAGE, RW, ANON, -1, 0)?;
            for page in (0..PAGES).step_by(3) {
                store_bytes(at + page * PAGE, at + (page + 1) * PAGE, rounds);
            }
            mprotect(at, 8 * PAGE, libc::PROT_READ)?;
            madvise(at + 20 * PAGE, 4 * PAGE, libc::MADV_DONTNEED)?;
            check_eq!(byte(at + 39 * PAGE), rounds);
            check_eq!(byte(at + 38 * PAGE), 0);
            munmap(at, PAGES * PAGE)?;
        }
        Ok(rounds)
    })?;
    check!(rounds.iter().all(|rounds| *rounds > 0), "{rounds:?}");
    Ok(())
}
