//! Faults in other page tables and in other spaces, calls there that have the space's lock as
//! readers, and calls that touch no memory, have no cache line for which two CPUs contend, but for
//! those that are named here.
use super::job::Job;
use anyhow::{Result, ensure};
use measure::conflicts::{self, Cell, Found};
use std::collections::BTreeSet;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::qemu::plugin;

/// The operations.
const OPS: [&str; 8] = [
    "read", "write", "cow", "reuse", "futex", "getpid", "populate", "dontneed",
];
/// Where the second one is; how many pairs there are.
const PLACES: [(&str, usize); 2] = [("other-2m", 28), ("other-space", 36)];

/// An object that may be in conflict.
struct Expected {
    place: &'static str,
    /// One of the operations is one of these.
    ops: &'static [&'static str],
    /// The beginning of its name.
    object: &'static str,
    /// In how many cells it may be.
    most: usize,
}

const EXPECTED: [Expected; 2] = [
    // x86_64 has no broadcast: a flush leaves a request in the line of each CPU that may have the
    // space in its TLB.
    Expected {
        place: "other-2m",
        ops: &["cow", "dontneed"],
        object: "arch_x86_64::machine::tlb::SIDES",
        most: 13,
    },
    // Two frames have their metadata in one line. Where what one space got ends and what the other
    // got begins, they may be neighbours.
    Expected {
        place: "other-space",
        ops: &["write", "cow", "reuse", "populate", "dontneed"],
        object: "frame metadata",
        most: 1,
    },
];

/// Runs the case of one architecture.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) {
    job.case(
        format!("user.{arch}.conflicts.faults"),
        || match plugin::missing(arch)? {
            Some(why) => Ok(Outcome::Skipped(why)),
            None => faults(arch, built),
        },
    );
}

fn faults(arch: Arch, built: &Built) -> Result<Outcome> {
    let places = PLACES.map(|(place, _)| place);
    let cells = conflicts::with_built(arch, built, &OPS, &places)?;
    for (place, pairs) in PLACES {
        let is_measured = |cell: &&Cell| matches!(cell.found, Found::Lines(_));
        let here = cells.iter().filter(|cell| cell.place == place);
        let measured = here.filter(is_measured).count();
        ensure!(measured == pairs, "{measured} pairs at {place}: {cells:#?}");
    }
    let unexpected = unexpected(&cells);
    Ok(match unexpected.is_empty() {
        true => Outcome::Passed,
        false => Outcome::Failed(unexpected.join("\n")),
    })
}

/// The objects that are in conflict where they are not expected, or more often, each with its pair.
fn unexpected(cells: &[Cell]) -> Vec<String> {
    let mut left = EXPECTED.map(|one| one.most);
    let mut found = Vec::new();
    for cell in cells {
        let [first, second] = &cell.ops;
        for object in BTreeSet::from_iter(cell.objects().unwrap_or_default()) {
            let is_it = |one: &Expected| {
                let ops = [first.as_str(), second.as_str()];
                one.place == cell.place
                    && object.starts_with(one.object)
                    && ops.iter().any(|op| one.ops.contains(op))
            };
            match EXPECTED.iter().position(is_it) {
                Some(which) if left[which] > 0 => left[which] -= 1,
                _ => found.push(format!("{first} {second} {}: {object}", cell.place)),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tools::args::Side;

    #[test]
    fn only_what_is_named_is_expected() {
        let cell = |ops: [&str; 2], place: &str, objects: &[&str]| Cell {
            arch: Arch::X86_64,
            side: Side::Quire,
            ops: ops.map(str::to_owned),
            place: place.to_owned(),
            found: Found::Lines(objects.iter().map(|one| json!({"object": one})).collect()),
        };
        let sides = EXPECTED[0].object;
        let one = cell(["read", "cow"], "other-2m", &[sides, "COUNT"]);
        assert_eq!(unexpected(&[one]), ["read cow other-2m: COUNT"]);
        let other = cell(["read", "write"], "other-2m", &[sides]);
        let space = cell(["read", "cow"], "other-space", &[sides]);
        assert_eq!(unexpected(&[other, space]).len(), 2);
        // One cell more than may be.
        let often = |_| cell(["read", "cow"], "other-2m", &[sides]);
        let often: Vec<Cell> = (0..=EXPECTED[0].most).map(often).collect();
        assert_eq!(unexpected(&often).len(), 1);
    }
}
