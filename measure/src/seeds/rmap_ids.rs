//! 004: the cost of tracking whether a folio is mapped by one process, stage by stage.
use super::Thread;
use super::table::{Cell, Here, Line, Point, Reason, Row, Table, Value};
use crate::bench;

pub(super) const THREAD: Thread = Thread {
    number: "004",
    subject: "\"mm: precise 'mapped shared' vs. 'mapped exclusively' detection for PTE-mapped THP\"",
    source: "linux-mm, 24 November 2023; 1 GiB of PTE-mapped folios of 2 MiB. The stages are those of `./run.sh bench --ablation`, whose words stand in \
             [Ownership](ownership.md).",
    tables: || vec![micro(), scalability(), atomics(), survivors()],
    notes: "\"Aren't we consuming a lot of memmap space? [...] 8 byte for order-2, 16 byte order-5 and 32 byte for order-10\": the default scheme has one \
            word, of 8 bytes up to order 4 and of 16 above, and neither a seqcount nor counts for single pages beside it.\n\n\
            Section 7.3 runs on 20 and 32 cores. The account is a crate of its own, so that it can be tried on as many as the host has: \
            `cargo bench -p own --bench contention -- 8` prints nanoseconds of each round of a thread for 1 to 8 threads and each scheme, \
            one folio after the other (seq) and at random (rand), in this form:\n\n\
            ```text\n\
            ns for each round of a thread; threads: one after the other, then at random\n\
            scheme            order        1        2  ..           1        2  ..\n\
            unified               2\n\
            ```",
};

/// The stages after the first, in the thread's order, which are compared with that.
fn stages() -> &'static [(&'static str, &'static str)] {
    &bench::SETTINGS[1..bench::STAGES]
}

/// The words of a stage.
fn stage(name: &str) -> &'static str {
    let found = bench::SETTINGS.iter().find(|(known, _)| *known == name);
    found.expect("the ablation has the thread's stages").1
}

/// Operations of the bench, and as they are called there.
const OPS: [(&str, &str); 8] = [
    ("remap", "(1) remap"),
    ("munmap", "(2) munmap"),
    ("fork", "(3) fork"),
    ("cow", "(4) cow"),
    ("cow-byte", "(5) cow-byte"),
    ("reuse", "(6) reuse"),
    ("reuse-byte", "(7) reuse-byte"),
    ("dontneed", "(8) dontneed"),
];

/// Section 7.2 on the Intel and on the AMD machine: a row for each stage after the first.
const INTEL: [[f64; 8]; 7] = [
    [13.4, 0.3, 14.2, 0.5, 0.2, -0.2, -0.4, 2.8],
    [123.7, 48.8, 105.9, 3.0, 3.2, -30.0, -64.2, 14.8],
    [108.7, 42.1, 93.3, 1.7, 2.7, -30.0, -64.3, 12.9],
    [-8.1, 41.4, 95.5, 1.5, 2.2, -29.7, -64.2, 5.7],
    [-8.8, 15.1, 40.5, 1.1, 0.9, -29.6, -64.0, 1.1],
    [-10.4, 12.6, 46.4, 0.9, 1.4, -30.0, -64.3, 0.8],
    [-34.8, 1.0, 27.8, 0.7, 0.4, -30.0, -63.9, -0.5],
];
const AMD: [[f64; 8]; 7] = [
    [24.3, 1.8, 25.9, 1.5, 2.6, 1.4, 1.9, 4.5],
    [55.4, 12.5, 27.9, 2.6, 4.3, -50.4, -60.9, 6.3],
    [45.6, 6.3, 30.4, 2.9, 4.1, -51.1, -60.5, 6.7],
    [-9.6, 7.2, 31.5, 2.1, 3.0, -51.1, -60.7, 4.0],
    [-10.8, 14.0, 48.4, 0.5, 2.3, -51.4, -61.0, 5.0],
    [-11.3, 25.9, 55.7, 2.0, 3.3, -50.9, -60.2, 3.4],
    [-21.8, 16.1, 43.0, 3.2, 4.8, -50.2, -60.8, 5.8],
];

/// A line of per cents.
fn line(machine: &'static str, figures: &[f64]) -> Line {
    Line::new(
        machine,
        figures.iter().map(|figure| format!("{figure:.1}%")),
    )
}

fn micro() -> Table {
    let row = |(n, (name, words)): (usize, &(&'static str, &'static str))| {
        let cell = |(op, (bench, _)): (usize, &(&str, &str))| {
            let point = |stage| Point::new(stage, bench, 2048);
            let value = Value::Change(point(bench::SETTINGS[0].1), point(words));
            Cell::Judged(value, vec![INTEL[n][op], AMD[n][op]])
        };
        let lines = [line("Intel", &INTEL[n]), line("AMD", &AMD[n])];
        let cells = OPS.iter().enumerate().map(cell);
        Row::new(*name, lines, Here::Cells(cells.collect()))
    };
    Table {
        title: "7.2 Micro benchmark: change in runtime compared to the baseline",
        first: "",
        columns: OPS.map(|(_, name)| name).into(),
        rows: stages().iter().enumerate().map(row).collect(),
        reasons: MICRO,
    }
}

