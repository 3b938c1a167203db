//! What the libraries of threads ask of the kernel: futexes among processes on several CPUs,
//! membarrier, the word that the end of a thread clears.
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use userland::harness::{Outcome, in_child, need};
use userland::sys::cpus::{allowed, bind};
use userland::sys::mem::{load, shared_page, store, word32};
use userland::sys::proc::{self, Fork, Status, futex};
use userland::sys::{Result, call};
use userland::{check, check_eq, check_err};

userland::tests![
    threads_futex_bits,
    threads_futex_requeue,
    threads_futex_ping_pong,
    threads_membarrier,
    threads_end_clears_a_word,
    threads_clone3,
    threads_of_rust,
];

fn wake(word: &AtomicU32, count: usize, bits: u32) -> Result<usize> {
    futex(word, libc::FUTEX_WAKE_BITSET, [count, 0, 0, bits as usize])
}

/// A child, the `n`-th and so on the n-th CPU, that sleeps on the word while it has the value 0,
/// and ends with 3 if it was woken.
fn sleeper(n: usize, word: &AtomicU32, bits: u32) -> Result<i32> {
    let cpus = allowed(0)?;
    let Fork::Parent(pid) = proc::fork()? else {
        let _ = bind(0, &[cpus[n % cpus.len()]]);
        let woken = futex(word, libc::FUTEX_WAIT_BITSET, [0, 0, 0, bits as usize]);
        proc::exit_now(if woken == Ok(0) { 3 } else { 4 })
    };
    Ok(pid)
}

/// Repeats `act`, whose results add up, until they are `all`: children come to sleep in their own
/// time.
fn until(all: usize, mut act: impl FnMut() -> Result<usize>) -> Outcome {
    let mut sum = 0;
    while sum < all {
        sum += act()?;
        proc::sched_yield();
    }
    check_eq!(sum, all);
    Ok(())
}

/// FUTEX_WAKE_BITSET wakes those whose bits meet its own.
fn threads_futex_bits() -> Outcome {
    let word = word32(shared_page()?);
    let pids = [
        sleeper(0, word, 1)?,
        sleeper(1, word, 2)?,
        sleeper(2, word, 6)?,
    ];
    until(1, || wake(word, 1, 1))?;
    check_eq!(proc::wait_for(pids[0])?, Status::Exited(3));
    // Both that are left have bit 1, one has bit 2 besides.
    until(1, || wake(word, 9, 4))?;
    check_eq!(proc::wait_for(pids[2])?, Status::Exited(3));
    check_eq!(wake(word, 9, 1 | 4 | 8)?, 0);
    until(1, || wake(word, 9, 2))?;
    check_eq!(proc::wait_for(pids[1])?, Status::Exited(3));
    Ok(())
}

/// Four children that sleep on the word. Linux puts one that it wakes by mistake, as it does where
/// a thread has just changed its CPU, back to the word that it came to: it must sleep before it is
/// moved.
fn four_asleep(word: &AtomicU32) -> Result<Vec<i32>> {
    let pids: Result<Vec<_>> = (0..4).map(|n| sleeper(n, word, u32::MAX)).collect();
    pids.inspect(|pids| pids.iter().for_each(|pid| proc::wait_until_asleep(*pid)))
}

/// FUTEX_REQUEUE and FUTEX_CMP_REQUEUE: who was moved is woken through the other word.
fn threads_futex_requeue() -> Outcome {
    let at = shared_page()?;
    let (from, to) = (word32(at), word32(at + 64));
    let target = to.as_ptr() as usize;
    let requeue =
        |wake: usize, moves: usize| futex(from, libc::FUTEX_REQUEUE, [wake, moves, target, 0]);
    let compare = |wake: usize, moves: usize, value: usize| {
        futex(from, libc::FUTEX_CMP_REQUEUE, [wake, moves, target, value])
    };
    for n in 0..2 {
        let pids = four_asleep(from)?;
        // Another value: nobody is moved.
        check_err!(compare(0, 9, 1), EAGAIN);
        until(4, || {
            if n == 0 {
                requeue(0, 9)
            } else {
                compare(0, 9, 0)
            }
        })?;
        check_eq!(wake(from, 9, u32::MAX)?, 0);
        check_eq!(wake(to, 1, u32::MAX)?, 1);
        check_eq!(wake(to, 9, u32::MAX)?, 3);
        for pid in pids {
            check_eq!(proc::wait_for(pid)?, Status::Exited(3));
        }
    }
    // One is woken, the others are moved.
    let pids = four_asleep(from)?;
    let mut through = 0;
    until(4, || {
        let done = compare(usize::from(through == 0), 9, 0)?;
        through += done;
        Ok(done)
    })?;
    check_eq!(wake(to, 9, u32::MAX)?, 3);
    for pid in pids {
        check_eq!(proc::wait_for(pid)?, Status::Exited(3));
    }
    Ok(())
}

