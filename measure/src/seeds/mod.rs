//! `./run.sh seeds`: every table of the five mailing-list threads that this kernel comes from,
//! beside what the same operations cost here.
//!
//! A thread is data: its tables, what was measured for each figure, and why some differ. The boots
//! follow from the figures.
mod batched_fork;
mod copy_ptes;
mod kept;
mod mremap;
mod multi_size;
mod page;
mod render;
mod rmap_ids;
mod runs;
mod table;
mod verdict;

use crate::bench::plan;
use anyhow::{Context, Result, bail};
use kept::Kept;
use render::render;
use std::collections::BTreeSet;
use std::fs;
use table::{Point, Table};
use tools::args::SeedsArgs;
use tools::host::arch::Arch;
use tools::host::errors::UsageError;
use tools::host::{install, words, workspace};
use tools::machine::build;
use tools::machine::build::Built;

/// A thread and its tables.
struct Thread {
    number: &'static str,
    subject: &'static str,
    /// Author, list and date.
    source: &'static str,
    tables: fn() -> Vec<Table>,
    /// What the tables leave out, and why; paragraphs.
    notes: &'static str,
}

/// In the order of their numbers.
const THREADS: [Thread; 5] = [
    batched_fork::THREAD,
    copy_ptes::THREAD,
    multi_size::THREAD,
    mremap::THREAD,
    rmap_ids::THREAD,
];

/// The most pages: 4 GiB, of which a child gets its own copy.
const MOST_PAGES: u64 = 1 << 20;