const MICRO: &[Reason] = &[
    Reason {
        rows: &[],
        columns: &["(4) cow", "(5) cow-byte"],
        why: "The same additions are a larger part of less: a fault costs about a third of Linux's here ([baseline](linux-baseline.md)), \
              and where instructions are counted the copy of a page is cheap (512 on x86_64, 28 on aarch64), while real CPUs wait for memory \
              most of the time.",
    },
    Reason {
        rows: &["exclusive", "nocmpxchg", "all"],
        columns: &[],
        why: "These stages put plain additions in the place of read-modify-writes, which is as many instructions. How many fewer \
              there are shows [Ownership](ownership.md) in brackets; what each is worth depends on the CPU, and the thread's own two \
              disagree even about the sign.",
    },
    Reason {
        rows: &[],
        columns: &[],
        why: "Where instructions are counted, the sub-ids that are added one after the other weigh as much as the rest of the operation. On real \
              CPUs that rest waits, for the folio's data in memory and for the read-modify-writes of the baseline, which hides a \
              part of the additions: the thread's two machines differ by up to a factor of four.",
    },
];

/// Section 7.3, sequential and random, on both machines.
const SCALABILITY: [[[f64; 2]; 2]; 7] = [
    [[-8.2, -0.1], [-2.1, -0.1]],
    [[-16.2, -0.3], [-10.4, -0.1]],
    [[-12.3, -0.3], [-10.8, -0.7]],
    [[-8.3, -0.4], [-3.8, -0.1]],
    [[-7.1, 0.4], [-4.2, 0.0]],
    [[-6.6, -0.3], [-4.6, 0.0]],
    [[-5.6, -0.3], [-4.5, -0.5]],
];

fn scalability() -> Table {
    let row = |((name, _), [intel, amd]): (&(&str, &str), &[[f64; 2]; 2])| {
        let lines = [line("Intel", intel), line("AMD", amd)];
        let here = Here::Unmeasured(
            "QEMU's instructions are no throughput: `./run.sh bench --smp 8 --op cow-seq,cow-rand` compares them. The account itself is measured on the host's CPUs, see below.",
        );
        Row::new(*name, lines, here)
    };
    Table {
        title: "7.3 VM scalability: change in throughput of anon-cow-seq and anon-cow-rand compared to the baseline",
        first: "",
        columns: vec!["seq", "rand"],
        rows: stages().iter().zip(&SCALABILITY).map(row).collect(),
        reasons: &[],
    }
}

/// Order, and the values that the folio has by the table of section 3; stage rmap-id has four for
/// all.
const VALUES: [(u8, f64); 3] = [(2, 1.0), (5, 2.0), (9, 3.0)];

fn atomics() -> Table {
    let more = |name: &str, order: u8| {
        let point = |name| Point::new(stage(name), "dontneed", 4 << order);
        Value::More(point("mapcount"), point(name), "account_atomics")
    };
    // The seqcount takes two.
    let there = |values: f64| values + 2.0;
    let measured = VALUES.map(|(order, values)| {
        let of_values = [4.0, values].map(there);
        let cells = vec![
            Cell::Judged(more("rmap-id", order), vec![of_values[0]]),
            Cell::Judged(more("123", order), vec![of_values[1]]),
        ];
        let line = Line::new("there", of_values.map(|count| format!("{count:.2}")));
        Row::new(format!("order-{order}"), [line], Here::Cells(cells))
    });
    let larger = [("order-10", "4"), ("order-12", "5"), ("order-15", "6")];
    let larger = larger.map(|(order, values)| {
        let line = Line::new("there", [String::new(), format!("2 + {values}")]);
        let why = "The largest folio is of order 9: pages have 4 kB.";
        Row::new(order, [line], Here::Unmeasured(why))
    });
    Table {
        title: "3. and 5.: atomic read-modify-writes of a page that goes alone, beyond stage mapcount: the seqcount's two, and one for each rmap value. \
                Here a sub-id that is 0 is skipped, as section 9 proposes, and of a small id all but one are",
        first: "",
        columns: vec!["rmap-id", "123"],
        rows: measured.into_iter().chain(larger).collect(),
        reasons: &[],
    }
}

fn survivors() -> Table {
    let copies = |words: &'static str, op: &str, kb: u32, sample: u64, thread: f64| {
        let point = Point {
            sample,
            ..Point::new(words, op, kb)
        };
        Cell::Judged(Value::PerPage(point, "pages_copied"), vec![thread])
    };
    let row = |kb: u32| {
        let before = if kb == 4 { 0.0 } else { 1.0 };
        let texts = [before, 0.0, 0.0, 0.0, 0.0, 0.0].map(|copies| format!("{copies:.2}"));
        let mut cells = vec![
            copies(stage("mapcount"), "reuse-byte", kb, 0, before),
            copies("", "reuse-byte", kb, 0, 0.0),
        ];
        cells.extend((1..=4).map(|sample| copies("", "survivor", kb, sample, 0.0)));
        let line = Line::new("there", texts);
        Row::new(format!("{kb} kB"), [line], Here::Cells(cells))
    };
    Table {
        title: "2. (b): copies for each page that is written. \"For now, we always copy and never reuse\" PTE-mapped folios after fork; then none, whoever \
                of all processes is left: here of a parent and its child, and of four",
        first: "folios",
        columns: vec![
            "mapcount",
            "child ended",
            "parent left",
            "child 1 left",
            "child 2 left",
            "child 3 left",
        ],
        rows: [4, 16, 64, 2048].map(row).into(),
        reasons: &[],
    }
}
