//! The figures as a table: a row for each cell, a column for each run.
use super::cells::{Cell, Cells, Column, Key};
use super::floor;
use super::golden::Counts;
use super::plan::{BASELINE, OPS};
use super::target::{PAIRS, Pair, Verdict, judge};
use crate::columns::{Row, aligned, or_dash};
use std::collections::BTreeSet;
use std::fmt::Write;
use tools::host::arch::Arch;

/// The table of one machine. Ratios and targets are those of the first run, against the baseline.
pub fn render(arch: Arch, baseline: &Counts, columns: &[Column]) -> String {
    let mut text = format!("{arch}: guest instructions per 4 KiB page; mremap: the whole call\n");
    let place = |key: &Key| OPS.iter().position(|name| *name == key.op);
    let all = columns.iter().flat_map(|column| column.cells.keys());
    let mut keys: Vec<&Key> = all.filter(|key| place(key).is_some()).collect();
    keys.sort_by_key(|key| (place(key), key.kb, key.vmas));
    keys.dedup();
    if !keys.is_empty() {
        let rows = keys.iter().map(|key| row(arch, baseline, columns, key));
        text += &aligned(
            &[headings(columns)]
                .into_iter()
                .chain(rows)
                .collect::<Vec<_>>(),
        );
    }
    for pair in &PAIRS {
        text += &compared(columns, pair);
    }
    text += &means(arch, baseline, columns);
    columns
        .iter()
        .for_each(|column| text += &beside(arch, column));
    text
}

/// A line with the means of the first run over the operations of the baseline, beside Linux and the
/// floor; empty for other operations.
fn means(arch: Arch, baseline: &Counts, columns: &[Column]) -> String {
    let is_counted = |key: &Key| key.vmas == 0 && BASELINE.contains(&key.op.as_str());
    let ours = columns.first().into_iter().flat_map(|column| &column.cells);
    let ours: Vec<(&Key, &Cell)> = ours.filter(|(key, _)| is_counted(key)).collect();
    let mean = |below: &dyn Fn(&Key) -> Option<f64>| {
        let ratio = |(key, cell): &(&Key, &Cell)| Some(cell.figure / below(key)?);
        geometric(ours.iter().filter_map(ratio))
    };
    let linux = mean(&|key| baseline.get(&(key.op.clone(), key.kb)).copied());
    match (linux, mean(&|key| floor::floor(arch, key))) {
        (Some(linux), Some(least)) => format!(
            "geometric mean of {} cells: {linux:.3} of Linux, {least:.2} times the floor\n",
            ours.len()
        ),
        _ => String::new(),
    }
}

