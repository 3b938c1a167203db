//! 001: copying PTE ranges in batches, before it had a path of its own for single pages.
use super::Thread;
use super::batched_fork::{AFTER, BEFORE, change};
use super::table::{Cell, Here, Line, Row, Table};

pub(super) const THREAD: Thread = Thread {
    number: "001",
    subject: "\"mm: Batch-copy PTE ranges during fork()\", v3, patch 1",
    source: "linux-arm-kernel, 4 December 2023; fork of 1 GiB. Here from `account=per-page fork=per-pte zap=per-pte refs=per-pte rmap=per-pte` to \
             `account=per-page fork=batch rmap=per-pte`, and in the last row from there to `account=per-page fork=batch`.",
    tables: || vec![table()],
    notes: "",
};

/// References in batches, mapcounts one by one.
const REFS: &str = "account=per-page fork=batch rmap=per-pte";

fn table() -> Table {
    let row = |name, there, on: [&'static str; 2], kb, thread: &[f64]| {
        let cell = Cell::Judged(change(on[0], on[1], "fork", kb), thread.into());
        Row::new(name, [Line::new("there", [there])], Here::Cells(vec![cell]))
    };
    let last = "order-9, rmap batched, too";
    Table {
        title: "fork (\"with all order-0 pages it gets 13--14% slower and with all PTE-mapped THP (order-9) ~29--30% faster\")",
        first: "",
        columns: vec!["change"],
        rows: vec![
            row("order-0", "13 to 14%", [BEFORE, REFS], 4, &[13.0, 14.0]),
            row(
                "order-9",
                "-29 to -30%",
                [BEFORE, REFS],
                2048,
                &[-29.0, -30.0],
            ),
            row(last, "another -1%", [REFS, AFTER], 2048, &[-1.0]),
        ],
        reasons: &[],
    }
}
