//! Geometric means over the cells of a run: of its ratio to Linux, and to the floor.
use super::cells::{Cell, Column, Key};
use super::floor;
use super::golden::Counts;
use super::plan::BASELINE;
use tools::host::arch::Arch;

/// A line with the means of the first run over the operations of the baseline; empty for other
/// operations.
pub fn render(arch: Arch, baseline: &Counts, columns: &[Column]) -> String {
    let ours = columns.first().into_iter();
    let ours = ours.flat_map(|column| &column.cells);
    let ours: Vec<(&Key, &Cell)> = ours.filter(|(key, _)| is_counted(key)).collect();
    let mean = |below: &dyn Fn(&Key) -> Option<f64>| {
        let ratio = |(key, cell): &(&Key, &Cell)| Some(cell.figure / below(key)?);
        geometric(ours.iter().filter_map(ratio))
    };
    let linux = mean(&|key| baseline.get(&(key.op.clone(), key.kb)).copied());
    let least = mean(&|key| floor::floor(arch, key));
    match (linux, least) {
        (Some(linux), Some(least)) => format!(
            "geometric mean of {} cells: {linux:.3} of Linux, {least:.2} times the floor\n",
            ours.len()
        ),
        _ => String::new(),
    }
}

fn is_counted(key: &Key) -> bool {
    key.vmas == 0 && BASELINE.contains(&key.op.as_str())
}

/// The geometric mean; `None` of nothing.
pub fn geometric(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = ratios.into_iter().map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn of_the_baselines_operations_only() {
        let column = |cells: &[(&str, f64)]| {
            let mut column = Column::default();
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