/// The geometric mean; `None` of nothing.
pub fn geometric(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = ratios.into_iter().map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Above the rows.
fn headings(columns: &[Column]) -> Row {
    let labels = columns.iter().map(|column| column.label.as_str());
    let cells = ["operation", "folio"].into_iter().chain(labels);
    let cells = cells.chain(["baseline", "ratio", "floor", "times"]);
    (cells.map(str::to_owned).collect(), String::new())
}

/// What programs beside the bench measured in a run: a table for each, with a row for each cell and
/// a column for each field of its line.
fn beside(arch: Arch, column: &Column) -> String {
    let others = column.cells.iter();
    let others = others.filter(|(key, _)| !OPS.contains(&key.op.as_str()));
    let mut others: Vec<(&Key, &Cell)> = others.collect();
    let program = |key: &Key| key.op.split(['=', '/']).next().map(str::to_owned);
    let number = |key: &Key| key.op.split_once('/')?.1.parse::<u64>().ok();
    others.sort_by_key(|(key, _)| (program(key), key.kb, number(key)));
    let mut text = String::new();
    for cells in others.chunk_by(|one, other| program(one.0) == program(other.0)) {
        let fields = cells[0].1.line.as_object().into_iter().flatten();
        let fields = fields.filter(|(name, value)| {
            !["folio_kb", "whole"].contains(&name.as_str()) && !value.is_string()
        });
        let fields: Vec<&str> = fields.map(|(name, _)| name.as_str()).collect();
        let heads = [&[column.label.as_str(), "folio", "whole"], &fields[..]].concat();
        let mut rows = vec![(
            heads.into_iter().map(str::to_owned).collect(),
            String::new(),
        )];
        for (key, cell) in cells {
            let mut row = vec![key.op.clone(), format!("{} kB", key.kb)];
            row.push(cell.figure.to_string());
            let value = |name: &&str| Some(&cell.line[*name]).filter(|value| !value.is_null());
            row.extend(fields.iter().map(|name| or_dash(value(name))));
            rows.push((row, said(judge(arch, key, cell, None, None))));
        }
        text += &format!("\n{}", aligned(&rows));
    }
    text
}

/// A verdict as it stands behind a row: two blanks come before it.
fn said(verdict: Verdict) -> String {
    match verdict {
        Verdict::None => String::new(),
        Verdict::Met => "met".to_owned(),
        Verdict::Missed(limit) => format!("missed ({limit:.1})"),
        Verdict::Waited(times) => format!("missed (waited {times} times)"),
    }
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

fn row(arch: Arch, baseline: &Counts, columns: &[Column], key: &Key) -> Row {
    let name = match key.vmas {
        0 => key.op.clone(),
        vmas => format!("{} {vmas}", key.op),
    };
    let mut cells = vec![name, format!("{} kB", key.kb)];
    cells.extend(columns.iter().map(|column| {
        let cell = column.cells.get(key);
        or_dash(cell.map(|cell| format!("{:.1}", cell.figure)))
    }));
    let linux = baseline.get(&(key.op.clone(), key.kb)).copied();
    cells.push(or_dash(linux));
    let ours = columns.first();
    let Some((ours, cell)) = ours.and_then(|ours| Some((ours, ours.cells.get(key)?))) else {
        return (cells, String::new());
    };
    let floor = floor::floor(arch, key);
    let beside = [
        linux.map(|linux| format!("{:.2}", cell.figure / linux)),
        floor.map(floor::shown),
        floor.map(|floor| format!("{:.1}", cell.figure / floor)),
    ];
    cells.extend(beside.map(Option::unwrap_or_default));
    let few = ours.cells.get(&Key {
        vmas: 1,
        ..key.clone()
    });
    let mut end = said(judge(arch, key, cell, linux, few.map(|cell| cell.figure)));
    for name in shown(&key.op) {
        let _ = write!(end, " {name} {}", cell.counter(name));
    }
    if cell.line["lock_waits"].is_u64() {
        between_cpus(arch, cell, &mut end);
    }
    (cells, end)
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

/// For tests: the table of cells that miss targets of their own.
pub fn missed_targets(arch: Arch, cells: Cells) -> Option<String> {
    let label = "Quire".to_owned();
    let text = render(arch, &Counts::new(), &[Column { label, cells }]);
    (missed(&text) > 0).then_some(text)
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
        let label = label.to_owned();
        Column { label, cells }
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
    fn means_are_of_the_baselines_operations_only() {
        let of = |cells: &[(&str, f64)]| {
            let mut column = column("Quire", 0.0);
            column.cells.clear();
            for (op, figure) in cells {
                let (figure, line) = (*figure, Value::Null);
                column.cells.insert(Key::new(op, 4), Cell { figure, line });
            }
            let baseline = [("munmap", 800.0), ("dontneed", 3200.0)];
            let baseline = baseline.map(|(op, figure)| ((op.to_owned(), 4), figure));
            means(Arch::X86_64, &baseline.into(), &[column])
        };
        // A half and an eighth of Linux: a quarter in the mean.
        let text = of(&[("munmap", 400.0), ("dontneed", 400.0), ("exit", 5.0)]);
        has(&text, "geometric mean of 2 cells: 0.250 of Linux, ");
        assert_eq!(of(&[("exit", 5.0)]), "");
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
        let mut column = column("fork=share", 1.0);
        column.cells.clear();
        for (op, kb, figure) in [
            ("move=pud/16", 4, 2.0),
            ("latency=fork", 64, 7.0),
            ("move=pgd/2048", 4, 4_001.0),
        ] {
            let line = serde_json::json!({"op": op, "largest": 9, "copied": null, "whole": figure});
            column.cells.insert(Key::new(op, kb), Cell { figure, line });
        }
        let text = render(Arch::X86_64, &Counts::new(), &[column]);
        let (_, tables) = text.split_once("whole call\n").unwrap();
        let expected = "
fork=share    folio  whole  copied  largest
latency=fork  64 kB      7       -        9

fork=share     folio  whole  copied  largest
move=pud/16     4 kB      2       -        9
move=pgd/2048   4 kB   4001       -        9  missed (4000.0)
";
        assert_eq!(tables, expected);
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
