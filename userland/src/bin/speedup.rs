//! `speedup [THREADS]`: how much sooner threads that only compute are done than one thread with the
//! work of all. With enough CPUs, and nothing else on them, as many times as there are threads.
//! Prints `speedup: N threads, R.RR times`, the best of a few tries.
use std::process::exit;
use userland::sys::time;

/// Instructions of each thread: a few tenths of a second in an emulator.
const WORK: u64 = 400_000_000;
/// The machine may have other things to do in one of them.
const TRIES: usize = 4;

/// Nanoseconds for the work of so many threads.
fn takes(threads: u64, each: u64) -> u64 {
    let start = time::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| time::spin(each / 2));
        }
    });
    time::now() - start
}

fn main() {
    let threads = match std::env::args().nth(1).map(|word| word.parse()) {
        None => 4,
        Some(Ok(threads @ 1..=64)) => threads,
        Some(_) => {
            eprintln!("usage: speedup [THREADS], 1 to 64");
            exit(2);
        }
    };
    let ratio = |_| takes(1, WORK * threads) as f64 / takes(threads, WORK) as f64;
    let best = (0..TRIES).map(ratio).fold(0.0, f64::max);
    println!("speedup: {threads} threads, {best:.2} times");
}
