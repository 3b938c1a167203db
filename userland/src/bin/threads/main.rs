//! `threads [SECONDS] [--seed N]`: threads of one process that map, touch, fork, move, collapse and
//! unmap memory that asks for large folios, at random, in ranges that all of them share. Every page
//! names its possible writers ([`arena`]); a word that no thread can have written ends the program
//! with status 1 and says where it was.
//!
//! The seed makes the same choices in each thread; how the threads meet is up to the kernel.
mod arena;
mod counts;
mod crowd;
mod page;
mod player;

use arena::Arena;
use counts::Counts;
use player::Player;
use std::process::exit;
use userland::counters::{Missing, figure};
use userland::random::Random;
use userland::sys::mem::PAGE;
use userland::sys::{Result, call, fault, time};

/// Threads that play.
const THREADS: u8 = 8;
/// Seconds, if nothing is said.
const SECONDS: u64 = 5;
/// A line at least this often, in nanoseconds.
const PROGRESS: u64 = 10_000_000_000;

fn usage() -> ! {
    eprintln!("usage: threads [SECONDS] [--seed N]");
    exit(2);
}

/// Seconds and seed.
fn arguments() -> (u64, Option<u64>) {
    let (mut seconds, mut seed) = (None, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let (slot, value) = match word.as_str() {
            "--seed" => (&mut seed, words.next().unwrap_or_else(|| usage())),
            _ => (&mut seconds, word),
        };
        let number = value.parse().unwrap_or_else(|_| usage());
        if slot.replace(number).is_some() {
            usage();
        }
    }
    (seconds.unwrap_or(SECONDS), seed)
}

fn random_seed() -> Result<u64> {
    let mut bytes = [0u8; 4];
    let at = bytes.as_mut_ptr() as usize;
    call(libc::SYS_getrandom, [at, bytes.len(), 0, 0, 0, 0])?;
    Ok(u32::from_le_bytes(bytes).into())
}

/// A third of the memory that is left, in pages: children copy some of it, and the rest is for
/// their tables and for [`crowd`].
fn size() -> Result<usize> {
    let kb = figure("/proc/meminfo", "MemAvailable").map_err(Missing::say)?;
    Ok(kb as usize * 1024 / PAGE / 3)
}

fn run(seconds: u64, seed: u64, pages: usize) -> Counts {
    let arena = Arena::new(pages);
    let start = time::now();
    let end = start + seconds * 1_000_000_000;
    let total = Counts::default();
    let mut seeds = Random::new(seed);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let mut player = Player::new(&arena, number, seeds.bits(), &total);
            scope.spawn(move || player.play(end));
        }
        let mut next = start + PROGRESS;
        while next < end {
            // A signal ends the wait early, and the next one begins where it should.
            let _ = time::sleep(next.saturating_sub(time::now()));
            if time::now() >= next {
                println!("threads: {total}");
                next += PROGRESS;
            }
        }
    });
    total
}

fn main() {
    let (seconds, seed) = arguments();
    let seed = seed.or_else(|| random_seed().ok()).unwrap_or_else(|| {
        eprintln!("threads: the kernel gives no seed");
        exit(1)
    });
    fault::arm();
    println!("threads: seed {seed}, {THREADS} threads, {seconds} s");
    let pages = size().unwrap_or_else(|_| exit(1));
    let total = run(seconds, seed, pages);
    println!("threads: {total}");
    println!("threads: done, seed {seed}: no wrong byte");
}
