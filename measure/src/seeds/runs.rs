//! The boots that a set of figures needs, and what they measured.
use super::kept::Kept;
use super::table::{Point, Runs};
use crate::bench::quire;
use anyhow::{Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use tools::host::arch::Arch;
use tools::host::words;
use tools::machine::build::Built;

/// What operations of the program `moves` begin with, those of `latency`, and those of `cost`.
const MOVES: &str = "move=";
pub const LATENCY: &str = "latency=";
pub const COST: &str = "cost/";
/// The words that leave the kernel folios of one size for programs that do not choose themselves.
pub const PLAIN: &str = "thp_anon=16K-2M:never";
/// See [`PLAIN`].
pub const FOLIOS_64K: &str = "thp_anon=64K:always";

/// One boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Words of the kernel's command line.
    pub words: &'static str,
    /// The machine's memory in MiB.
    pub mib: u64,
    /// The program and its arguments.
    pub program: String,
}

/// The fewest boots in which every point is measured and little else.
pub fn boots(points: &BTreeSet<Point>, pages: u64) -> Vec<Boot> {
    let mut boots = Vec::new();
    let words: BTreeSet<&str> = points.iter().map(|point| point.words).collect();
    for words in words {
        let mut sizes: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for point in points.iter().filter(|point| point.words == words) {
            sizes.entry(&point.op).or_default().insert(point.kb);
        }
        boots.extend(of_one_kernel(words, &sizes, pages));
    }
    boots
}

/// Operations with the same sizes share a boot.
fn of_one_kernel(
    words: &'static str,
    sizes: &BTreeMap<&str, BTreeSet<u32>>,
    pages: u64,
) -> Vec<Boot> {
    let mut groups: BTreeMap<(&str, &BTreeSet<u32>), BTreeSet<&str>> = BTreeMap::new();
    for (op, sizes) in sizes {
        let (program, word) = if let Some(level) = op.strip_prefix(MOVES) {
            ("moves", level.split_once('/').map_or(level, |(_, mib)| mib))
        } else if let Some(event) = op.strip_prefix(LATENCY) {
            ("latency", event)
        } else if op.starts_with(COST) {
            ("cost", "")
        } else {
            ("bench", *op)
        };
        groups.entry((program, sizes)).or_default().insert(word);
    }
    let boot = |((program, sizes), asked): (&(&str, &BTreeSet<u32>), &BTreeSet<&str>)| {
        let (asked, sizes) = (words::list(asked), words::list(*sizes));
        let (mib, line) = match *program {
            "moves" => (2048, format!("moves --size {sizes} --mib {asked}")),
            "latency" => (1024, format!("latency --size {sizes} --event {asked}")),
            "cost" => (1024, "cost".to_owned()),
            _ => (
                memory(pages),
                format!("bench --op {asked} --size {sizes} --pages {pages}"),
            ),
        };
        Boot {
            words,
            mib,
            program: line,
        }
    };
    groups.iter().map(boot).collect()
}

/// MiB for a region that a child and its parent have, each its own copy, and as much as the
/// smallest machine of the bench.
fn memory(pages: u64) -> u64 {
    2 * pages / 256 + 1024
}

/// Boots and reads, but for what was kept, and prints a message before each boot; all of the
/// figures must be there afterwards.
pub fn measure(
    arch: Arch,
    built: &Built,
    points: &BTreeSet<Point>,
    kept: &Kept,
    say: impl Fn(&str),
) -> Result<Runs> {
    let mut runs = kept.read(arch)?;
    let missing = points.iter().filter(|point| runs.cell(point).is_none());
    let boots = boots(&missing.cloned().collect(), kept.pages);
    for (n, boot) in boots.iter().enumerate() {
        let (n, all) = (n + 1, boots.len());
        let Boot {
            words,
            mib,
            program,
        } = boot;
        say(&format!("boot {n} of {all}: {program} {words}"));
        let cells = quire(arch, built, &format!("{mib}M"), words, program)?;
        kept.add(arch, words, &cells)?;
        runs.0.push(((*words).to_owned(), cells));
    }
    for point in points {
        ensure!(runs.cell(point).is_some(), "no figure for {point:?}");
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wants_the_same_sizes_shares_a_boot() {
        let points = [
            Point::new("", "fork", 4),
            Point::new("", "fork", 64),
            Point::new("", "fault", 64),
            Point::new("", "fault", 4),
            Point::new("", "munmap", 4),
            Point::new("zap=per-pte", "munmap", 4),
            Point::new("", "latency=signal", 64),
            Point::new("", "latency=first", 64),
            Point::new("", "move=pte/1024", 4),
            Point::new("", "move=pud/1024", 4),
        ];
        let boots = boots(&points.into(), 1 << 18);
        let line = |boot: &Boot| format!("{} {} {}", boot.mib, boot.program, boot.words);
        let lines: Vec<String> = boots.iter().map(line).collect();
        assert_eq!(
            lines,
            [
                "3072 bench --op munmap --size 4 --pages 262144 ",
                "3072 bench --op fault,fork --size 4,64 --pages 262144 ",
                "1024 latency --size 64 --event first,signal ",
                "2048 moves --size 4 --mib 1024 ",
                "3072 bench --op munmap --size 4 --pages 262144 zap=per-pte",
            ]
        );
    }
}
