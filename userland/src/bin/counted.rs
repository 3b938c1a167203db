//! `counted [ROUNDS]`: plays rounds of instructions that are all known between two marks, named
//! `counted`, and says what is to be counted of the program itself, and where the lines are:
//! `counted: N instructions, N loads, N stores, N atomics; lines at ADDRESS`.
use std::process::exit;
use userland::marks::{self, Marks};
use userland::sys::counted::{self, ROUND};
use userland::sys::{Result, mem};

fn main() {
    let rounds = match std::env::args().nth(1).map(|word| word.parse()) {
        None => 1000,
        Some(Ok(rounds @ 1..=1_000_000_000)) => rounds,
        Some(_) => {
            eprintln!("usage: counted [ROUNDS], 1 to 1000000000");
            exit(2);
        }
    };
    if let Err(error) = play(rounds) {
        eprintln!("counted: {error}");
        exit(1);
    }
}

fn play(rounds: u64) -> Result<()> {
    let page = mem::anon(1)?;
    // The name stays in the page of marks; what is measured here is dropped.
    let marks = Marks::map()?;
    marks.begin("counted");
    marks.forget();
    counted::play(marks::ADDRESS, page, rounds);
    let [instructions, loads, stores, atomics] = ROUND.map(|count| count * rounds);
    println!(
        "counted: {instructions} instructions, {loads} loads, {stores} stores, {atomics} atomics; \
         lines at {page:#x}"
    );
    Ok(())
}
