//! `./run.sh house`: the structure of the kernel's source in numbers, and the width of its
//! comments.
//!
//! The numbers are to be compared before and after a change of structure: `count` documents what
//! each of them counts.
mod comments;
mod count;
mod public;
pub(crate) mod source;

use crate::arch::Arch;
use crate::args::HouseArgs;
use crate::workspace;
use anyhow::{Context, Result};
use count::{Found, LARGE};
use object::{Object, ObjectSection};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;

/// The memory manager's source, and that of the kernel around it.
const FOLDERS: [&str; 2] = ["kernel/mm/src", "kernel/src"];

/// Prints the table, or with `--check` the comments that are too wide: then the status is 1.
pub fn house(args: &HouseArgs) -> Result<u8> {
    if args.check {
        return check();
    }
    let json = args.json.as_deref();
    let json = json
        .map(|path| workspace::writable("--json", path))
        .transpose()?;
    let rows = rows()?;
    print!("{}", table(&rows));
    if args.list {
        print!("{}", list(&rows));
    }
    if let Some(path) = json {
        let rows = rows.iter().map(|row| (row.name.clone(), row.json()));
        let text = serde_json::to_string_pretty(&rows.collect::<serde_json::Map<_, _>>())?;
        workspace::replace(&path, |new| Ok(fs::write(new, text + "\n")?))?;
    }
    Ok(0)
}

fn check() -> Result<u8> {
    let wide = comments::wide(workspace::root())?;
    for one in &wide {
        println!("{one}");
    }
    eprintln!(
        "run.sh: {} comments are wider than {} columns",
        wide.len(),
        comments::WIDTH
    );
    Ok(u8::from(!wide.is_empty()))
}

/// A number of each folder, with the places that it counts where there are few.
struct Row {
    name: String,
    cells: [Option<Cell>; 2],
}

struct Cell {
    number: u64,
    /// What is counted, or what has the number.
    places: Vec<String>,
}

impl Cell {
    fn places(places: &[String]) -> Cell {
        Cell {
            number: places.len() as u64,
            places: places.to_vec(),
        }
    }
    fn number(number: usize) -> Cell {
        Cell {
            number: number as u64,
            places: Vec::new(),
        }
    }
}

impl Row {
    fn json(&self) -> Value {
        let cells = FOLDERS.iter().zip(&self.cells);
        let cells = cells.filter_map(|(folder, cell)| {
            let cell = cell.as_ref()?;
            let value = json!({"number": cell.number, "places": cell.places});
            Some(((*folder).to_owned(), value))
        });
        Value::Object(cells.collect())
    }
}

fn rows() -> Result<Vec<Row>> {
    let [mm, kernel] = FOLDERS.map(|folder| source::read(&workspace::root().join(folder)));
    let (mm, kernel) = (mm?, kernel?);
    let found = [count::count(&mm), count::count(&kernel)];
    let row = |name: &str, cell: fn(&Found) -> Cell| Row {
        name: name.to_owned(),
        cells: found.each_ref().map(|found| Some(cell(found))),
    };
    let mut rows = vec![
        row("parameters that are `&Mm`", |found| Cell::places(&found.mm)),
        row("parameters that are `&mut Gather`", |found| {
            Cell::places(&found.gather)
        }),
        row("parameters that are tuples", |found| {
            Cell::places(&found.tuples)
        }),
        row("descents by hand", |found| Cell::places(&found.descents)),
        row("lines without tests", |found| Cell::number(found.lines)),
        row(&format!("files over {LARGE} lines"), |found| {
            Cell::places(&found.large)
        }),
        row("lines of the largest function", |found| Cell {
            number: found.largest.0 as u64,
            places: vec![found.largest.1.clone()],
        }),
        Row {
            name: "`pub` items".to_owned(),
            cells: [Some(Cell::number(public::count(&mm))), None],
        },
    ];
    rows.push(Row {
        name: "upward arrows".to_owned(),
        cells: [None, Some(Cell::places(&upward_arrows()?))],
    });
    for arch in Arch::ALL {
        if let Some(bytes) = text_size(arch)? {
            rows.push(Row {
                name: format!("bytes of .text, {arch}"),
                cells: [None, Some(Cell::number(bytes))],
            });
        }
    }
    Ok(rows)
}

/// What in the kernel around the memory manager names a floor above its own.
fn upward_arrows() -> Result<Vec<String>> {
    let root = workspace::root();
    let map = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let sources = rooms::read(&root.join(FOLDERS[1]));
    let found = rooms::floors::upward(&rooms::floors::order(&map), &sources);
    let line = |(arrow, place): (String, String)| format!("{place} {arrow}");
    Ok(found.into_iter().map(line).collect())
}

/// Bytes of `.text` in the last release build of the kernel; `None` when there is none.
fn text_size(arch: Arch) -> Result<Option<usize>> {
    let path = workspace::target()
        .join(arch.kernel_target())
        .join("release/quire");
    let Ok(bytes) = fs::read(&path) else {
        return Ok(None);
    };
    let file = object::File::parse(&*bytes).with_context(|| format!("{}", path.display()))?;
    let text = file.section_by_name(".text");
    let text = text.with_context(|| format!("{} has no .text", path.display()))?;
    Ok(Some(text.size() as usize))
}

fn table(rows: &[Row]) -> String {
    let wide = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let line = |name: &str, cells: [&str; 2]| {
        format!("| {name:wide$} | {:>13} | {:>10} |\n", cells[0], cells[1])
    };
    let mut text = line("", FOLDERS);
    let _ = writeln!(text, "|{:-<1$}|--------------:|-----------:|", "", wide + 2);
    for row in rows {
        let cells = row.cells.each_ref().map(|cell| match cell {
            Some(cell) => cell.number.to_string(),
            None => String::new(),
        });
        text += &line(&row.name, cells.each_ref().map(String::as_str));
    }
    text
}

/// The places behind the numbers.
fn list(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        for (folder, cell) in FOLDERS.iter().zip(&row.cells) {
            let places = cell.iter().flat_map(|cell| &cell.places);
            let places: Vec<String> = places
                .map(|place| format!("  {folder}/{place}\n"))
                .collect();
            if !places.is_empty() {
                let _ = write!(text, "\n{}:\n{}", row.name, places.concat());
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_what_there_is() {
        let rows = [
            Row {
                name: "descents".to_owned(),
                cells: [Some(Cell::places(&["a.rs:1 f".to_owned()])), None],
            },
            Row {
                name: "lines".to_owned(),
                cells: [Some(Cell::number(17020)), Some(Cell::number(9))],
            },
        ];
        let text = table(&rows);
        assert!(
            text.contains("| descents |             1 |            |\n"),
            "{text}"
        );
        assert!(
            text.ends_with("| lines    |         17020 |          9 |\n"),
            "{text}"
        );
        assert_eq!(list(&rows), "\ndescents:\n  kernel/mm/src/a.rs:1 f\n");
        assert_eq!(
            rows[0].json(),
            json!({"kernel/mm/src": {"number": 1, "places": ["a.rs:1 f"]}})
        );
    }

    /// The source itself: everything parses, and nothing is left out by mistake.
    #[test]
    fn of_this_repository() {
        let rows = rows().unwrap();
        let number = |name: &str| {
            let row = rows.iter().find(|row| row.name == name).unwrap();
            row.cells
                .each_ref()
                .map(|cell| cell.as_ref().unwrap().number)
        };
        let lines = number("lines without tests");
        assert!(lines[0] > 10_000 && lines[1] > 10_000, "{lines:?}");
    }
}
