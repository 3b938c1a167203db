//! The cells as a table for each place, and what the lines are of.
use super::cell::{Cell, Found};
use super::{OPS, PLACES};
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
    let lines = |cell: &&Cell| match &cell.found {
        Found::Lines(lines) => Some(lines.len()),
        _ => None,
    };
    let all: Vec<usize> = cells.iter().filter_map(lines).collect();
    let free = all.iter().filter(|lines| **lines == 0).count();
    format!("{free} of {} free", all.len())
}

/// A row for each second operation, a column for each first: `.` is free, a number says how many
/// lines conflict, `!` is a cell that failed.
fn matrix(text: &mut String, cells: &[&Cell]) {
    let columns: Vec<&str> = used(cells, 0);
    let _ = write!(text, "{:>9}", "");
    for op in &columns {
        let _ = write!(text, " {:>4}", &op[..op.len().min(4)]);
    }
    text.push('\n');
    for row in used(cells, 1) {
        let _ = write!(text, "{row:>9}");
        let mut line = String::new();
        for column in &columns {
            let is = |cell: &&&Cell| cell.ops[0] == *column && cell.ops[1] == row;
            let shown = cells
                .iter()
                .find(is)
                .map_or(String::new(), |cell| match &cell.found {
                    Found::Lines(lines) if lines.is_empty() => ".".to_owned(),
                    Found::Lines(lines) => lines.len().to_string(),
                    Found::Absent(_) => String::new(),
                    Found::Failed(_) => "!".to_owned(),
                });
            let _ = write!(line, " {shown:>4}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push('\n');
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

/// An object, and the cells that contend for it.
struct Row<'a> {
    object: &'a str,
    cells: Vec<&'a Cell>,
    /// Of so many it is the only one: they would be free without.
    alone: usize,
}

/// What the lines are of, most cells first.
fn objects(text: &mut String, cells: &[&Cell]) {
    let rows = rows(cells);
    if !rows.is_empty() {
        let _ = writeln!(text, "{:>5} {:>5}  object", "cells", "alone");
    }
    for row in rows.iter().take(MOST) {
        let Row {
            object,
            cells,
            alone,
        } = row;
        let _ = writeln!(text, "{:>5} {alone:>5}  {object}", cells.len());
    }
    if rows.len() > MOST {
        let more = rows.len() - MOST;
        let _ = writeln!(text, "and {more} more: --json has them all");
    }
}

fn rows<'a>(cells: &[&'a Cell]) -> Vec<Row<'a>> {
    let mut all: BTreeMap<&str, Row<'_>> = BTreeMap::new();
    for cell in cells {
        let Found::Lines(lines) = &cell.found else {
            continue;
        };
        let objects: BTreeSet<&str> = lines.iter().map(|line| &*line.object).collect();
        for object in &objects {
            let row = all.entry(object).or_insert(Row {
                object,
                cells: Vec::new(),
                alone: 0,
            });
            row.cells.push(cell);
            row.alone += usize::from(objects.len() == 1);
        }
    }
    let mut rows: Vec<_> = all.into_values().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.cells.len()), row.object));
    rows
}

#[cfg(test)]
mod tests {
    use super::super::cell::Line;
    use super::*;
    use counts::lines::Use;

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
        let line = |object: &&str| Line {
            object: (*object).to_owned(),
            at: 0,
            uses: [Use::default(); 2],
        };
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
          read fork
     read    .
     fork    3    1

Quire on x86_64, the same page: 0 of 0 free
          read
     read    !

Quire on x86_64: 1 of 3 free
cells alone  object
    2     1  LOCK
    1     0  COUNT
read read page: failed: EIO

";
        assert_eq!(text, expected);
    }
}
