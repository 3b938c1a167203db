//! What the programs that measure have in common: their options, the lines around their cells, the
//! sizes of folios.
use crate::controls::Controls;
use crate::counters::on_quire;
use crate::sys::{Result, time};
use std::fs;
use std::process::exit;
use std::str::FromStr;

/// Folio sizes in kB, those of Linux's controls; 4 is "all others never".
pub const SIZES: [usize; 9] = [4, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// Gives each option of the command line and its value to `take`. One that it refuses ends the
/// program, with the usage.
pub fn options(usage: &str, mut take: impl FnMut(&str, &str) -> Option<()>) {
    let words: Vec<String> = std::env::args().skip(1).collect();
    for pair in words.chunks(2) {
        let taken = match pair {
            [name, value] => take(name, value),
            _ => None,
        };
        if taken.is_none() {
            eprintln!(
                "cannot do {}\nusage: {usage}\nsizes (kB): {SIZES:?}",
                pair.join(" ")
            );
            exit(2);
        }
    }
}

/// The values behind an option, with commas between, if each of them will do.
pub fn list<T: FromStr>(text: &str, known: impl Fn(&T) -> bool) -> Option<Vec<T>> {
    let values: Option<Vec<T>> = text.split(',').map(|word| word.parse().ok()).collect();
    values.filter(|values| values.iter().all(known))
}

/// Folio sizes behind an option.
pub fn sizes(text: &str) -> Option<Vec<usize>> {
    list(text, |size| SIZES.contains(size))
}

/// Which of two words an option has.
pub fn word(text: &str, this: &str, other: &str) -> Option<bool> {
    (text == this || text == other).then_some(text == this)
}

/// What times are measured in.
pub fn unit() -> &'static str {
    match time::counts_instructions() {
        true => "guest instructions",
        false => "nanoseconds",
    }
}

/// Has the kernel use folios of so many kB alone; says so where it has none.
pub fn only(controls: &Controls, kb: usize) -> Result<bool> {
    let has = controls.only(kb)?;
    if !has {
        println!("{{\"skipped\":{kb},\"why\":\"this kernel has no folios of {kb} kB\"}}");
    }
    Ok(has)
}

/// Measures, between the line that begins and the one that says how many cells were printed. An
/// error ends the program.
pub fn run(program: &str, instructions: bool, measure: impl FnOnce() -> Result<usize>) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!(
        "{{\"begin\":true,\"quire\":{},\"release\":\"{}\",\"instructions\":{instructions},\"size_controls\":{}}}",
        on_quire(),
        release.trim(),
        Controls::take().each_size()
    );
    match measure() {
        Ok(cells) => println!("{{\"done\":true,\"cells\":{cells}}}"),
        Err(error) => {
            eprintln!("{program}: {error}");
            exit(1);
        }
    }
}
