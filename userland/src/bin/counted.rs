//! `counted [ROUNDS [CPUS]]`: plays rounds of instructions that are all known between two marks,
//! named `counted`, and says what is to be counted of the program itself, and where the lines are:
//! `counted: N instructions, N loads, N stores, N atomics; lines at ADDRESS`. With CPUS it does so
//! on each of so many, one after the other.
use std::process::exit;
use userland::marks::{self, Marks};
use userland::sys::counted::{self, ROUND};
use userland::sys::{Result, cpus, mem};

fn main() {
    let (Some(rounds), Some(cpus)) = (number(1, 1000, 1_000_000_000), number(2, 0, 1024)) else {
        eprintln!("usage: counted [ROUNDS [CPUS]], 1 to 1000000000 and 1 to 1024");
        exit(2);
    };
    if let Err(error) = play(rounds, cpus as usize) {
        eprintln!("counted: {error}");
        exit(1);
    }
}

/// An argument, if it is in range; `default` when it is not there.
fn number(at: usize, default: u64, most: u64) -> Option<u64> {
    let Some(word) = std::env::args().nth(at) else {
        return Some(default);
    };
    word.parse()
        .ok()
        .filter(|number| (1..=most).contains(number))
}

fn play(rounds: u64, each_of: usize) -> Result<()> {
    let page = mem::anon(1)?;
    // The name stays in the page of marks; what is measured here is dropped.
    let marks = Marks::map()?;
    marks.begin("counted");
    marks.forget();
    if each_of == 0 {
        counted::play(marks::ADDRESS, page, rounds);
    }
    for cpu in 0..each_of {
        cpus::bind(0, &[cpu])?;
        counted::play(marks::ADDRESS, page, rounds);
    }
    let [instructions, loads, stores, atomics] = ROUND.map(|count| count * rounds);
    println!(
        "counted: {instructions} instructions, {loads} loads, {stores} stores, {atomics} atomics; \
         lines at {page:#x}"
    );
    Ok(())
}
