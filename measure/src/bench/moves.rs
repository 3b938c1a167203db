//! The cost of mremap by size and by the entries that move: the table of seed 003, and the pauses
//! of `gcflip`.
use super::cells::{Cell, Cells, Column, Key, or_dash};
use std::fmt::Write;

/// The operation that these programs belong to.
const OP: &str = "mremap";
/// Each with the memory that it needs.
const PROGRAMS: [(&str, &str); 2] = [("6G", "moves"), ("6G", "gcflip")];

/// The programs to run, with the memory of their machines, when these operations were asked for.
pub fn programs(ops: &[String]) -> impl Iterator<Item = (&'static str, String)> {
    let wanted = ops.iter().any(|op| op == OP);
    let chosen = PROGRAMS.into_iter().filter(move |_| wanted);
    chosen.map(|(mem, program)| (mem, program.to_owned()))
}

/// The settings of the switch.
const LEVELS: [&str; 4] = ["pte", "pmd", "pud", "pgd"];

/// MiB that a PGD entry covers.
const PGD: u64 = 512 << 10;

/// The most that a call may cost: the whole of 512 GiB and more by PGD entries; of 1 GiB and more
/// by PUD entries for each GiB, by PMD entries for each of them, by PTEs for each of them.
fn limit(level: &str, kb: u64, mib: u64) -> Option<u64> {
    let per_gib = match (level, kb) {
        ("pgd", _) if mib >= PGD => return Some(2_000),
        // Sparse: there is one entry of each level in a GiB.
        _ if mib >= PGD => return None,
        ("pud" | "pgd", _) => 2_000,
        ("pmd", _) => 60 * 512,
        ("pte", 64) => 12 * 512 * 512,
        ("pte", 4) => 25 * 512 * 512,
        _ => return None,
    };
    (mib >= 1024).then_some(per_gib * mib / 1024)
}

/// Both tables, for each run; empty without such cells.
pub fn render(columns: &[Column]) -> String {
    let mut text = String::new();
    for column in columns {
        for kb in [4, 64] {
            text += &moves(column, kb);
        }
        text += &flips(column);
    }
    text
}

fn figure<'a>(cells: &'a Cells, op: &str, kb: u64) -> Option<&'a Cell> {
    cells.get(&Key::new(op, kb))
}

/// The sizes in MiB of the lines that begin so.
fn sizes(column: &Column, prefix: &str, kb: u64) -> Vec<u64> {
    let of = |key: &Key| key.op.strip_prefix(prefix)?.split_once('/')?.1.parse().ok();
    let mut sizes: Vec<u64> = column
        .cells
        .keys()
        .filter(|key| key.kb == kb)
        .filter_map(of)
        .collect();
    sizes.sort();
    sizes.dedup();
    sizes
}

fn moves(column: &Column, kb: u64) -> String {
    let sizes = sizes(column, "move=", kb);
    let mut text = String::new();
    if sizes.is_empty() {
        return text;
    }
    let _ = write!(
        text,
        "\n{}: one mremap of folios of {kb} kB, aligned to its size: guest instructions of the call\n{:>9}",
        column.label, "size"
    );
    for level in LEVELS {
        let _ = write!(text, "{:>12}", format!("move={level}"));
    }
    for pair in LEVELS.windows(2) {
        let _ = write!(text, "{:>10}", pair.join("/"));
    }
    text.push('\n');
    for mib in sizes {
        text += &row(column, kb, mib);
    }
    text
}

/// The line of one size.
fn row(column: &Column, kb: u64, mib: u64) -> String {
    let cells = LEVELS.map(|level| figure(&column.cells, &format!("move={level}/{mib}"), kb));
    let mut text = match mib {
        PGD.. => format!("{:>5} GiB", mib / 1024),
        _ => format!("{mib:>5} MiB"),
    };
    for cell in cells {
        let figure = or_dash(cell.map(|cell| cell.figure));
        let _ = write!(text, "{figure:>12}");
    }
    for pair in cells.windows(2) {
        if let [Some(more), Some(less)] = pair {
            let _ = write!(text, "{:>9.1}x", more.figure / less.figure);
        }
    }
    for (level, cell) in LEVELS.iter().zip(cells) {
        let Some(cell) = cell else { continue };
        match limit(level, kb, mib) {
            Some(most) if cell.figure <= most as f64 => _ = write!(text, "  met"),
            Some(most) => _ = write!(text, "  missed ({level} {most})"),
            None => {}
        }
    }
    let sparse = cells
        .iter()
        .flatten()
        .any(|cell| cell.line["sparse"] == true);
    text + if sparse { "  sparse\n" } else { "\n" }
}

fn flips(column: &Column) -> String {
    let mut text = String::new();
    for mib in sizes(column, "gcflip=", 64) {
        if text.is_empty() {
            let _ = writeln!(
                text,
                "\n{}: gcflip, the pause of a flip in guest instructions\n{:>9}{:>12}{:>12}{:>12}{:>14}",
                column.label, "heap", "move=pte", "move=pmd", "move=pud", "copying"
            );
        }
        let _ = write!(text, "{mib:>5} MiB");
        for (how, width) in [("pte", 12), ("pmd", 12), ("pud", 12), ("copy", 14)] {
            let cell = figure(&column.cells, &format!("gcflip={how}/{mib}"), 64);
            let _ = write!(text, "{:>width$}", or_dash(cell.map(|cell| cell.figure)));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cells;
    use crate::testing::has;

    #[test]
    fn both_tables_with_speedups_and_verdicts() {
        let mut lines = "{\"begin\":true,\"instructions\":true}\n".to_owned();
        for (op, whole) in [
            ("move=pte/1024", 4_000_000),
            ("move=pmd/1024", 20_000),
            ("move=pud/1024", 2_000),
            ("move=pgd/1024", 2_000),
            ("move=pud/524288", 11_000),
            ("move=pgd/524288", 2_000),
            ("gcflip=copy/256", 9),
        ] {
            let _ = writeln!(
                lines,
                "{{\"op\":\"{op}\",\"folio_kb\":64,\"whole\":{whole},\"sparse\":false}}"
            );
        }
        lines += "{\"done\":true,\"cells\":7}\n";
        let mut column = Column::of("Quire");
        column.cells = cells::parse(&lines).unwrap();
        let text = render(&[column]);
        let row = text.lines().find(|line| line.contains("1024 MiB")).unwrap();
        let words: Vec<_> = row.split_whitespace().collect();
        assert!(
            words.contains(&"200.0x") && words.contains(&"10.0x"),
            "{text}"
        );
        assert!(
            row.ends_with("  missed (pte 3145728)  met  met  met"),
            "{text}"
        );
        let row = text.lines().find(|line| line.contains("512 GiB")).unwrap();
        assert!(row.ends_with("      5.5x  met"), "{text}");
        has(&text, "  256 MiB           -");
    }

    #[test]
    fn only_when_it_was_asked_for() {
        assert_eq!(programs(&[]).count(), 0);
        assert_eq!(programs(&["fork".to_owned()]).count(), 0);
        assert_eq!(programs(&["mremap".to_owned()]).count(), 2);
    }
}
