//! Geometric means over the cells of a run: of its ratio to Linux, and to the floor.
use super::cells::{Column, Key};
use super::floor;
use super::golden::Counts;
use super::plan::BASELINE;
use tools::host::arch::Arch;

/// A line with the means of the first run over the operations of the baseline; empty for other
/// operations.
pub fn render(arch: Arch, baseline: &Counts, columns: &[Column]) -> String {
    let (mut linux, mut least, mut cells) = (Mean::default(), Mean::default(), 0);
    let ours = columns.iter().take(1).flat_map(|column| &column.cells);
    for (key, cell) in ours.filter(|(key, _)| is_counted(key)) {
        cells += 1;
        if let Some(there) = baseline.get(&(key.op.clone(), key.kb)) {
            linux.add(cell.figure / there);
        }
        if let Some(floor) = floor::floor(arch, key) {
            least.add(cell.figure / floor);
        }
    }
    match (linux.get(), least.get()) {
        (Some(linux), Some(least)) => format!(
            "geometric mean of {cells} cells: {linux:.3} of Linux, {least:.2} times the floor\n"
        ),
        _ => String::new(),
    }
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
        let column = |cells: &[(&str, f64)]| {
            let mut column = Column::of("Quire");
            for (op, figure) in cells {
                let (figure, line) = (*figure, Value::Null);
                column.cells.insert(Key::new(op, 4), Cell { figure, line });
            }
            column
        };
        let baseline = Counts::from([
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
