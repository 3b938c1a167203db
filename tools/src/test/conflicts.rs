//! Faults in other page tables and in other spaces, and calls that touch no memory, have no cache
//! line for which two CPUs contend, but for those that are named here.
use super::Job;
use crate::arch::Arch;
use crate::build::Built;
use crate::conflicts::{self, Cell, Found};
use crate::qemu::plugin;
use crate::test::outcome::Outcome;
use anyhow::{Result, ensure};

/// The operations.
const OPS: [&str; 4] = ["read", "write", "futex", "getpid"];
/// Where the second one is; how many pairs there are.
const PLACES: [(&str, usize); 2] = [("other-2m", 6), ("other-space", 10)];

/// The objects that may be in conflict at a place, by the beginning of their names.
const EXPECTED: [(&str, &str); 3] = [
    // The lock of a page table is in the frame's metadata, of which a line has two: tables that
    // were allocated one after the other share it.
    ("other-2m", "lock: lock_table"),
    // futex counts a reference to the space.
    ("other-2m", "SpaceRef::get"),
    // A thread's times lie behind the space in the heap, in its last line.
    ("other-2m", "Times::attribute"),
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
    let unexpected: Vec<String> = cells.iter().flat_map(unexpected).collect();
    Ok(match unexpected.is_empty() {
        true => Outcome::Passed,
        false => Outcome::Failed(unexpected.join("\n")),
    })
}

/// The objects of a cell that are not expected there.
fn unexpected(cell: &Cell) -> Vec<String> {
    let Found::Lines(lines) = &cell.found else {
        return Vec::new();
    };
    let may_be = |object: &str| {
        let mut all = EXPECTED.iter();
        all.any(|(place, name)| cell.place == *place && object.starts_with(name))
    };
    let [first, second] = &cell.ops;
    let others = lines.iter().filter(|line| !may_be(&line.object));
    others
        .map(|line| format!("{first} {second} {}: {}", cell.place, line.object))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Side;
    use crate::conflicts::Line;
    use measure::lines::Use;

    #[test]
    fn only_what_is_named_is_expected() {
        let line = |object: &str| Line {
            object: object.to_owned(),
            at: 0,
            uses: [Use::default(); 2],
        };
        let mut cell = Cell {
            arch: Arch::X86_64,
            side: Side::Quire,
            ops: ["read".to_owned(), "write".to_owned()],
            place: "other-2m".to_owned(),
            found: Found::Lines(vec![line("lock: lock_table (x.rs:1)"), line("COUNT")]),
        };
        assert_eq!(unexpected(&cell), ["read write other-2m: COUNT"]);
        "other-space".clone_into(&mut cell.place);
        assert_eq!(unexpected(&cell).len(), 2);
    }
}
