//! `cost`: what a system call, a pipe round trip and a process cost, by the monotonic clock, whose
//! nanoseconds are guest instructions under QEMU's -icount. One JSON line for each, which
//! `./run.sh bench --op cost` holds against its budget.
use userland::measuring::{self, Child, Line};
use userland::sys::mem::{PAGE, RW, mmap, store};
use userland::sys::{Errno, Result, call, call_bare, proc, time};

/// The least of a few runs: an interrupt of the timer falls into some, not into all.
fn fastest(mut run: impl FnMut() -> Result<()>) -> Result<u64> {
    let mut best = u64::MAX;
    for _ in 0..5 {
        let start = time::now();
        run()?;
        best = best.min(time::now() - start);
    }
    Ok(best)
}

/// The same, of so many rounds, per round.
fn least(rounds: u64, mut round: impl FnMut() -> Result<()>) -> Result<u64> {
    Ok(fastest(|| (0..rounds).try_for_each(|_| round()))? / rounds)
}

fn getpid() -> Result<u64> {
    const ROUNDS: u64 = 1000;
    let rounds = || (0..ROUNDS as usize).map(std::hint::black_box);
    let empty = fastest(|| {
        rounds().for_each(drop);
        Ok(())
    })?;
    let full = fastest(|| {
        rounds().for_each(|_| _ = call_bare(libc::SYS_getpid as usize, [0; 6]));
        Ok(())
    })?;
    Ok(full.saturating_sub(empty) / ROUNDS)
}

fn pipe_round_trip() -> Result<u64> {
    let child = Child::start(Line::echo)?;
    let cost = least(200, || child.line.round_trip())?;
    child.end()?;
    Ok(cost)
}

/// fork+exit+wait, and the pages both sides had to copy for it.
fn fork_exit_wait() -> Result<(u64, u64)> {
    let round = || {
        // The bare call: no library's work before and after.
        match call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0])? {
            0 => {
                call_bare(libc::SYS_exit_group as usize, [0; 6]);
                Err(Errno(libc::EIO))
            }
            pid => proc::wait(pid as i32, 0).map(|_| ()),
        }
    };
    let faults = || -> Result<u64> {
        let of = |who| proc::rusage(who).map(|u| u.minor_faults);
        Ok(of(libc::RUSAGE_SELF)? + of(libc::RUSAGE_CHILDREN)?)
    };
    round()?;
    let before: u64 = faults()?;
    let cost = least(20, round)?;
    Ok((cost, (faults()? - before) / 100))
}

fn all() -> Result<usize> {
    // Mapped but untouched memory must not cost a fork anything; some that is touched is in every
    // program.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let at = mmap(0, 64 * PAGE, RW, flags, -1, 0)?;
    (0..8).for_each(|n| store(at + n * PAGE, 1));
    let (getpid, pipe) = (getpid()?, pipe_round_trip()?);
    let (fork, copied) = fork_exit_wait()?;
    for (name, whole, copied) in [
        ("getpid", getpid, 0),
        ("pipe_round_trip", pipe, 0),
        ("fork_exit_wait", fork, copied),
    ] {
        println!(
            "{{\"op\":\"cost/{name}\",\"folio_kb\":0,\"whole\":{whole},\"pages_copied\":{copied}}}"
        );
    }
    Ok(3)
}

fn main() {
    if std::env::args().len() > 1 {
        eprintln!("usage: cost");
        std::process::exit(2);
    }
    measuring::run(time::counts_instructions(), all);
}
