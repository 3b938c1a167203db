//! Several CPUs: what runs on one of them reaches the others. With one CPU the same holds.
use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::cpus::{allowed, bind, current, two};
use userland::sys::mem::{
    ANON, PAGE, RW, load, madvise, mmap, shared_page, store, store_addresses,
};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Result, call, file, sig, time};
use userland::{check, check_eq, check_err};

userland::tests![
    cpus_signal_a_computing_thread,
    cpus_kill_computing_threads,
    cpus_stop_computing_threads,
    cpus_exit_beside_computing_threads,
    cpus_exit_beside_faulting_threads,
    cpus_timer_of_a_computing_process,
    cpus_pipe_between,
    cpus_woken_beside_one_that_waits,
    cpus_wait_for_all,
    cpus_compute_on_all,
];

/// Runs `act` beside a thread on another CPU that never enters the kernel by itself.
fn beside_a_computing_thread(act: impl FnOnce(i32) -> Outcome, over: &AtomicBool) -> Outcome {
    let [here, there] = two()?;
    bind(0, &[here])?;
    let tid = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bound = bind(0, &[there]);
            let number = proc::gettid();
            assert!(bound.is_ok() && number != 0);
            tid.store(number as u64, SeqCst);
            while !over.load(SeqCst) {
                std::hint::spin_loop();
            }
        });
        while tid.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        act(tid.load(SeqCst) as i32)
    })
}

static HANDLED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    HANDLED.store(true, SeqCst);
}

/// tgkill(2) interrupts a thread that computes.
fn cpus_signal_a_computing_thread() -> Outcome {
    sig::handle(libc::SIGUSR1, on_signal, 0)?;
    beside_a_computing_thread(
        |tid| {
            let send = [
                proc::getpid() as usize,
                tid as usize,
                libc::SIGUSR1 as usize,
                0,
                0,
                0,
            ];
            call(libc::SYS_tgkill, send)?;
            Ok(())
        },
        // The handler lets it end.
        &HANDLED,
    )
}

/// Where the parent of computing threads says that it has seen them.
const GO: usize = 128;

/// A child whose threads compute, one on each of two CPUs, and count in words of a shared page;
/// returns when both do. Afterwards the child does `then`.
fn computing_child(words: usize, then: impl FnOnce()) -> Result<i32> {
    let Fork::Parent(pid) = proc::fork()? else {
        let cpus = two().unwrap_or_default();
        let count = |n: usize| {
            let _ = bind(0, &[cpus[n]]);
            let at = words + n * 64;
            loop {
                store(at, load(at) + 1);
            }
        };
        std::thread::scope(|scope| {
            for n in 0..2 {
                scope.spawn(move || count(n));
            }
            while load(words + GO) == 0 {
                std::thread::yield_now();
            }
            then();
        });
        proc::exit_now(99)
    };
    runs(words);
    store(words + GO, 1);
    Ok(pid)
}

/// Waits until both threads have counted on.
fn runs(words: usize) {
    for at in [words, words + 64] {
        let before = load(at);
        while load(at) == before {
            std::thread::yield_now();
        }
    }
}

fn cpus_kill_computing_threads() -> Outcome {
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let pid = computing_child(shared_page()?, || {})?;
        proc::kill(pid, signal)?;
        check_eq!(proc::wait_for(pid)?, Status::Killed(signal));
    }
    Ok(())
}

fn cpus_stop_computing_threads() -> Outcome {
    let words = shared_page()?;
    let pid = computing_child(words, || {})?;
    for _ in 0..3 {
        proc::kill(pid, libc::SIGSTOP)?;
        let stopped = proc::wait(pid, libc::WUNTRACED)?;
        check_eq!(stopped, Some((pid, Status::Stopped(libc::SIGSTOP))));
        // All threads have stopped when the parent hears of it.
        let counts = [load(words), load(words + 64)];
        let _ = time::sleep(30_000_000);
        check_eq!([load(words), load(words + 64)], counts);
        proc::kill(pid, libc::SIGCONT)?;
        check_eq!(
            proc::wait(pid, libc::WCONTINUED)?,
            Some((pid, Status::Continued))
        );
        runs(words);
    }
    proc::kill(pid, libc::SIGKILL)?;
    check_eq!(proc::wait_for(pid)?, Status::Killed(libc::SIGKILL));
    Ok(())
}

