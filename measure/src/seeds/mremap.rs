//! 003: what it is worth to move page-table entries of higher levels whole.
use super::Thread;
use super::table::{Cell, Here, Line, Point, Reason, Row, Table, Value};
use tools::host::arch::Arch::{Aarch64, X86_64};

pub(super) const THREAD: Thread = Thread {
    number: "003",
    subject: "\"Speed up mremap on large regions\"",
    source: "linux-arm-kernel, 30 September to 2 October 2020; a PUD-aligned region of 1 GiB in pages of 4 kB, whatever `--pages` says. Without the \
             series is here `move=pte`, with HAVE_MOVE_PMD `move=pmd`, with HAVE_MOVE_PUD `move=pud`.",
    tables: || vec![speedups()],
    notes: "The thread's reason is the pause of a compacting collector; what a heap of 256 MiB to 2 GiB pauses, and regions of other sizes, stand \
            in [mremap](remap.md). \"I was hoping that [it] can be extended to all levels of the hierarchical page table, and in the process \
            simplify the implementation\" is `move=pgd`, the last row: one recursion for all levels.",
};

/// 1 GiB, and what a PGD entry covers.
const GIB: u32 = 1 << 10;
const PGD: u32 = 1 << 19;

fn moved(level: &str, mib: u32) -> Point {
    Point::new("", &format!("move={level}/{mib}"), 4)
}

/// Two levels as costs and how many times the second is faster.
fn cells(slow: &str, fast: &str, mib: u32, thread: &[f64]) -> Vec<Cell> {
    let (before, after) = (moved(slow, mib), moved(fast, mib));
    let times = Value::Times(before.clone(), after.clone());
    let last = match thread {
        [] => Cell::Shown(times),
        _ => Cell::Judged(times, thread.to_vec()),
    };
    vec![Cell::Cost(before), Cell::Cost(after), last]
}

fn row(name: &str, there: [&str; 3], here: Here) -> Row {
    Row::new(name, [Line::new("there", there)], here)
}

fn speedups() -> Table {
    let observed = [
        (
            "HAVE_MOVE_PMD on x86",
            "N/A",
            X86_64,
            ["pte", "pmd"],
            &[][..],
        ),
        (
            "HAVE_MOVE_PUD on x86",
            "~13x",
            X86_64,
            ["pmd", "pud"],
            &[13.0],
        ),
        (
            "HAVE_MOVE_PMD on arm64",
            "~8x",
            Aarch64,
            ["pte", "pmd"],
            &[8.0],
        ),
        (
            "HAVE_MOVE_PUD on arm64",
            "~19x",
            Aarch64,
            ["pmd", "pud"],
            &[19.0],
        ),
        ("both on arm64", "~150x", Aarch64, ["pte", "pud"], &[150.0]),
    ];
    let ratio = |(name, there, arch, [slow, fast], thread): (_, _, _, [_; 2], _)| {
        let here = Here::On(arch, cells(slow, fast, GIB, thread));
        row(name, ["", "", there], here)
    };
    let times = cells("pte", "pud", GIB, &[9000.0 / 60.0, 9000.0 / 90.0]);
    let times = Here::On(Aarch64, times);
    let larger = Here::Cells(cells("pud", "pgd", PGD, &[]));
    let last = [
        row("1 GB on arm64", ["~9ms", "~60us, 90us", ""], times),
        row("PGD entries, 512 GiB", ["", "", "not possible"], larger),
    ];
    Table {
        title: "\"Observed Performance Improvements for remapping a PUD-aligned 1GB-sized region\"",
        first: "",
        columns: vec!["without", "with", "speed up"],
        rows: observed.into_iter().map(ratio).chain(last).collect(),
        reasons: REASONS,
    }
}

const REASONS: &[Reason] = &[Reason {
    rows: &["HAVE_MOVE_PUD on x86", "HAVE_MOVE_PUD on arm64"],
    columns: &["speed up"],
    why: "A PMD entry takes about 9 instructions here, and no lock and no flush of its own: all 512 are one flush. So a move by PMD entries is \
          near what the call costs by itself (about 1,900), and less is left for PUD entries to win.",
}];
