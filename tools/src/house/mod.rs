//! `./run.sh house`: the structure of the kernel's source in numbers, and the width of its
//! comments.
//!
//! The numbers are to be compared before and after a change of structure: `count` documents what
//! each of them counts.
mod comments;
mod count;
mod public;
pub mod source;

use crate::args::HouseArgs;
use crate::host::arch::Arch;
use crate::host::workspace;
use anyhow::{Context, Result};
use count::{Found, LARGE};
use object::{Object, ObjectSection};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The memory manager's source, that of the kernel around it, and the repository.
const FOLDERS: [&str; 3] = ["kernel/mm/src", "kernel/src", "."];

/// What a user gets to boot, of the kernel.
const PRODUCT: [&str; 4] = ["kernel", "arch/boot", "arch/x86_64", "arch/aarch64"];

/// What a line says that only labs need.
const OF_LABS: [&str; 5] = [
    "feature = \"lab",
    "// In handouts of lab",
    "mod lab;",
    "labs::",
    "Switch::Lab",
];

/// What measures: on the host, and in a guest.
const MEASURES: [&str; 17] = [
    "measure",
    "userland/src/bin/bench",
    "userland/src/bin/conflicts",
    "userland/src/bin/cost.rs",
    "userland/src/bin/counted.rs",
    "userland/src/bin/counters.rs",
    "userland/src/bin/first.rs",
    "userland/src/bin/frames",
    "userland/src/bin/gcflip",
    "userland/src/bin/hoard.rs",
    "userland/src/bin/latency",
    "userland/src/bin/moves",
    "userland/src/bin/orders.rs",
    "userland/src/bin/scene",
    "userland/src/bin/snapshot",
    "userland/src/bin/speedup.rs",
    "userland/src/measuring.rs",
];

