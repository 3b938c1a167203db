//! 002: folios of many sizes for anonymous memory, what they save at a fault and what a benchmark
//! of whole systems said.
mod kunpeng;

use super::Thread;
use super::table::{Cell, Here, Line, Point, Row, Table, Value};

pub(super) const THREAD: Thread = Thread {
    number: "002",
    subject: "\"Multi-size THP for anonymous memory\", v8",
    source: "linux-mm, 4 to 7 December 2023.",
    tables: || {
        let mut tables = vec![touch(), claims()];
        tables.extend(kunpeng::tables());
        tables
    },
    notes: "Latencies of single events by folio size stand in [Latency](latency.md). The thread's other two tables, of prerequisites and of the patches, have no figures.",
};

const SIZES: [u32; 9] = [4, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// Entry writes are shown only: an entry for each page but for PMD-mapped folios, as there.
fn touch() -> Table {
    let row = |kb: u32| {
        let point = |kb| Point::new("", "fault", kb);
        let count = |name| Cell::Judged(Value::PerFolio(point(kb), name), vec![1.0]);
        let cells = vec![
            count("pgfault"),
            count("account_updates"),
            Cell::Cost(point(kb)),
            Cell::Shown(Value::Change(point(4), point(kb))),
        ];
        let line = Line::new("there", ["1.00", "1.00", "", ""]);
        Row::new(format!("{kb}KiB"), [line], Here::Cells(cells))
    };
    Table {
        title: "The first touch of memory: \"fewer page faults, batched PTE and RMAP manipulation\", one of each for a folio",
        first: "Folio Size",
        columns: vec!["faults", "rmap updates", "cost", "beside 4KiB"],
        rows: SIZES.map(row).into(),
        reasons: &[],
    }
}

/// What was said without a table.
fn claims() -> Table {
    let row = |name, there, here| Row::new(name, [Line::new("there", [there])], here);
    let first = |kb| Point::new("", "latency=first", kb);
    let longer = Value::Change(first(4), first(64));
    Table {
        title: "What is said without a table",
        first: "",
        columns: vec!["figure"],
        rows: vec![
            row(
                "compute/AI on Armv8, 64 kB base pages, 2 MiB",
                "10x",
                Here::Unmeasured(
                    "Base pages have 4 kB here, and what large folios save there is TLB misses, which QEMU does not have.",
                ),
            ),
            row(
                "kernel compilation, JavaScript",
                "no issues",
                Here::Unmeasured(
                    "There is neither a compiler nor a JavaScript engine for this kernel.",
                ),
            ),
            row(
                "a first touch, 64 kB folios beside 4 kB",
                "\"some latency regressions\"",
                Here::Cells(vec![Cell::Shown(longer)]),
            ),
        ],
        reasons: &[],
    }
}
