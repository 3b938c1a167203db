//! 000: what copying PTEs in batches is worth to fork, by folio size.
use super::Thread;
use super::table::{Cell, Here, Line, Point, Reason, Row, Table, Value};

pub(super) const THREAD: Thread = Thread {
    number: "000",
    subject: "\"mm/memory: optimize fork() with PTE-mapped THP\", v3",
    source: "linux-arm-kernel, 29 to 31 January 2024; 1 GiB. *Before* is here `account=per-page fork=per-pte zap=per-pte refs=per-pte rmap=per-pte`, \
             *after* `account=per-page fork=batch`, and `default` what this kernel does when nothing is said.",
    tables: || vec![by_size(), altra(), order_0()],
    notes: "Not measured: the time on a warm or a cold machine (\"first run up to 10 % faster\"), with or without a terminal (\"5-10 % slower\"), and \
            2.5 against 14 ms for one fork on two CPUs: all three are of real hardware. What a fork as Redis does it costs its writer stands \
            in [Snapshots](snapshot.md).",
};

/// An account as Linux's was, and what the series changes, off and on.
pub(super) const BEFORE: &str =
    "account=per-page fork=per-pte zap=per-pte refs=per-pte rmap=per-pte";
pub(super) const AFTER: &str = "account=per-page fork=batch";

/// By how many per cent an operation changes from one kernel to another.
pub(super) fn change(before: &'static str, after: &'static str, op: &str, kb: u32) -> Value {
    Value::Change(Point::new(before, op, kb), Point::new(after, op, kb))
}

/// Before, after, the change; and the default settings, which are not the series'.
fn cells(op: &str, kb: u32, there: f64) -> Vec<Cell> {
    vec![
        Cell::Cost(Point::new(BEFORE, op, kb)),
        Cell::Cost(Point::new(AFTER, op, kb)),
        Cell::Judged(change(BEFORE, AFTER, op, kb), vec![there]),
        Cell::Cost(Point::new("", op, kb)),
        Cell::Shown(change(BEFORE, "", op, kb)),
    ]
}

/// Folio in kB; seconds before and after; per cent.
const BY_SIZE: [(u32, &str, &str, f64); 9] = [
    (4, "0.014328", "0.014035", -2.0),
    (16, "0.014263", "0.01196", -16.0),
    (32, "0.014334", "0.01094", -24.0),
    (64, "0.014046", "0.010444", -26.0),
    (128, "0.014011", "0.010063", -28.0),
    (256, "0.013993", "0.009938", -29.0),
    (512, "0.013983", "0.00985", -30.0),
    (1024, "0.013986", "0.00982", -30.0),
    (2048, "0.014305", "0.010076", -30.0),
];

fn by_size() -> Table {
    let seconds = |text: &str| -> f64 { text.parse().expect("a time of the table") };
    let row = |(kb, before, after, there): (u32, &str, &str, f64)| {
        let flat = (seconds(before) / seconds(BY_SIZE[0].1) - 1.0) * 100.0;
        let to_4k = Value::Change(
            Point::new(BEFORE, "fork", 4),
            Point::new(BEFORE, "fork", kb),
        );
        let (change, flat_there) = (format!("{there}%"), format!("{flat:.1}%"));
        let texts = [before, after, &change, "", "", &flat_there];
        let mut cells = cells("fork", kb, there);
        cells.push(Cell::Judged(to_4k, vec![flat]));
        let line = Line::new("Xeon 4210R", texts);
        Row::new(format!("{kb}KiB"), [line], Here::Cells(cells))
    };
    Table {
        title: "fork of PTE-mapped folios of one size (there: seconds). The last column is v6.8-rc1 beside its own 4KiB: flat there",
        first: "Folio Size",
        columns: vec![
            "v6.8-rc1",
            "New",
            "Change",
            "default",
            "its change",
            "to 4KiB",
        ],
        rows: BY_SIZE.map(row).into(),
        reasons: &[Reason {
            rows: &[],
            columns: &["to 4KiB"],
            why: "Flat over all sizes but the first: a single page's references and mappings are one count here, changed by one \
                  read-modify-write, and a page of a larger folio has a mapcount beside the folio's references, by two.",
        }],
    }
}

/// Operation, order and per cent.
const ALTRA: [(&str, u8, f64); 6] = [
    ("fork", 0, -1.3),
    ("fork", 9, -7.6),
    ("dontneed", 0, -0.5),
    ("dontneed", 9, 0.1),
    ("munmap", 0, 0.0),
    ("munmap", 9, -67.9),
];

fn altra() -> Table {
    let row = |(op, order, there): (&str, u8, f64)| {
        let line = Line::new("Altra", ["", "", &format!("{there:.1}%"), "", ""]);
        let here = Here::Cells(cells(op, 4 << order, there));
        Row::new(format!("{op} order-{order}"), [line], here)
    };
    Table {
        title: "fork, MADV_DONTNEED page by page, munmap",
        first: "",
        columns: vec!["before", "after", "change", "default", "its change"],
        rows: ALTRA.map(row).into(),
        reasons: &[],
    }
}

const OTHER_VERSION: &str =
    "An older version of Linux's series, or another base of it, has no counterpart here.";

fn order_0() -> Table {
    let row =
        |kernel, there: [&str; 2], here| Row::new(kernel, [Line::new("Apple M2", there)], here);
    let base = Here::Unmeasured("It is what the others are measured by.");
    let v3 = Cell::Judged(change(BEFORE, AFTER, "fork", 4), vec![16.7]);
    let v3 = Here::Cells(vec![v3, Cell::Blank]);
    let v1 = || Here::Unmeasured(OTHER_VERSION);
    Table {
        title: "fork of order-0 folios, relative to before",
        first: "kernel",
        columns: vec!["mean_rel", "std_rel"],
        rows: vec![
            row("mm-unstable (base)", ["0.0%", "1.1%"], base),
            row("mm-unstable + v3", ["16.7%", "0.8%"], v3),
            row("mm-unstable + v1", ["-2.5%", "1.7%"], v1()),
            row("v6.8-rc1 + v1", ["-6.6%", "1.1%"], v1()),
        ],
        reasons: &[],
    }
}