/// Two processes on two CPUs that wake each other: a lost wake-up stops the test.
fn threads_futex_ping_pong() -> Outcome {
    const TURNS: u32 = 1000;
    let word = word32(shared_page()?);
    let cpus = allowed(0)?;
    let play = |mine: u32| {
        while word.load(SeqCst) < TURNS {
            let turn = word.load(SeqCst);
            if turn % 2 == mine {
                word.store(turn + 1, SeqCst);
                let _ = wake(word, 1, u32::MAX);
            } else {
                let _ = futex(word, libc::FUTEX_WAIT, [turn as usize, 0, 0, 0]);
            }
        }
    };
    let Fork::Parent(pid) = proc::fork()? else {
        let _ = bind(0, &[cpus[cpus.len() - 1]]);
        play(1);
        proc::exit_now(0)
    };
    bind(0, &[cpus[0]])?;
    play(0);
    check_eq!(proc::wait_for(pid)?, Status::Exited(0));
    Ok(())
}

/// membarrier(2), whose numbers these are.
fn threads_membarrier() -> Outcome {
    const QUERY: usize = 0;
    const GLOBAL: usize = 1;
    const PRIVATE: usize = 8;
    const REGISTER: usize = 16;
    let membarrier =
        |command: usize, flags: usize| call(libc::SYS_membarrier, [command, flags, 0, 0, 0, 0]);
    let known = need(membarrier(QUERY, 0), "membarrier")?;
    for command in [GLOBAL, PRIVATE, REGISTER] {
        check!(known & command != 0, "{known:#x} lacks {command}");
    }
    check_err!(membarrier(QUERY, 99), EINVAL);
    check_err!(membarrier(1 << 20, 0), EINVAL);
    check_err!(membarrier(PRIVATE, 0), EPERM);
    check_eq!(membarrier(REGISTER, 0)?, 0);
    let child = in_child(|| Ok(membarrier(PRIVATE, 0)? as i32))?;
    check_eq!(child, Status::Exited(0));
    // Beside a thread that only computes: the barrier reaches it, by Dekker's algorithm with the
    // barrier of one side taken over by the call on the other.
    let at = shared_page()?;
    let (mine, theirs) = (word32(at), word32(at + 64));
    let (wins, over) = (word32(at + 128), word32(at + 192));
    let cpus = allowed(0)?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = bind(0, &[cpus[cpus.len() - 1]]);
            let mut round = 0;
            while over.load(SeqCst) == 0 {
                // A plain store and a plain load, which the machine may exchange.
                theirs.store(round, std::sync::atomic::Ordering::Relaxed);
                std::sync::atomic::compiler_fence(SeqCst);
                let seen = mine.load(std::sync::atomic::Ordering::Relaxed);
                wins.store(seen, SeqCst);
                round = round.wrapping_add(1);
            }
        });
        let run = || -> Outcome {
            bind(0, &[cpus[0]])?;
            for round in 1..200 {
                mine.store(round, SeqCst);
                check_eq!(
                    membarrier(if round % 8 == 0 { GLOBAL } else { PRIVATE }, 0)?,
                    0
                );
                let before = theirs.load(SeqCst);
                // What the other thread stores from now on, it stores after it has seen our word.
                while theirs.load(SeqCst).wrapping_sub(before) < 2 {
                    std::thread::yield_now();
                }
                let seen = wins.load(SeqCst);
                check!(seen == round, "round {round}: it has seen {seen}");
            }
            Ok(())
        };
        let outcome = run();
        over.store(1, SeqCst);
        outcome
    })
}

