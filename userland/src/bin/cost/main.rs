//! `cost [--check]`: what a system call, a pipe round trip, a process, and a fault among many
//! mappings cost, by the monotonic clock. Under QEMU's -icount its nanoseconds are guest
//! instructions; then `--check` compares with the budgets and fails above them.
mod areas;

use userland::measuring::{Child, Line};
use userland::sys::mem::{PAGE, RW, mmap, store};
use userland::sys::{Errno, Result, call, call_bare, proc, time};

/// getpid there and back.
const GETPID: u64 = 150;
/// A byte to another process and one back.
const PIPE: u64 = 6_000;
/// fork, exit and wait, without the pages.
const FORK: u64 = 60_000;
/// A page that a fork makes one of the two copy: a trap and 512 words.
const PAGE_COPY: u64 = 2_000;

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

fn print(name: &str, value: u64, unit: &str, budget: u64, note: &str) -> bool {
    println!("{name} {value} {unit} (budget {budget}{note})");
    value <= budget
}

fn run(check: bool) -> Result<i32> {
    let counted = time::counts_instructions();
    let unit = if counted {
        "instructions"
    } else {
        "nanoseconds"
    };
    if !counted {
        println!("# not under -icount: the figures are nanoseconds, the budgets are instructions");
    }
    // Mapped but untouched memory must not cost a fork anything; some that is touched is in every
    // program.
    let at = mmap(
        0,
        64 * PAGE,
        RW,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        -1,
        0,
    )?;
    (0..8).for_each(|n| store(at + n * PAGE, 1));
    let mut good = print("getpid", getpid()?, unit, GETPID, "");
    good &= print("pipe_round_trip", pipe_round_trip()?, unit, PIPE, "");
    let (cost, pages) = fork_exit_wait()?;
    let note = format!(" = {FORK} + {pages} pages x {PAGE_COPY}");
    good &= print(
        "fork_exit_wait",
        cost,
        unit,
        FORK + pages * PAGE_COPY,
        &note,
    );
    good &= areas::run(unit)?;
    if check && !counted {
        println!("# nothing was checked");
        return Ok(2);
    }
    Ok((check && !good) as i32)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let check = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--check"] => true,
        _ => {
            eprintln!("usage: cost [--check]");
            std::process::exit(2);
        }
    };
    std::process::exit(run(check).unwrap_or_else(|e| {
        eprintln!("cost: {e}");
        1
    }));
}
