//! What the command line asks for.
use crate::table::{OPS, PAGES};
use userland::measuring::{self, SIZES, list, word};

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

/// Reads options and their values; what cannot be is a usage error.
pub fn read() -> Plan {
    let default = OPS.iter().filter(|op| op.by_default);
    let mut plan = Plan {
        ops: default.map(|op| op.name.to_owned()).collect(),
        sizes: SIZES.to_vec(),
        pages: PAGES,
        by_pmd: false,
        watched: false,
        marks: false,
    };
    let usage = format!(
        "bench [--op A,B] [--size N,M] [--pages N] [--mapped pte|pmd] [--marks yes] [--watched yes]\n       \
         bench --list\noperations: {}\npages: a multiple of 512",
        OPS.map(|op| op.name).join(" ")
    );
    measuring::options(&usage, |option, value| {
        match option {
            "--op" => plan.ops = list(value, |name: &String| OPS.iter().any(|op| op.name == name))?,
            "--size" => plan.sizes = measuring::sizes(value)?,
            "--pages" => plan.pages = value.parse().ok().filter(|n| n % 512 == 0 && *n > 0)?,
            "--mapped" => plan.by_pmd = word(value, "pmd", "pte")?,
            "--marks" => plan.marks = word(value, "yes", "no")?,
            "--watched" => plan.watched = word(value, "yes", "no")?,
            _ => return None,
        }
        Some(())
    });
    plan
}
