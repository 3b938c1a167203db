//! The table of a comparison: both kernels' figures and their ratio, the mean of the baseline, and
//! what is far from it.
use super::results::{COUNTED, Pair, Place, Results};
use crate::bench::geometric;
use crate::bench::plan::{BASELINE, SIZES};
use crate::columns::{Row, aligned, or_dash};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tools::args::Side;
use tools::host::arch::Arch;

/// A cell of the baseline above this part of Linux's figure is named below the table.
const HIGH: f64 = 0.45;
/// The same of what the plugin for QEMU counts.
const HIGH_COUNTED: f64 = 0.8;

/// All machines; empty when nothing was measured.
pub fn render(results: &Results) -> String {
    let mut text = unit("guest instructions", HIGH, &results.pairs, results);
    for ((_, title), pairs) in COUNTED.iter().zip(&results.counted) {
        text += &unit(title, HIGH_COUNTED, pairs, results);
    }
    text + &swaps(results) + &absent(results)
}

/// All machines in one unit.
fn unit(title: &str, limit: f64, pairs: &BTreeMap<Place, Pair>, results: &Results) -> String {
    let all: Vec<(&Place, &Pair)> = pairs.iter().collect();
    let (mut text, mut machines) = (String::new(), 0);
    for rows in all.chunk_by(|(one, _), (other, _)| one.arch == other.arch) {
        text += &machine(rows[0].0.arch, (title, limit), rows, results);
        machines += 1;
    }
    if machines > 1 {
        text += &mean("both machines", title, &all, machines);
    }
    text
}

fn machine(
    arch: Arch,
    (unit, limit): (&str, f64),
    rows: &[(&Place, &Pair)],
    results: &Results,
) -> String {
    let kernels = Side::ALL.map(|side| {
        let release = results.releases.get(&(arch, side));
        release.map(|release| format!("{} {release}", side.title()))
    });
    let kernels: Vec<String> = kernels.into_iter().flatten().collect();
    let kernels = kernels.join(", ");
    let mut text = format!("{arch}, {kernels}: {unit} per 4 KiB page (*: of the whole call)\n");
    let heads = ["operation", "folio", "Quire", "Linux", "ratio"].map(str::to_owned);
    let heads = [(heads.to_vec(), String::new())].into_iter();
    text += &aligned(&Vec::from_iter(heads.chain(rows.iter().map(row))));
    text += &mean(arch.name(), unit, rows, 1);
    text + &high(arch, limit, rows) + "\n"
}

fn row((place, pair): &(&Place, &Pair)) -> Row {
    let mark = if pair.whole { "*" } else { "" };
    let mut cells = vec![place.name() + mark, format!("{} kB", place.kb)];
    let [quire, linux] = pair.figures;
    cells.extend([quire, linux].map(|figure| or_dash(figure.map(|it| format!("{it:.1}")))));
    cells.extend(pair.ratio().map(|ratio| format!("{ratio:.2}")));
    (cells, String::new())
}

/// Whether a cell is one of the baseline's: an operation of it on one CPU, mapped by PTEs.
fn is_baseline(place: &Place) -> bool {
    BASELINE.contains(&place.op.as_str()) && !place.by_pmd && place.cpus == 1 && place.vmas == 0
}

/// The geometric mean of the baseline's ratios; empty when there is none.
fn mean(whose: &str, unit: &str, rows: &[(&Place, &Pair)], machines: usize) -> String {
    let rows = rows.iter().filter(|(place, _)| is_baseline(place));
    let ratios = rows.filter_map(|(_, pair)| pair.ratio());
    let ratios: Vec<f64> = ratios.filter(|ratio| *ratio > 0.0).collect();
    let Some(mean) = geometric(ratios.iter().copied()) else {
        return String::new();
    };
    let all = BASELINE.len() * SIZES.len() * machines;
    format!(
        "{whose}, {unit}: geometric mean of Quire / Linux {mean:.3}, over {} of the baseline's {all} cells\n",
        ratios.len()
    )
}

/// The cells that are far from the mean, a line for each operation: of the baseline those above
/// the limit, of the others those that cost more than on Linux.
fn high(arch: Arch, limit: f64, rows: &[(&Place, &Pair)]) -> String {
    if rows.iter().all(|(_, pair)| pair.ratio().is_none()) {
        return String::new();
    }
    let above = |place: &Place, ratio: f64| match is_baseline(place) {
        true => ratio > limit,
        false => ratio > 1.0,
    };
    let mut lines: Vec<(String, String)> = Vec::new();
    for (place, pair) in rows {
        let Some(ratio) = pair.ratio().filter(|ratio| above(place, *ratio)) else {
            continue;
        };
        let cell = format!("{} kB {ratio:.2}", place.kb);
        match lines.last_mut() {
            Some((name, cells)) if *name == place.name() => *cells += &format!(", {cell}"),
            _ => lines.push((place.name(), cell)),
        }
    }
    let mut text = format!(
        "{arch}: cells of the baseline above {limit:.2}, and others above 1.00:{}\n",
        if lines.is_empty() { " none" } else { "" }
    );
    for (name, cells) in lines {
        let _ = writeln!(text, "  {name}: {cells}");
    }
    text
}

