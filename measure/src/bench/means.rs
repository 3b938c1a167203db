//! Geometric means over the cells of a run: of its ratio to Linux, and to the floor.
use super::baseline;
use super::cells::Key;
use super::column::Column;
use super::floor;
use super::plan::BASELINE;
use std::fmt::Write;
use tools::host::arch::Arch;

/// A line with the means of the first run of Quire over the operations of the baseline; empty for
/// other operations. Linux in the same run goes before the baseline.
pub fn render(arch: Arch, baseline: &baseline::Table, columns: &[Column]) -> String {
    let Some(ours) = columns.iter().find(|column| !column.linux) else {
        return String::new();
    };
    let here = columns.iter().find(|column| column.linux);
    let (mut linux, mut least) = (Mean::default(), Mean::default());
    let cells = ours.cells.iter().filter(|(key, _)| is_counted(key));
    for (key, cell) in cells {
        let measured = here.and_then(|here| Some(here.cells.get(key)?.figure));
        let there = baseline.get(&(key.op.clone(), key.kb)).copied();
        if let Some(there) = measured.or(there) {
            linux.add(cell.figure / there);
        }
        if let Some(floor) = floor::floor(arch, key) {
            least.add(cell.figure / floor);
        }
    }
    let mut text = String::new();
    if let (Some(linux), Some(least)) = (linux.get(), least.get()) {
        let _ = writeln!(
            text,
            "geometric mean of {} cells: {linux:.3} of Linux, {least:.2} times the floor",
            ours.cells.keys().filter(|key| is_counted(key)).count()
        );
    }
    text
}

fn is_counted(key: &Key) -> bool {
    key.vmas == 0 && BASELINE.contains(&key.op.as_str())
}

/// A geometric mean.
#[derive(Default)]
struct Mean {
    logs: f64,
    n: u32,
}

impl Mean {
    fn add(&mut self, ratio: f64) {
        self.logs += ratio.ln();
        self.n += 1;
    }
    /// `None` of nothing.
    fn get(&self) -> Option<f64> {
        (self.n > 0).then(|| (self.logs / f64::from(self.n)).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cells::Cell;
    use serde_json::Value;

    #[test]
    fn of_the_baselines_operations_only() {
        let key = |op: &str, kb| Key {
            op: op.to_owned(),
            kb,
            vmas: 0,
        };
        let column = |cells: &[(&str, f64)]| Column {
            label: "Quire".to_owned(),
            linux: false,
            cells: cells
                .iter()
                .map(|(op, figure)| {
                    let cell = Cell {
                        figure: *figure,
                        line: Value::Null,
                    };
                    (key(op, 4), cell)
                })
                .collect(),
        };
        let baseline = baseline::Table::from([
            (("munmap".to_owned(), 4), 800.0),
            (("dontneed".to_owned(), 4), 3200.0),
        ]);
        // A half and an eighth of Linux: a quarter in the mean.
        let run = column(&[("munmap", 400.0), ("dontneed", 400.0), ("exit", 5.0)]);
        let text = render(Arch::X86_64, &baseline, &[run]);
        assert!(
            text.starts_with("geometric mean of 2 cells: 0.250 of Linux, "),
            "{text}"
        );
        assert_eq!(
            render(Arch::X86_64, &baseline, &[column(&[("exit", 5.0)])]),
            ""
        );
    }
}