fn cpus_exit_beside_computing_threads() -> Outcome {
    let pid = computing_child(shared_page()?, || proc::exit_now(5))?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(5));
    Ok(())
}

/// exit_group(2) by one thread while the others fault in the memory that goes.
fn cpus_exit_beside_faulting_threads() -> Outcome {
    const PAGES: usize = 256;
    for _ in 0..5 {
        let end = in_child(|| {
            let at = mmap(0, PAGES * PAGE, RW, ANON, -1, 0)?;
            let rounds = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        loop {
                            store_addresses(at, at + PAGES * PAGE);
                            let _ = madvise(at, PAGES * PAGE, libc::MADV_DONTNEED);
                            rounds.fetch_add(1, SeqCst);
                        }
                    });
                }
                while rounds.load(SeqCst) < 6 {
                    std::thread::yield_now();
                }
                proc::exit_now(4)
            })
        })?;
        check_eq!(end, Status::Exited(4));
    }
    Ok(())
}

/// setitimer(2) of a process whose threads all compute.
fn cpus_timer_of_a_computing_process() -> Outcome {
    sig::count(libc::SIGALRM, 0, &[])?;
    let over = AtomicBool::new(false);
    beside_a_computing_thread(
        |_| {
            time::itimer(5_000, 5_000)?;
            while sig::seen(libc::SIGALRM) < 5 {
                std::hint::spin_loop();
            }
            time::itimer(0, 0)?;
            over.store(true, SeqCst);
            Ok(())
        },
        &over,
    )
}

/// Two processes on two CPUs that answer each other through pipes.
fn cpus_pipe_between() -> Outcome {
    const TURNS: u32 = 500;
    let [here, there] = two()?;
    let ((ask_out, ask_in), (answer_out, answer_in)) = (file::pipe(0)?, file::pipe(0)?);
    let Fork::Parent(pid) = proc::fork()? else {
        let _ = bind(0, &[there]);
        let mut bytes = [0; 4];
        for _ in 0..TURNS {
            let _ = file::read(ask_out, &mut bytes);
            let number = u32::from_ne_bytes(bytes) + 1;
            let _ = file::write_all(answer_in, &number.to_ne_bytes());
        }
        proc::exit_now(0)
    };
    bind(0, &[here])?;
    for turn in 0..TURNS {
        file::write_all(ask_in, &(turn * 3).to_ne_bytes())?;
        let mut bytes = [0; 4];
        check_eq!(file::read(answer_out, &mut bytes)?, 4);
        check_eq!(u32::from_ne_bytes(bytes), turn * 3 + 1);
    }
    check_eq!(proc::wait_for(pid)?, Status::Exited(0));
    Ok(())
}

