//! `bench --check` and `--bless`: golden counts, committed in `measure/golden`, that a change of
//! the kernel is held against.
//!
//! Each cell is measured in a boot of its own, so that a count does not depend on which others are
//! measured before it.

use super::cells::{Cells, Key};
use crate::bench::plan::BASELINE;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use tools::args::BenchArgs;
use tools::host::arch::Arch;
use tools::host::{words, workspace};
use tools::machine::build::{self, Built};

/// Folio sizes in kB for which there are counts.
pub const SIZES: [u32; 3] = [4, 64, 2048];
/// How far a count may be from the golden one, as a part of it.
const SLACK: f64 = 0.01;

/// Counts by operation and size.
pub type Counts = BTreeMap<(String, u64), f64>;

/// Measures the cells and compares them, or keeps them as the golden ones; returns the exit
/// status.
pub fn run(args: &BenchArgs) -> Result<u8> {
    let sizes = args.size.iter().map(u32::to_string).collect::<Vec<_>>();
    words::check("--op", args.op.iter().map(String::as_str), BASELINE)?;
    let known = SIZES.map(|kb| kb.to_string());
    let known = known.each_ref().map(String::as_str);
    words::check("--size", sizes.iter().map(String::as_str), &known)?;
    let ops = match args.op.as_slice() {
        [] => &BASELINE.iter().map(ToString::to_string).collect::<Vec<_>>(),
        asked => asked,
    };
    let sizes = match args.size.as_slice() {
        [] => &SIZES,
        asked => asked,
    };
    let mut status = 0;
    for &arch in args.machines.arch.arches() {
        let built = build::build(arch, false)?;
        let cells = measure(arch, &built, ops, sizes)?;
        let mut golden = read(&file(arch))?;
        if args.bless {
            golden.extend(figures(&cells));
            write(arch, &golden)?;
            println!("{arch}: {} counts are golden now", cells.len());
            continue;
        }
        let differing = compare(&golden, &cells);
        print!("{}", differing.concat());
        println!(
            "{arch}: {} of {} counts are within {} % of the golden ones",
            cells.len() - differing.len(),
            cells.len(),
            SLACK * 100.0
        );
        if !differing.is_empty() {
            println!("  where that is meant, ./run.sh bench --bless keeps the new ones");
            status = 1;
        }
    }
    Ok(status)
}

/// Measures these cells, each in a boot of its own.
pub fn measure<S: AsRef<str>>(
    arch: Arch,
    built: &Built,
    ops: &[S],
    sizes: &[u32],
) -> Result<Cells> {
    let mut cells = Cells::new();
    for op in ops.iter().map(AsRef::as_ref) {
        eprintln!("run.sh: measuring {op} on {arch}");
        for kb in sizes {
            let program = format!("bench --op {op} --size {kb}");
            cells.extend(super::measure(arch, built, "", &program)?);
        }
    }
    Ok(cells)
}

/// A line for each cell that is too far from its golden count, or has none.
pub fn differing(arch: Arch, cells: &Cells) -> Result<Vec<String>> {
    Ok(compare(&read(&file(arch))?, cells))
}

fn compare(golden: &Counts, cells: &Cells) -> Vec<String> {
    let line = |(key, figure): ((String, u64), f64)| {
        let name = format!("  {} {} kB: {figure:.2}", key.0, key.1);
        let Some(golden) = golden.get(&key) else {
            return Some(format!("{name}, and no golden count\n"));
        };
        let change = figure / golden - 1.0;
        let more = format!(
            "{name} where {golden:.2} are golden, {:+.1} %\n",
            change * 100.0
        );
        (change.abs() > SLACK).then_some(more)
    };
    figures(cells).filter_map(line).collect()
}

fn figures(cells: &Cells) -> impl Iterator<Item = ((String, u64), f64)> {
    let own = cells.iter().filter(|(key, _)| key.vmas == 0);
    own.map(|(Key { op, kb, .. }, cell)| ((op.clone(), *kb), cell.figure))
}

fn file(arch: Arch) -> PathBuf {
    workspace::root().join(format!("measure/golden/bench-{arch}.txt"))
}

/// What Linux costs on a machine, as docs/linux-baseline.md says that it was measured.
pub fn linux(arch: Arch) -> Result<Counts> {
    read(&workspace::root().join(format!("measure/golden/linux-{arch}.txt")))
}

/// The counts of a file; none where there is none yet.
fn read(path: &Path) -> Result<Counts> {
    if !path.exists() {
        return Ok(Counts::new());
    }
    let text = fs::read_to_string(path)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| entry(line).with_context(|| format!("{}: {line}", path.display())))
        .collect()
}

/// `OPERATION KB COUNT`.
fn entry(line: &str) -> Option<((String, u64), f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[op, kb, figure] = &words[..] else {
        return None;
    };
    Some(((op.to_owned(), kb.parse().ok()?), figure.parse().ok()?))
}

fn write(arch: Arch, golden: &Counts) -> Result<()> {
    let mut text = String::from(
        "# Guest instructions per page, of mremap for the call: operation, folio size in kB, count.\n\
         # Written by ./run.sh bench --bless, read by ./run.sh bench --check.\n",
    );
    for ((op, kb), figure) in golden {
        let _ = writeln!(text, "{op} {kb} {figure:.3}");
    }
    let path = file(arch);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cells::Cell;
    use crate::bench::plan;
    use serde_json::Value;

    #[test]
    fn each_machine_has_all_of_them() {
        for arch in Arch::ALL {
            let golden = read(&file(arch)).unwrap();
            assert_eq!(golden.len(), BASELINE.len() * SIZES.len(), "{arch}");
            let linux = linux(arch).unwrap();
            let all = BASELINE.len() * plan::SIZES.len();
            assert_eq!(linux.len(), all, "{arch}");
            assert!(
                golden
                    .values()
                    .chain(linux.values())
                    .all(|figure| *figure > 0.0)
            );
        }
    }

    #[test]
    fn a_hundredth_more_or_less() {
        let golden = Counts::from([(("fork".to_owned(), 4), 100.0)]);
        let cells = |op: &str, figure| {
            let line = Value::Null;
            Cells::from([(Key::new(op, 4), Cell { figure, line })])
        };
        for same in [99.1, 100.0, 100.9] {
            assert!(compare(&golden, &cells("fork", same)).is_empty());
        }
        assert_eq!(
            compare(&golden, &cells("fork", 103.0)),
            ["  fork 4 kB: 103.00 where 100.00 are golden, +3.0 %\n"]
        );
        assert!(compare(&golden, &cells("fork", 97.0))[0].ends_with("-3.0 %\n"));
        assert!(compare(&golden, &cells("cow", 1.0))[0].ends_with("no golden count\n"));
    }
}
