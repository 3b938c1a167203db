//! The figures as a table: a row for each cell, a column for each run.
use super::cells::{Cell, Cells, Column, Key, or_dash};
use super::floor;
use super::golden::Counts;
use super::means;
use super::moves;
use super::plan::OPS;
use super::target::{PAIRS, Pair, Verdict, judge};
use std::collections::BTreeSet;
use std::fmt::Write;
use tools::host::arch::Arch;

/// The table of one machine. Ratios and targets are those of the first run, against the baseline.
pub fn render(arch: Arch, baseline: &Counts, columns: &[Column]) -> String {
    let mut text = format!("{arch}: guest instructions per 4 KiB page; mremap: the whole call\n");
    let mut keys: Vec<&Key> = columns
        .iter()
        .flat_map(|column| column.cells.keys())
        .filter(|key| OPS.contains(&&*key.op))
        .collect();
    let place = |op: &str| OPS.iter().position(|name| *name == op).unwrap_or(OPS.len());
    keys.sort_by_key(|key| (place(&key.op), key.kb, key.vmas));
    keys.dedup();
    if !keys.is_empty() {
        text += &headings(columns);
    }
    for key in keys {
        text += row(arch, baseline, columns, key).trim_end();
        text.push('\n');
    }
    for pair in &PAIRS {
        text += &compared(columns, pair);
    }
    text += &means::render(arch, baseline, columns);
    text += &moves::render(columns);
    for column in columns {
        for table in &column.tables {
            let _ = write!(text, "\n{}: {table}", column.label);
        }
    }
    text
}

/// Characters of a column, with the blanks before it.
fn width(column: &Column) -> usize {
    2 + column.label.len().max(11)
}

/// Above the rows.
fn headings(columns: &[Column]) -> String {
    let mut text = format!("{:12}{:>8}", "operation", "folio");
    for column in columns {
        let _ = write!(text, "{:>1$}", column.label, width(column));
    }
    let _ = writeln!(
        text,
        "{:>10}{:>7}{:>8}{:>7}",
        "baseline", "ratio", "floor", "times"
    );
    text
}

/// A line for each cell that both settings of a pair have.
fn compared(columns: &[Column], (op, kb, one, other, limit): &Pair) -> String {
    let find = |label: &str| columns.iter().find(|column| column.label == label);
    let (Some(ours), Some(theirs)) = (find(one), find(other)) else {
        return String::new();
    };
    let mut text = String::new();
    let wanted = |key: &Key| key.op == *op && kb.is_none_or(|kb| kb == key.kb);
    for (key, cell) in ours.cells.iter().filter(|(key, _)| wanted(key)) {
        let Some(there) = theirs.cells.get(key) else {
            continue;
        };
        let ratio = cell.figure / there.figure;
        let verdict = if ratio <= *limit { "met" } else { "missed" };
        let _ = writeln!(
            text,
            "{op} {} kB: {one} is {ratio:.3} of {other}, at most {limit:.2}  {verdict}",
            key.kb
        );
    }
    text
}

fn row(arch: Arch, baseline: &Counts, columns: &[Column], key: &Key) -> String {
    let name = match key.vmas {
        0 => key.op.clone(),
        vmas => format!("{} {vmas}", key.op),
    };
    let mut text = format!("{name:12}{:>5} kB", key.kb);
    for column in columns {
        let cell = column.cells.get(key);
        let figure = or_dash(cell.map(|cell| format!("{:.1}", cell.figure)));
        let _ = write!(text, "{:>1$}", figure, width(column));
    }
    let linux = baseline.get(&(key.op.clone(), key.kb)).copied();
    let _ = write!(text, "{:>10}", or_dash(linux));
    let ours = columns.first();
    let Some((ours, cell)) = ours.and_then(|ours| Some((ours, ours.cells.get(key)?))) else {
        return text;
    };
    match linux {
        Some(linux) => _ = write!(text, "{:>7.2}", cell.figure / linux),
        None => _ = write!(text, "{:>7}", ""),
    }
    match floor::floor(arch, key) {
        Some(floor) => {
            let _ = write!(
                text,
                "{:>8}{:>7.1}",
                floor::shown(floor),
                cell.figure / floor
            );
        }
        None => _ = write!(text, "{:>15}", ""),
    }
    let few = ours.cells.get(&Key {
        vmas: 1,
        ..key.clone()
    });
    match judge(arch, key, cell, linux, few.map(|cell| cell.figure)) {
        Verdict::None => {}
        Verdict::Met => text += "  met",
        Verdict::Missed(limit) => _ = write!(text, "  missed ({limit:.1})"),
        Verdict::Waited(times) => _ = write!(text, "  missed (waited {times} times)"),
    }
    for name in shown(&key.op) {
        let _ = write!(text, " {name} {}", cell.counter(name));
    }
    if cell.line["lock_waits"].is_u64() {
        between_cpus(arch, cell, &mut text);
    }
    text
}