/// A thread that is woken on a CPU whose running thread waits for something in the kernel shares
/// that CPU when the other one goes on to compute. Others keep the kernel and their CPUs busy.
fn cpus_woken_beside_one_that_waits() -> Outcome {
    const ROUNDS: u64 = 60;
    const LONG: u64 = 3_000_000_000;
    let cpus = allowed(0)?;
    let [here, there] = two()?;
    let (hear, tell) = file::pipe(0)?;
    let (calls, woken, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let busy = |cpu: usize| {
        let _ = bind(0, &[cpu]);
        while !over.load(SeqCst) {
            let _ = fs::read_to_string("/proc/self/smaps");
        }
    };
    let waits = || {
        let _ = bind(0, &[there]);
        while matches!(file::read(hear, &mut [0]), Ok(1)) {
            woken.fetch_add(1, SeqCst);
        }
    };
    let computes = || {
        let _ = bind(0, &[there]);
        for round in 1..=ROUNDS {
            calls.store(round, SeqCst);
            let _ = fs::read_to_string("/proc/self/comm");
            let mut running = time::Running::begin();
            while woken.load(SeqCst) < round {
                if running.passed() > LONG {
                    return Some(round);
                }
                time::spin(10_000);
            }
        }
        None
    };
    let late = std::thread::scope(|scope| -> Result<_> {
        scope.spawn(waits);
        for cpu in cpus.iter().filter(|cpu| **cpu != there) {
            scope.spawn(|| busy(*cpu));
        }
        let computing = scope.spawn(computes);
        bind(0, &[here])?;
        for round in 1..=ROUNDS {
            while calls.load(SeqCst) < round && !computing.is_finished() {
                std::thread::yield_now();
            }
            file::write_all(tell, b"!")?;
        }
        let late = computing.join().ok().flatten();
        over.store(true, SeqCst);
        file::close(tell)?;
        Ok(late)
    })?;
    check_eq!(late, None);
    Ok(())
}

/// Children that end on all CPUs at about the same time.
fn cpus_wait_for_all() -> Outcome {
    let cpus = allowed(0)?;
    for _ in 0..4 {
        let mut pids = Vec::new();
        for n in 0..12usize {
            match proc::fork()? {
                Fork::Child => {
                    let bound = bind(0, &[cpus[n % cpus.len()]]);
                    proc::exit_now(if bound.is_ok() { n as i32 } else { 99 })
                }
                Fork::Parent(pid) => pids.push(pid),
            }
        }
        let mut ended = vec![false; pids.len()];
        for _ in &pids {
            let ended_now = proc::wait(-1, 0)?;
            let (pid, status) = ended_now.ok_or_else(|| Stop::Fail("no child".into()))?;
            let n = pids.iter().position(|other| *other == pid);
            let n = n.ok_or_else(|| Stop::Fail(format!("child {pid} is not ours")))?;
            check_eq!(status, Status::Exited(n as i32));
            check!(!ended[n], "child {n} ended twice");
            ended[n] = true;
        }
        check_err!(proc::wait(-1, 0), ECHILD);
    }
    Ok(())
}

/// As many threads as CPUs, woken at once by others that go to sleep: soon each has a CPU of its
/// own.
fn cpus_compute_on_all() -> Outcome {
    const ROUNDS: usize = 10;
    const LONG: u64 = 20_000_000_000;
    const SHORT: u64 = 50_000_000;
    const NOWHERE: u64 = u64::MAX;
    // Elsewhere others may run beside the tests: the CPUs are not theirs alone.
    let alone = Path::new("/sys/kernel/mm/quire").exists();
    let cpus = allowed(0)?.len();
    for round in 0..ROUNDS {
        let on: Vec<_> = (0..cpus).map(|_| AtomicU64::new(NOWHERE)).collect();
        let (start, over) = (Barrier::new(cpus), AtomicBool::new(false));
        let computes = |at: &AtomicU64| {
            start.wait();
            while !over.load(SeqCst) {
                at.store(current().map_or(NOWHERE, |cpu| cpu as u64), SeqCst);
                time::spin(10_000);
            }
        };
        let apart = std::thread::scope(|scope| {
            on.iter().for_each(|at| drop(scope.spawn(|| computes(at))));
            let most = if alone { LONG } else { SHORT };
            let mut running = time::Running::begin();
            let apart = loop {
                let _ = time::sleep(2_000_000);
                let mut seen: Vec<_> = on.iter().map(|at| at.load(SeqCst)).collect();
                seen.sort_unstable();
                seen.dedup();
                let apart = seen.len() == cpus && !seen.contains(&NOWHERE);
                if apart || running.passed() > most {
                    break apart;
                }
            };
            over.store(true, SeqCst);
            apart
        });
        check!(apart || !alone, "round {round}: a CPU is idle, or runs two");
    }
    Ok(())
}