/// set_tid_address(2): the word is cleared at the end of the thread, and who waits for it is woken.
fn threads_end_clears_a_word() -> Outcome {
    let at = shared_page()?;
    let word = word32(at);
    let end = in_child(|| {
        word.store(7, SeqCst);
        std::thread::spawn(move || {
            let tid = call(libc::SYS_set_tid_address, [at, 0, 0, 0, 0, 0]);
            store(
                at + 64,
                u64::from(tid.ok() == Some(proc::gettid() as usize)),
            );
            // The C library's own end would wait for its own word.
            let _ = call(libc::SYS_exit, [0; 6]);
        });
        while word.load(SeqCst) == 7 {
            let _ = futex(word, libc::FUTEX_WAIT, [7, 0, 0, 0]);
        }
        proc::exit_now(load(at + 64) as i32)
    })?;
    check_eq!((end, word.load(SeqCst)), (Status::Exited(1), 0));
    Ok(())
}

/// clone3(2) of a process: its number goes where the parent wants it, the child's word is set.
fn threads_clone3() -> Outcome {
    let at = shared_page()?;
    let flags = libc::CLONE_PARENT_SETTID | libc::CLONE_CHILD_SETTID;
    let arguments = [
        flags as u64,
        0,
        (at + 8) as u64,
        at as u64,
        libc::SIGCHLD as u64,
        0,
        0,
        0,
    ];
    let place = arguments.as_ptr() as usize;
    let pid = call(libc::SYS_clone3, [place, 64, 0, 0, 0, 0])?;
    if pid == 0 {
        proc::exit_now(i32::from(load(at + 8) as i32 == proc::gettid()))
    }
    check_eq!(proc::wait_for(pid as i32)?, Status::Exited(1));
    check_eq!((load(at) as usize, load(at + 8) as usize), (pid, pid));
    check_err!(call(libc::SYS_clone3, [place, 63, 0, 0, 0, 0]), EINVAL);
    check_err!(call(libc::SYS_clone3, [8, 64, 0, 0, 0, 0]), EFAULT);
    Ok(())
}

/// Rust's own: a thousand threads, channels between them, a condition, a barrier, parked threads.
fn threads_of_rust() -> Outcome {
    use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock, mpsc};
    let (send, receive) = mpsc::sync_channel::<u64>(16);
    let adder = std::thread::spawn(move || receive.iter().sum::<u64>());
    for start in (0..1000).step_by(20) {
        let threads = (start..start + 20).map(|n| {
            let send = send.clone();
            std::thread::spawn(move || send.send(n))
        });
        for thread in threads.collect::<Vec<_>>() {
            check!(
                thread.join().is_ok_and(|sent| sent.is_ok()),
                "a thread could not send"
            );
        }
    }
    drop(send);
    check_eq!(adder.join().ok(), Some(499_500));
    // Two channels that answer each other.
    let ((ask, asked), (answer, answered)) = (mpsc::channel(), mpsc::channel());
    let other = std::thread::spawn(move || asked.iter().all(|n: u32| answer.send(n + 1).is_ok()));
    for n in 0..1000 {
        check!(
            ask.send(n).is_ok() && answered.recv() == Ok(n + 1),
            "answer {n}"
        );
    }
    drop(ask);
    check_eq!(other.join().ok(), Some(true));
    // Threads that begin together, and one that waits for all.
    let shared = Arc::new((
        Mutex::new(0),
        Condvar::new(),
        Barrier::new(8),
        RwLock::new(0),
    ));
    for _ in 0..8 {
        let shared = shared.clone();
        std::thread::spawn(move || {
            let (count, changed, together, written) = &*shared;
            for _ in 0..50 {
                together.wait();
                if let Ok(mut written) = written.write() {
                    *written += 1;
                }
            }
            if let Ok(mut count) = count.lock() {
                *count += 1;
                changed.notify_all();
            }
        });
    }
    let (count, changed, _, written) = &*shared;
    let guard = count.lock().ok();
    let done = guard.and_then(|count| changed.wait_while(count, |count| *count < 8).ok());
    check_eq!(done.map(|count| *count), Some(8));
    check_eq!(written.read().ok().map(|written| *written), Some(400));
    let parked = std::thread::spawn(std::thread::park);
    parked.thread().unpark();
    check!(parked.join().is_ok());
    Ok(())
}
