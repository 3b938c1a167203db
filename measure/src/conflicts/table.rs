//! The cells as a table for each place, and what the lines are of.
use super::cell::{Cell, Found};
use super::{OPS, PLACES};
use crate::columns::aligned;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tools::args::Side;
use tools::host::arch::Arch;

/// Everything, by machine and kernel.
pub fn render(cells: &[Cell]) -> String {
    let mut text = String::new();
    for arch in Arch::ALL {
        for side in Side::ALL {
            let of = |cell: &&Cell| cell.arch == arch && cell.side == side;
            let cells: Vec<&Cell> = cells.iter().filter(of).collect();
            if !cells.is_empty() {
                kernel(&mut text, &format!("{} on {arch}", side.title()), &cells);
            }
        }
    }
    text
}

fn kernel(text: &mut String, title: &str, cells: &[&Cell]) {
    for (place, words) in PLACES {
        let here: Vec<&Cell> = of_place(cells, place);
        if here
            .iter()
            .any(|cell| !matches!(cell.found, Found::Absent(_)))
        {
            let _ = writeln!(text, "{title}, {words}: {}", free(&here));
            matrix(text, &here);
        }
    }
    let _ = writeln!(text, "{title}: {}", free(cells));
    objects(text, cells);
    for cell in cells {
        if let Found::Failed(why) = &cell.found {
            let [first, second] = &cell.ops;
            let _ = writeln!(text, "{first} {second} {}: {why}", cell.place);
        }
    }
    text.push('\n');
}

fn of_place<'a>(cells: &[&'a Cell], place: &str) -> Vec<&'a Cell> {
    let is = |cell: &&&Cell| cell.place == place;
    cells.iter().filter(is).copied().collect()
}

/// How many cells are free, of how many.
fn free(cells: &[&Cell]) -> String {
    let all: Vec<_> = cells
        .iter()
        .filter_map(|cell| cell.objects().ok())
        .collect();
    let free = all.iter().filter(|objects| objects.is_empty()).count();
    format!("{free} of {} free", all.len())
}

/// A row for each second operation, a column for each first: `.` is free, a number says how many
/// lines conflict, `!` is a cell that failed.
fn matrix(text: &mut String, cells: &[&Cell]) {
    let columns = used(cells, 0);
    let shown = |ops: [&str; 2]| {
        let cell = cells.iter().find(|cell| cell.ops == ops);
        match cell.map(|cell| &cell.found) {
            Some(Found::Lines(lines)) if lines.is_empty() => ".".to_owned(),
            Some(Found::Lines(lines)) => lines.len().to_string(),
            Some(Found::Failed(_)) => "!".to_owned(),
            Some(Found::Absent(_)) | None => String::new(),
        }
    };
    let heads = columns.iter().map(|op| op[..op.len().min(4)].to_owned());
    let heads = [String::new()].into_iter().chain(heads);
    let mut rows = vec![(heads.collect(), String::new())];
    rows.extend(used(cells, 1).into_iter().map(|row| {
        let cells = columns.iter().map(|column| shown([column, row]));
        let cells = [row.to_owned()].into_iter().chain(cells);
        (cells.collect(), String::new())
    }));
    *text += &(aligned(&rows) + "\n");
}

/// The operations that were first, or second, in the order of all.
fn used(cells: &[&Cell], which: usize) -> Vec<&'static str> {
    let is_there = |cell: &&&Cell| !matches!(cell.found, Found::Absent(_));
    let used: BTreeSet<&str> = (cells.iter().filter(is_there))
        .map(|cell| cell.ops[which].as_str())
        .collect();
    OPS.into_iter().filter(|op| used.contains(op)).collect()
}

/// How many objects are listed.
const MOST: usize = 32;

/// What the lines are of, most cells first: of so many each is the only object, and they would be
/// free without.
fn objects(text: &mut String, cells: &[&Cell]) {
    let mut all: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for cell in cells {
        let objects = BTreeSet::from_iter(cell.objects().unwrap_or_default());
        for object in &objects {
            let [cells, alone] = all.entry(object).or_default();
            *cells += 1;
            *alone += usize::from(objects.len() == 1);
        }
    }
    let mut all = Vec::from_iter(all);
    all.sort_by_key(|(_, [cells, _])| Reverse(*cells));
    if !all.is_empty() {
        let _ = writeln!(text, "{:>5} {:>5}  object", "cells", "alone");
    }
    for (object, [cells, alone]) in all.iter().take(MOST) {
        let _ = writeln!(text, "{cells:>5} {alone:>5}  {object}");
    }
    if all.len() > MOST {
        let more = all.len() - MOST;
        let _ = writeln!(text, "and {more} more: --json has them all");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cell(first: &str, second: &str, place: &str, found: Found) -> Cell {
        Cell {
            arch: Arch::X86_64,
            side: Side::Quire,
            ops: [first.to_owned(), second.to_owned()],
            place: place.to_owned(),
            found,
        }
    }

    fn lines(objects: &[&str]) -> Found {
        let line = |object: &&str| json!({"object": object});
        Found::Lines(objects.iter().map(line).collect())
    }

    #[test]
    fn a_matrix_and_the_objects() {
        let cells = [
            cell("read", "read", "other-2m", lines(&[])),
            cell(
                "read",
                "fork",
                "other-2m",
                lines(&["LOCK", "LOCK", "COUNT"]),
            ),
            cell("fork", "fork", "other-2m", lines(&["LOCK"])),
            cell("exit", "exit", "other-2m", Found::Absent("no".to_owned())),
            cell(
                "read",
                "read",
                "page",
                Found::Failed("failed: EIO".to_owned()),
            ),
        ];
        let text = render(&cells);
        let expected = "\
Quire on x86_64, other 2 MiB of the same area: 1 of 3 free
      read  fork
read     .
fork     3     1

Quire on x86_64, the same page: 0 of 0 free
      read
read     !

Quire on x86_64: 1 of 3 free
cells alone  object
    2     1  LOCK
    1     0  COUNT
read read page: failed: EIO

";
        assert_eq!(text, expected);
    }
}
