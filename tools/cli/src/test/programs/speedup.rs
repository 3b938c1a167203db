//! Whether threads that compute are quicker on several CPUs than one thread is.
use super::{LIMIT, skipped};
use anyhow::Result;
use std::time::{Duration, Instant};
use tools::host::outcome::Outcome;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

/// By how much at least: on two CPUs of the host it is about 2.
const SPEEDUP: f64 = 1.3;
/// What two threads of the host's own must have: else others use its CPUs.
const OF_HOST: f64 = 1.6;

/// Boots `speedup` on a machine with several CPUs, with no other machine beside it.
pub fn check(mut machine: Machine) -> Result<Outcome> {
    if std::thread::available_parallelism()?.get() < 2 {
        return skipped("one CPU on this host: several of a guest are no quicker");
    }
    machine.alone = true;
    machine.command_line = format!("quiet -- speedup {}", machine.smp);
    let boot = console::boot(&machine, LIMIT)?;
    let words = boot.text.lines().find(|line| line.starts_with("speedup: "));
    let times = words.and_then(|line| line.split_whitespace().rev().nth(1)?.parse().ok());
    if boot.end == End::Status(0) && times.is_some_and(|times: f64| times >= SPEEDUP) {
        return Ok(Outcome::Passed);
    }
    if boot.end == End::Status(0) && times.is_some() {
        let host = of_host();
        if host < OF_HOST {
            return skipped(&format!(
                "two threads of this host are no more than {host:.2} times as quick as one: it is busy"
            ));
        }
    }
    Ok(Outcome::Failed(format!(
        "less than {SPEEDUP} times, or ended with {:?}\n{}",
        boot.end, boot.text
    )))
}

/// The worst of a few tries: the host was not idle if it is not idle now.
fn of_host() -> f64 {
    let ratio = |_| takes(1, 2).as_secs_f64() / takes(2, 1).as_secs_f64();
    (0..3).map(ratio).fold(f64::INFINITY, f64::min)
}

/// Time for so many threads with so much work each.
fn takes(threads: u64, work: u64) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                (0..work * 100_000_000).for_each(|n| {
                    std::hint::black_box(n);
                })
            });
        }
    });
    start.elapsed()
}