fn swaps(results: &Results) -> String {
    let line = |((arch, side), to): (&(Arch, Side), &String)| {
        format!("{arch}, {}: swaps to {to}\n", side.title())
    };
    results.swaps.iter().map(line).collect()
}

fn absent(results: &Results) -> String {
    let mut text = String::new();
    for ((arch, side, why), ops) in &results.absent {
        let op = |(op, sizes): (&String, &BTreeSet<u64>)| {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            format!("{op} ({} kB)", sizes.join(", "))
        };
        let ops: Vec<String> = ops.iter().map(op).collect();
        let _ = writeln!(text, "{arch}, {}: {why}: {}", side.title(), ops.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{has, lacks};
    use serde_json::json;

    fn place(arch: Arch, op: &str, kb: u64) -> Place {
        Place {
            arch,
            row: BASELINE.iter().position(|name| *name == op).unwrap_or(99),
            op: op.to_owned(),
            cpus: 1,
            by_pmd: false,
            kb,
            vmas: 0,
        }
    }

    fn measured() -> Results {
        let mut results = Results::default();
        for arch in Arch::ALL {
            let mut add = |place: &Place, figures: [f64; 2], whole| {
                for (side, figure) in Side::ALL.into_iter().zip(figures) {
                    results.add(place.clone(), side, figure, whole);
                }
            };
            add(&place(arch, "mremap", 64), [50.0, 500.0], true);
            add(&place(arch, "fork", 64), [40.0, 100.0], false);
            let by_pmd = Place {
                by_pmd: true,
                ..place(arch, "fork", 2048)
            };
            add(&by_pmd, [7.0, 10.0], false);
            add(&place(arch, "cow", 4), [5.0, 10.0], false);
            results.add(place(arch, "exit", 4), Side::Quire, 3.0, false);
            let release = "7.2.13".to_owned();
            results.releases.insert((arch, Side::Linux), release);
        }
        results
    }

    #[test]
    fn rows_with_ratios_in_the_order_of_the_list() {
        let text = render(&measured());
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[0].starts_with("x86_64, Linux 7.2.13: guest"), "{text}");
        for (row, begins, ends) in [
            (2, "fork ", " 40.0  100.0   0.40"),
            (3, "fork pmd ", " 0.70"),
            (5, "mremap* ", " 0.10"),
            (6, "exit ", " 3.0      -"),
        ] {
            let is_there = rows[row].starts_with(begins) && rows[row].ends_with(ends);
            assert!(is_there, "{begins}: {text}");
        }
    }

    #[test]
    fn the_mean_is_of_the_baseline_alone() {
        let text = render(&measured());
        for line in [
            "x86_64, guest instructions: geometric mean of Quire / Linux 0.271, over 3 of the baseline's 90 cells\n",
            "both machines, guest instructions: geometric mean of Quire / Linux 0.271, over 6 of the baseline's 180 cells\n",
            "aarch64: cells of the baseline above 0.45, and others above 1.00:\n  cow: 4 kB 0.50\n",
        ] {
            has(&text, line);
        }
    }

    #[test]
    fn what_the_plugin_counted_has_its_own_tables() {
        let mut results = measured();
        let place = place(Arch::X86_64, "fork", 64);
        for (side, lines) in Side::ALL.into_iter().zip([300, 400]) {
            let line = json!({"pages": 100, "lines_touched": lines});
            results.add_counted(&place, side, &line);
        }
        let text = render(&results);
        has(&text, ": cache lines touched per 4 KiB page");
        has(&text, "    3.0    4.0   0.75\n");
        lacks(&text, "cycles");
    }

    #[test]
    fn a_model_that_reads_no_tables_counts_nothing() {
        let mut results = measured();
        let line = json!({
            "pages": 100, "lines_touched": 300, "cycles_estimated": 5000,
            "walks": 50, "unresolved": 9,
        });
        for arch in Arch::ALL {
            results.add_counted(&place(arch, "fork", 64), Side::Linux, &line);
        }
        let text = render(&results);
        lacks(&text, "estimated cycles");
        has(&text, "x86_64, Linux 7.2.13: cache lines");
        lacks(&text, "aarch64, Linux 7.2.13: cache");
        has(&text, "no misses and cycles of: fork (64 kB)");
    }

    #[test]
    fn what_a_kernel_lacks_is_said() {
        let mut results = measured();
        let why = "no MADV_COLLAPSE";
        results.lacks(Arch::X86_64, Side::Linux, why, "collapse", 64);
        let text = render(&results);
        has(&text, "x86_64, Linux: no MADV_COLLAPSE: collapse (64 kB)\n");
    }

    #[test]
    fn one_kernel_alone_has_no_ratio() {
        let mut results = Results::default();
        results.add(place(Arch::X86_64, "fork", 4), Side::Quire, 3.0, false);
        let text = render(&results);
        lacks(&text, "mean");
        lacks(&text, "above");
        assert_eq!(render(&Results::default()), "");
    }
}