/// What a line has with several CPUs, whatever the operation, and the locks that were waited for.
fn between_cpus(arch: Arch, cell: &Cell, text: &mut String) {
    // Where hardware tells all CPUs of a flush, none is asked.
    let asked = (arch == Arch::X86_64).then_some("cpu_flush_requests");
    let names = ["cpu_interrupts"].into_iter().chain(asked);
    for name in names.chain(["fault_retried", "page_tables_unlinked", "lock_waits"]) {
        let _ = write!(text, " {name} {}", cell.counter(name));
    }
    for (rank, waits) in cell.waits().filter(|(_, waits)| *waits > 0) {
        let looks = cell.counter(&format!("lock_looks_{rank}"));
        let _ = write!(text, " {rank} {waits} ({looks} looks)");
    }
}

/// The counters by which an operation is judged.
fn shown(op: &str) -> &'static [&'static str] {
    match op {
        "touch1g" => &["pgfault", "account_updates"],
        "updates" => &["account_atomics"],
        "survivor" => &["pgfault", "pages_copied"],
        _ => &[],
    }
}

/// How many targets were met and missed, of the first run.
pub fn summary(text: &str) -> String {
    let met = text.matches("  met").count();
    format!("targets: {met} met, {} missed", missed(text))
}

/// How many targets were missed.
pub fn missed(text: &str) -> usize {
    text.matches("  missed").count()
}

/// Rows of two runs that differ, for a test.
pub fn differences(one: &Cells, other: &Cells) -> Vec<String> {
    let keys: BTreeSet<&Key> = one.keys().chain(other.keys()).collect();
    let differing = keys
        .into_iter()
        .filter(|key| one.get(key) != other.get(key));
    differing
        .map(|key| format!("{key:?}: {:?}, {:?}", one.get(key), other.get(key)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::golden;
    use crate::testing::{has, lacks};
    use serde_json::Value;

    fn column(label: &str, figure: f64) -> Column {
        let cell = Cell {
            figure,
            line: Value::Null,
        };
        let cells = [
            (Key::new("munmap", 4), cell.clone()),
            (Key::new("fault", 64), cell),
        ]
        .into();
        Column {
            cells,
            ..Column::of(label)
        }
    }

    #[test]
    fn rows_in_order_with_ratio_and_target() {
        let baseline = golden::linux(Arch::X86_64).unwrap();
        let text = render(Arch::X86_64, &baseline, &[column("Quire", 444.0)]);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert!(
            rows[0].starts_with("fault") && rows[0].contains("0.44 ") && rows[0].ends_with("  met"),
            "{text}"
        );
        assert!(
            rows[1].contains("888   0.50 ") && rows[1].ends_with("  missed (266.4)"),
            "{text}"
        );
        assert_eq!(summary(&text), "targets: 1 met, 1 missed");
    }

    #[test]
    fn several_cpus_show_what_they_cost_each_other() {
        let baseline = golden::linux(Arch::X86_64).unwrap();
        let mut column = column("Quire", 444.0);
        for cell in column.cells.values_mut() {
            cell.line = serde_json::json!({
                "lock_waits": 7, "cpu_interrupts": 0, "page_tables_unlinked": 32,
                "lock_waits_zone": 7, "lock_looks_zone": 90, "lock_waits_node": 0,
            });
        }
        let rest = "fault_retried 0 page_tables_unlinked 32 lock_waits 7 zone 7 (90 looks)";
        for (arch, end) in [
            (Arch::X86_64, " cpu_interrupts 0 cpu_flush_requests 0 "),
            (Arch::Aarch64, " cpu_interrupts 0 "),
        ] {
            let text = render(arch, &baseline, std::slice::from_ref(&column));
            let end = format!("{end}{rest}");
            let shown = |line: &&str| line.ends_with(&end);
            assert_eq!(text.lines().filter(shown).count(), 2, "{text}");
        }
        // With one CPU nothing is between CPUs.
        for cell in column.cells.values_mut() {
            cell.line = serde_json::json!({"page_tables_unlinked": 32});
        }
        let text = render(Arch::X86_64, &baseline, &[column]);
        lacks(&text, "page_tables_unlinked");
    }

    #[test]
    fn programs_beside_the_bench_have_tables_of_their_own() {
        let mut column = Column::of("fork=share");
        column.cells = [(Key::new("latency=fork", 4), Cell::default())].into();
        column.tables.push("one event\n".to_owned());
        let text = render(Arch::X86_64, &Counts::new(), &[column]);
        assert!(
            text.ends_with("whole call\n\nfork=share: one event\n"),
            "{text}"
        );
    }

    #[test]
    fn settings_against_each_other() {
        let baseline = golden::linux(Arch::X86_64).unwrap();
        let mut columns = [column("contpte=on", 10.0), column("contpte=off", 9.0)];
        for column in &mut columns {
            let cell = column.cells.first_key_value().unwrap().1.clone();
            column.cells.insert(Key::new("fork", 64), cell);
        }
        let text = render(Arch::X86_64, &baseline, &columns);
        let line = "fork 64 kB: contpte=on is 1.111 of contpte=off, at most 1.00  missed";
        has(&text, line);
    }
}