/// Prints the table, or with `--check` the comments that are too wide: then the status is 1.
pub fn house(args: &HouseArgs) -> Result<u8> {
    if args.check {
        return check();
    }
    let json = workspace::writable("--json", args.json.as_deref())?;
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
    cells: [Option<Cell>; 3],
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
    let [mm, kernel, _] = FOLDERS;
    let [mm, kernel] = [mm, kernel].map(|folder| source::read(&workspace::root().join(folder)));
    let (mm, kernel) = (mm?, kernel?);
    let found = [count::count(&mm), count::count(&kernel)];
    let row = |name: &str, cell: fn(&Found) -> Cell| {
        let [mm, kernel] = found.each_ref().map(|found| Some(cell(found)));
        Row {
            name: name.to_owned(),
            cells: [mm, kernel, None],
        }
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
        row("functions inlined always", |found| {
            Cell::places(&found.inlined)
        }),
        row("... without documentation", |found| {
            Cell::places(&found.undocumented)
        }),
        row("names of functions that unmap", |found| {
            Cell::places(&Vec::from_iter(found.unmapping.iter().cloned()))
        }),
        Row {
            name: "`pub` items".to_owned(),
            cells: [Some(Cell::number(public::count(&mm))), None, None],
        },
        Row {
            name: "`VmaFlags::` outside of vma/".to_owned(),
            cells: [Some(Cell::places(&flags_outside()?)), None, None],
        },
        Row {
            name: "upward arrows".to_owned(),
            cells: [None, Some(Cell::places(&upward_arrows()?)), None],
        },
        Row {
            name: "files in import circles".to_owned(),
            cells: circles()?.map(Some),
        },
        Row {
            name: "lines of labs in the product".to_owned(),
            cells: [None, None, Some(Cell::places(&lines_of_labs()?))],
        },
        Row {
            name: "lines that measure".to_owned(),
            cells: [None, None, Some(Cell::number(lines_that_measure()?))],
        },
    ];
    for arch in Arch::ALL {
        if let Some(bytes) = text_size(arch)? {
            rows.push(Row {
                name: format!("bytes of .text, {arch}"),
                cells: [None, Some(Cell::number(bytes)), None],
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

/// Where the memory manager asks for a flag of a VMA elsewhere than in `vma/`.
fn flags_outside() -> Result<Vec<String>> {
    let mut places = Vec::new();
    for (file, text) in texts(&FOLDERS[..1])? {
        let place = file.trim_start_matches(FOLDERS[0]).trim_start_matches('/');
        if place.starts_with("vma/") {
            continue;
        }
        for (line, number) in rooms::code(&text).lines().zip(1..) {
            let flags = line.matches("VmaFlags::");
            places.extend(flags.map(|_| format!("{place}:{number}")));
        }
    }
    Ok(places)
}

/// The files in which modules of a crate import each other in circles: of the memory manager, of
/// the kernel, of all crates; the places are the circles.
fn circles() -> Result<[Cell; 3]> {
    let root = workspace::root();
    let mut cells = FOLDERS.map(|_| Cell::number(0));
    for src in crates(root)? {
        let folder = src.strip_prefix(root)?.to_string_lossy().into_owned();
        for circle in rooms::circles::all(&rooms::read(&src)) {
            for (column, cell) in FOLDERS.iter().zip(&mut cells) {
                let of = match *column {
                    "." => format!("{folder}: "),
                    column if column == folder => String::new(),
                    _ => continue,
                };
                cell.number += circle.len() as u64;
                cell.places.push(of + &circle.join(" "));
            }
        }
    }
    Ok(cells)
}

/// The `src` folder of each crate.
fn crates(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    source::rust_files(root, &mut files)?;
    let parents = files.iter().flat_map(|file| file.ancestors());
    let src = parents.filter(|folder| {
        let beside = folder.parent().map(|parent| parent.join("Cargo.toml"));
        folder.ends_with("src") && beside.is_some_and(|file| file.exists())
    });
    Ok(Vec::from_iter(BTreeSet::from_iter(src.map(Path::to_owned))))
}

/// Lines of the product that only labs need.
fn lines_of_labs() -> Result<Vec<String>> {
    let mut places = Vec::new();
    for (file, text) in texts(&PRODUCT)? {
        let of_labs = |line: &str| OF_LABS.iter().any(|words| line.contains(words));
        let lines = text.lines().zip(1..).filter(|(line, _)| of_labs(line));
        places.extend(lines.map(|(_, number)| format!("{file}:{number}")));
    }
    Ok(places)
}

/// All lines of what measures, its tests included.
fn lines_that_measure() -> Result<usize> {
    let texts = texts(&MEASURES)?;
    Ok(texts.iter().map(|(_, text)| text.lines().count()).sum())
}

/// The Rust files of folders, or files, of the repository, with their text.
fn texts(folders: &[&str]) -> Result<Vec<(String, String)>> {
    let root = workspace::root();
    let mut files = Vec::new();
    for folder in folders {
        match root.join(folder) {
            file if file.is_file() => files.push(file),
            folder => source::rust_files(&folder, &mut files)?,
        }
    }
    let text = |file: PathBuf| {
        let name = file.strip_prefix(root)?.to_string_lossy().into_owned();
        Ok((name, fs::read_to_string(&file)?))
    };
    files.into_iter().map(text).collect()
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
    let line = |name: &str, [mm, kernel, all]: [&str; 3]| {
        format!("| {name:wide$} | {mm:>13} | {kernel:>10} | {all:>6} |\n")
    };
    let mut text = line("", FOLDERS);
    let _ = writeln!(
        text,
        "|{:-<1$}|--------------:|-----------:|-------:|",
        "",
        wide + 2
    );
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
                .map(|place| match *folder {
                    "." => format!("  {place}\n"),
                    _ => format!("  {folder}/{place}\n"),
                })
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
                cells: [Some(Cell::places(&["a.rs:1 f".to_owned()])), None, None],
            },
            Row {
                name: "lines".to_owned(),
                cells: [Some(Cell::number(17020)), Some(Cell::number(9)), None],
            },
        ];
        let text = table(&rows);
        assert!(
            text.contains("| descents |             1 |            |        |\n"),
            "{text}"
        );
        assert!(
            text.ends_with("| lines    |         17020 |          9 |        |\n"),
            "{text}"
        );
        assert_eq!(list(&rows), "\ndescents:\n  kernel/mm/src/a.rs:1 f\n");
        assert_eq!(
            rows[0].json(),
            json!({"kernel/mm/src": {"number": 1, "places": ["a.rs:1 f"]}})
        );
    }

    /// What may only become less; whoever needs more says why in docs/decisions.
    const CEILINGS: [(&str, [u64; 3]); 7] = [
        ("functions inlined always", [130, 20, 0]),
        ("... without documentation", [0, 8, 0]),
        ("names of functions that unmap", [10, 1, 0]),
        ("`VmaFlags::` outside of vma/", [44, 0, 0]),
        ("files in import circles", [0, 0, 0]),
        ("lines of labs in the product", [0, 0, 0]),
        ("lines that measure", [0, 0, 30_443]),
    ];

    /// The source itself: everything parses, and nothing is left out by mistake.
    #[test]
    fn of_this_repository() {
        let rows = rows().unwrap();
        let number = |name: &str| {
            let row = rows.iter().find(|row| row.name == name).unwrap();
            row.cells
                .each_ref()
                .map(|cell| cell.as_ref().map_or(0, |cell| cell.number))
        };
        let lines = number("lines without tests");
        assert!(lines[0] > 10_000 && lines[1] > 10_000, "{lines:?}");
        for (name, most) in CEILINGS {
            let found = number(name);
            assert!(
                found.iter().zip(most).all(|(found, most)| *found <= most),
                "{name}: {found:?}, not {most:?}"
            );
        }
    }
}
