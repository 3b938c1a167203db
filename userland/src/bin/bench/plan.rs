//! What the command line asks for.
use crate::table::{OPS, PAGES, SIZES};
use std::process::exit;

/// What is to be measured, and how.
pub struct Plan {
    pub ops: Vec<String>,
    /// Folio sizes in kB.
    pub sizes: Vec<usize>,
    /// Of the regions.
    pub pages: usize,
    /// Whether folios of 2 MiB stay mapped by PMDs where an operation has both.
    pub by_pmd: bool,
    /// Whether the second pass waits for a key around what is measured.
    pub watched: bool,
    /// Whether the second pass marks what is measured.
    pub marks: bool,
}

fn usage(problem: &str) -> ! {
    let names: Vec<&str> = OPS.iter().map(|op| op.name).collect();
    eprintln!(
        "bench: {problem}\nusage: bench [--op A,B] [--size N,M] [--pages N] [--mapped pte|pmd] [--marks yes] [--watched yes]\n       \
         bench --list\noperations: {}\nsizes (kB): {SIZES:?}",
        names.join(" ")
    );
    exit(2)
}

/// Reads options and their values; what cannot be is a usage error.
pub fn read(mut args: impl Iterator<Item = String>) -> Plan {
    let default = OPS.iter().filter(|op| op.by_default);
    let mut plan = Plan {
        ops: default.map(|op| op.name.to_owned()).collect(),
        sizes: SIZES.to_vec(),
        pages: PAGES,
        by_pmd: false,
        watched: false,
        marks: false,
    };
    while let Some(option) = args.next() {
        match args.next() {
            Some(value) => take(&mut plan, &option, &value),
            None => usage(&format!("{option} wants a value")),
        }
    }
    let known = |name: &String| OPS.iter().any(|op| op.name == name);
    if let Some(name) = plan.ops.iter().find(|name| !known(name)) {
        usage(&format!("there is no operation {name}"));
    }
    if plan.sizes.iter().any(|size| !SIZES.contains(size)) {
        usage("there is no folio of that size");
    }
    plan
}

fn take(plan: &mut Plan, option: &str, value: &str) {
    match option {
        "--op" => plan.ops = value.split(',').map(str::to_owned).collect(),
        "--size" => match value.split(',').map(str::parse).collect() {
            Ok(sizes) => plan.sizes = sizes,
            Err(_) => usage("a size is a number of kB"),
        },
        "--pages" => match value.parse() {
            Ok(pages) if pages % 512 == 0 && pages > 0 => plan.pages = pages,
            _ => usage("a number of pages is a multiple of 512"),
        },
        "--mapped" => plan.by_pmd = word(option, value, "pmd", "pte"),
        "--marks" => plan.marks = word(option, value, "yes", "no"),
        "--watched" => plan.watched = word(option, value, "yes", "no"),
        _ => usage(&format!("what is {option}?")),
    }
}

/// Which of the two words an option has.
fn word(option: &str, value: &str, this: &str, other: &str) -> bool {
    if value != this && value != other {
        usage(&format!("{option} is {this} or {other}"));
    }
    value == this
}
