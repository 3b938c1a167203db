//! Very many threads and signals: woken at one time, moved from one futex to another, ended by an
//! exec.
use super::{more, read_all};
use std::{fs, thread};
use userland::sys::mem::{ANON, PAGE, RW, load, mmap, store};
use userland::sys::{Result, call, proc, sig, time};

/// Threads of a case.
const THREADS: usize = 4000;

fn with_threads(
    act: impl Fn(usize) + Copy + Send + 'static,
) -> Result<Vec<thread::JoinHandle<()>>> {
    more(libc::RLIMIT_NPROC, 32768)?;
    let one = |n| {
        thread::Builder::new()
            .stack_size(16 << 10)
            .spawn(move || act(n))
    };
    Ok((0..THREADS).map(one).collect::<std::io::Result<Vec<_>>>()?)
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    for thread in threads {
        let _ = thread.join();
    }
}

/// Threads that sleep until the same time.
pub fn sleepers() -> Result<()> {
    let at = time::now() + 3_000_000_000;
    join(with_threads(move |_| {
        let _ = time::sleep(at.saturating_sub(time::now()));
    })?);
    Ok(())
}

const FUTEX_WAIT: usize = 0;
const FUTEX_WAKE: usize = 1;
const FUTEX_REQUEUE: usize = 3;

/// All wait on one word, then on another, then run.
pub fn futex() -> Result<()> {
    let at = mmap(0, PAGE, RW, ANON, -1, 0)?;
    let threads = with_threads(move |_| {
        while load(at) == 0 {
            let _ = call(libc::SYS_futex, [at, FUTEX_WAIT, 0, 0, 0, 0]);
        }
    })?;
    let _ = time::sleep(100_000_000);
    let many = THREADS * 2;
    call(libc::SYS_futex, [at, FUTEX_REQUEUE, 0, many, at + 64, 0])?;
    store(at, 1);
    call(libc::SYS_futex, [at + 64, FUTEX_WAKE, many, 0, 0, 0])?;
    join(threads);
    Ok(())
}

/// Signals to a process of many threads, which then becomes another program.
pub fn threads() -> Result<()> {
    let _threads = with_threads(|_| {
        let _ = sig::mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
        let _ = time::sleep(1_000_000_000_000);
    })?;
    let _ = time::sleep(100_000_000);
    sig::mask(libc::SIG_BLOCK, &[libc::SIGUSR1])?;
    let me = proc::getpid();
    for signal in [libc::SIGUSR1, libc::SIGCONT, libc::SIGURG] {
        proc::kill(me, signal)?;
    }
    for name in ["/proc/self/status", "/proc/self/stat"] {
        read_all(name);
    }
    for _ in fs::read_dir("/proc/self/task")? {}
    let args = ["sh", "-c", "exit 0"].map(str::to_owned);
    Err(proc::exec("/bin/sh", &args, &[]))
}

/// As many as may be queued, taken one by one.
pub fn signals() -> Result<()> {
    more(libc::RLIMIT_SIGPENDING, 1 << 20)?;
    let signal = 40;
    sig::mask(libc::SIG_BLOCK, &[signal])?;
    let me = proc::getpid();
    let mut queued = 0;
    // Without room the next one is refused.
    while queued < 200_000 && queue(me, signal).is_ok() {
        queued += 1;
    }
    for _ in 0..100 {
        sig::timed_wait(&[signal], 0)?;
    }
    println!("abuse: {queued} signals queued");
    sig::ignore(signal)
}

/// rt_sigqueueinfo with SI_QUEUE.
fn queue(pid: i32, signal: i32) -> Result<()> {
    let mut info = [0u32; 32];
    (info[0], info[2]) = (signal as u32, libc::SI_QUEUE as u32);
    let at = info.as_ptr() as usize;
    call(
        libc::SYS_rt_sigqueueinfo,
        [pid as usize, signal as usize, at, 0, 0, 0],
    )
    .map(drop)
}