/// The chosen tables, by thread.
type Chosen = Vec<(&'static Thread, Vec<Table>)>;

/// Measures and prints. An error when a figure differs and no reason for it is known.
pub fn seeds(args: &SeedsArgs) -> Result<u8> {
    check(args)?;
    let arches = args.machines.arch.arches();
    let chosen = chosen(args);
    let wanted: Vec<BTreeSet<Point>> = arches
        .iter()
        .map(|arch| points(&chosen, *arch, args))
        .collect();
    if wanted.iter().all(BTreeSet::is_empty) {
        return Err(
            UsageError("none of these tables has figures of these sizes".to_owned()).into(),
        );
    }
    let file = workspace::writable("--write", args.write.as_deref())?;
    let kept = Kept {
        file: workspace::writable("--figures", args.figures.as_deref())?,
        pages: args.pages,
    };
    install::ensure_qemu(arches, args.install.no_install)?;
    let mut machines = Vec::new();
    for (&arch, points) in arches.iter().zip(&wanted) {
        let built = build::build(arch, false)?;
        let say = |text: &str| eprintln!("run.sh: {arch}, {text}");
        machines.push((arch, runs::measure(arch, &built, points, &kept, say)?));
    }
    let (text, unexplained) = page::page(&chosen, &machines, args);
    print!("{text}");
    if let Some(path) = &file {
        fs::write(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if !unexplained.is_empty() {
        bail!(
            "these figures differ, and the table has no reason for it:\n{}",
            unexplained.join("\n")
        );
    }
    Ok(0)
}

/// What has to be measured on one machine.
fn points(chosen: &Chosen, arch: Arch, args: &SeedsArgs) -> BTreeSet<Point> {
    let all = chosen.iter().flat_map(|(_, tables)| tables);
    all.flat_map(|table| table.points(arch))
        .filter(|point| args.size.is_empty() || args.size.contains(&point.kb))
        .cloned()
        .collect()
}

/// For tests: the threads 001 and 003, of 64 MiB; what differs without a reason.
pub fn unexplained(arch: Arch, built: &Built) -> Result<Vec<String>> {
    let kept = Kept {
        file: None,
        pages: 16384,
    };
    let tables = THREADS
        .iter()
        .filter(|thread| ["001", "003"].contains(&thread.number));
    let tables: Vec<Table> = tables.flat_map(|thread| (thread.tables)()).collect();
    let points = tables.iter().flat_map(|table| table.points(arch)).cloned();
    let machine = (
        arch,
        runs::measure(arch, built, &points.collect(), &kept, |_| {})?,
    );
    let rendered = tables
        .iter()
        .map(|table| render(table, std::slice::from_ref(&machine)));
    Ok(rendered.flat_map(|out| out.unexplained).collect())
}

/// Refuses unknown threads.
fn check(args: &SeedsArgs) -> Result<(), UsageError> {
    let known = THREADS.each_ref().map(|thread| thread.number);
    words::check("--only", args.only.iter().map(String::as_str), &known)?;
    plan::check(&[], &args.size)?;
    if !(512..=MOST_PAGES).contains(&args.pages) || !args.pages.is_multiple_of(512) {
        return Err(UsageError(format!(
            "--pages {} is no multiple of 512 from 512 to {MOST_PAGES}",
            args.pages
        )));
    }
    Ok(())
}

fn chosen(args: &SeedsArgs) -> Chosen {
    let wanted = |thread: &&Thread| {
        args.only.is_empty() || args.only.iter().any(|number| number == thread.number)
    };
    let threads = THREADS.iter().filter(wanted);
    threads.map(|thread| (thread, (thread.tables)())).collect()
}

#[cfg(test)]
mod tests {
    use super::table::{Cell, Here};
    use super::*;
    use tools::args::{SeedsArgs, options};

    #[test]
    fn numbers_pages_and_sizes() {
        let refused = |line: &str| check(&options::<SeedsArgs>(line)).unwrap_err().0;
        assert!(refused("run.sh seeds --only 005").contains("none of 000, 001, 002"));
        assert!(refused("run.sh seeds --size 8").contains("none of 4, 16"));
        for pages in ["0", "100", "1049088"] {
            let line = format!("run.sh seeds --pages {pages}");
            assert!(refused(&line).contains("is no multiple of 512"), "{pages}");
        }
        assert!(
            check(&options::<SeedsArgs>(
                "run.sh seeds --only 003,000 --size 4,64"
            ))
            .is_ok()
        );
        assert_eq!(options::<SeedsArgs>("run.sh seeds").pages, 1 << 18);
    }

    /// As many texts and cells as columns, and for each row a measurement, on at least one machine,
    /// or a reason.
    #[test]
    fn each_row_is_measured_or_says_why_not() {
        for thread in &THREADS {
            for table in (thread.tables)() {
                for row in &table.rows {
                    let place = format!("{}, {}: {}", thread.number, table.title, row.name);
                    for line in &row.lines {
                        assert_eq!(line.texts.len(), table.columns.len(), "{place}");
                    }
                    let cells: Vec<&[Cell]> = match &row.here {
                        Here::Unmeasured(why) => {
                            assert!(why.ends_with('.'), "{place}");
                            continue;
                        }
                        _ => Arch::ALL.map(|arch| row.here.cells(arch)).to_vec(),
                    };
                    for cells in cells.iter().filter(|cells| !cells.is_empty()) {
                        assert_eq!(cells.len(), table.columns.len(), "{place}");
                    }
                    let points = cells.iter().copied().flatten().flat_map(Cell::points);
                    assert!(points.count() > 0, "{place}");
                }
            }
        }
    }

    /// The bench has all operations, the kernel all switches.
    #[test]
    fn what_is_measured_exists() {
        let points = THREADS.iter().flat_map(|thread| (thread.tables)());
        for table in points {
            for point in Arch::ALL.iter().flat_map(|arch| table.points(*arch)) {
                let program = point.op.split_once('/').map_or(&*point.op, |(op, _)| op);
                let moves = ["move=pte", "move=pmd", "move=pud", "move=pgd"];
                let other = program == "cost"
                    || program.starts_with(runs::LATENCY)
                    || moves.contains(&program);
                assert!(other || plan::OPS.contains(&program), "{point:?}");
                for word in point.words.split_whitespace() {
                    assert!(
                        word.starts_with("thp_anon=") || plan::settings(Some(word)).is_ok(),
                        "{point:?}"
                    );
                }
            }
        }
    }

    /// A reason speaks of rows and columns that there are.
    #[test]
    fn reasons_have_a_place() {
        for table in THREADS.iter().flat_map(|thread| (thread.tables)()) {
            for reason in table.reasons {
                let row = |name: &&&str| !table.rows.iter().any(|row| row.name == **name);
                let column = |name: &&&str| !table.columns.contains(*name);
                assert_eq!(reason.rows.iter().find(row), None, "{}", table.title);
                assert_eq!(reason.columns.iter().find(column), None, "{}", table.title);
                assert!(reason.why.ends_with('.'), "{}", table.title);
            }
        }
    }
}
