//! Tables as text: the thread's lines, and below them those of Quire on each machine.
use super::table::{Cell, Here, Line, Point, Row, Runs, Table, Value};
use super::verdict::{Verdict, judge};
use std::fmt::Write;
use tools::host::arch::Arch;

/// The figures of one machine.
pub type Machine = (Arch, Runs);

/// How many figures have each [`Verdict`], and how many rows are not measured here.
pub type Tally = [usize; 4];
/// The place of the latter.
const UNMEASURED: usize = 3;

/// A tally in words.
pub fn say([agree, better, differ, unmeasured]: Tally) -> String {
    format!(
        "figures that agree: {agree}, better: {better}, differ: {differ}; rows not measured: {unmeasured}"
    )
}

/// A table as text, and the notes below it.
#[derive(Debug, Default)]
pub struct Rendered {
    /// The lines, reasons below.
    pub text: String,
    /// Over all machines.
    pub tally: Tally,
    /// Cells that differ without a reason.
    pub unexplained: Vec<String>,
    /// Reasons in the order of their numbers.
    reasons: Vec<&'static str>,
}

/// A table with the figures of all machines.
pub fn render(table: &Table, machines: &[Machine]) -> Rendered {
    let mut out = Rendered::default();
    let mut lines = vec![Texts::heading(table)];
    for row in &table.rows {
        let mut name = row.name.as_str();
        for line in &row.lines {
            lines.push(Texts::of_thread(name, line));
            name = "";
        }
        for (arch, runs) in machines {
            lines.extend(out.row(table, row, *arch, runs));
        }
        if let Here::Unmeasured(why) = row.here {
            out.tally[UNMEASURED] += 1;
            let number = out.number(why);
            if let Some(last) = lines.last_mut() {
                last.end = format!("not measured [{number}]");
            }
        }
    }
    out.text = laid_out(&lines);
    for (n, why) in out.reasons.iter().enumerate() {
        let _ = writeln!(out.text, "[{}] {why}", n + 1);
    }
    out
}

impl Rendered {
    /// Quire's line of a row on one machine.
    fn row(&mut self, table: &Table, row: &Row, arch: Arch, runs: &Runs) -> Option<Texts> {
        let cells = row.here.cells(arch);
        let mut texts = Texts::new("", arch.name());
        let (mut verdicts, mut differing) = (Vec::new(), Vec::new());
        for (cell, column) in cells.iter().zip(&table.columns) {
            let mark = match judged(cell, runs) {
                // There may be a mark behind any figure.
                None => " ",
                Some(verdict) => {
                    verdicts.push(verdict);
                    if verdict == Verdict::Differs {
                        differing.push(self.differs(table, row, column, arch));
                    }
                    self.count(verdict)
                }
            };
            texts.columns.push(format!("{}{mark}", shown(cell, runs)));
        }
        texts.end = if !differing.is_empty() {
            format!("differs: {}", differing.join(", "))
        } else if verdicts.contains(&Verdict::Agrees) {
            "agrees".to_owned()
        } else if verdicts.contains(&Verdict::Better) {
            "better".to_owned()
        } else {
            String::new()
        };
        (!cells.is_empty()).then_some(texts)
    }

    fn count(&mut self, verdict: Verdict) -> &'static str {
        self.tally[verdict as usize] += 1;
        match verdict {
            Verdict::Agrees => " ",
            Verdict::Better => "+",
            Verdict::Differs => "!",
        }
    }

    /// The column and the number of its reason.
    fn differs(&mut self, table: &Table, row: &Row, column: &str, arch: Arch) -> String {
        match table.reason(&row.name, column) {
            Some(why) => format!("{column} [{}]", self.number(why)),
            None => {
                let place = format!("{}: {}, {column}, {arch}", table.title, row.name);
                self.unexplained.push(place);
                format!("{column} [no reason is known]")
            }
        }
    }

    fn number(&mut self, why: &'static str) -> usize {
        let known = self.reasons.iter().position(|one| *one == why);
        known.unwrap_or_else(|| {
            self.reasons.push(why);
            self.reasons.len() - 1
        }) + 1
    }
}

fn judged(cell: &Cell, runs: &Runs) -> Option<Verdict> {
    match cell {
        Cell::Judged(value, thread) => Some(judge(value, value.of(runs)?, thread)),
        _ => None,
    }
}

/// The text of a cell; `-` for what was not asked for.
fn shown(cell: &Cell, runs: &Runs) -> String {
    let text = match cell {
        Cell::Blank => Some(String::new()),
        Cell::Cost(point) => cost(point, runs),
        Cell::Shown(value) | Cell::Judged(value, _) => value.of(runs).map(|figure| match value {
            // Without the sign of a zero.
            Value::Change(..) | Value::Gain(..) => {
                format!("{:.1}%", (figure * 10.0).round() / 10.0 + 0.0)
            }
            Value::Times(..) => format!("{figure:.1}x"),
            Value::PerFolio(..) | Value::PerPage(..) | Value::More(..) => format!("{figure:.2}"),
        }),
    };
    text.unwrap_or_else(|| "-".to_owned())
}

/// Thousands of instructions.
fn cost(point: &Point, runs: &Runs) -> Option<String> {
    let cell = runs.cell(point)?;
    let pages = match cell.counter("pages") {
        0 => 1,
        pages => pages,
    };
    let thousands = cell.figure * pages as f64 / 1000.0;
    Some(if thousands < 100.0 {
        format!("{thousands:.1} k")
    } else {
        format!("{thousands:.0} k")
    })
}

/// The columns of a line.
struct Texts {
    name: String,
    machine: String,
    columns: Vec<String>,
    end: String,
}

impl Texts {
    fn new(name: &str, machine: &str) -> Texts {
        Texts {
            name: name.to_owned(),
            machine: machine.to_owned(),
            columns: Vec::new(),
            end: String::new(),
        }
    }

    fn heading(table: &Table) -> Texts {
        let columns = table.columns.iter().map(|name| format!("{name} "));
        Texts {
            columns: columns.collect(),
            ..Texts::new(table.first, "")
        }
    }

    fn of_thread(name: &str, line: &Line) -> Texts {
        let texts = line.texts.iter().map(|text| format!("{text} "));
        Texts {
            columns: texts.collect(),
            ..Texts::new(name, line.machine)
        }
    }
}

/// Columns as wide as their widest text.
fn laid_out(lines: &[Texts]) -> String {
    let width = |of: &dyn Fn(&Texts) -> usize| lines.iter().map(of).max().unwrap_or(0);
    let (first, second) = (width(&|l| l.name.len()), width(&|l| l.machine.len()));
    let count = width(&|line| line.columns.len());
    let widths: Vec<usize> = (0..count)
        .map(|n| width(&|line| line.columns.get(n).map_or(0, String::len)))
        .collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let mut row = format!("{:first$} {:second$} ", line.name, line.machine);
        for (n, width) in widths.iter().enumerate() {
            let column = line.columns.get(n).map_or("", String::as_str);
            let _ = write!(row, "| {column:>width$}");
        }
        let _ = write!(row, "| {}", line.end);
        let _ = writeln!(text, "{}", row.trim_end());
        if number == 0 {
            let _ = writeln!(text, "{}", "-".repeat(row.trim_end().len()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::table::Reason;
    use super::*;
    use crate::bench::cells::{Cell as Measured, Cells};
    use serde_json::json;

    fn point(words: &'static str, kb: u32) -> Point {
        Point::new(words, "fork", kb)
    }

    fn row(kb: u32, name: &str, thread: f64) -> Row {
        let (before, after) = (point("fork=per-pte", kb), point("", kb));
        let cells = vec![
            Cell::Cost(after.clone()),
            Cell::Judged(Value::Change(before, after), vec![thread]),
        ];
        let line = Line::new("Xeon", ["0.0143", &format!("{thread}%")]);
        Row::new(name, [line], Here::Cells(cells))
    }

    fn runs() -> Runs {
        let cells = |figures: [(u32, f64); 2]| -> Cells {
            let cell = |(kb, figure)| {
                let line = json!({"pages": 1000});
                (point("", kb).key(), Measured { figure, line })
            };
            figures.map(cell).into()
        };
        Runs(vec![
            ("fork=per-pte".to_owned(), cells([(4, 100.0), (16, 100.0)])),
            (String::new(), cells([(4, 99.0), (16, 150.0)])),
        ])
    }

    fn table(reasons: &'static [Reason]) -> Table {
        let no_line = Line::new("", [""; 0]);
        let why = Here::Unmeasured("There is no compiler.");
        let unmeasured = Row::new("compile", [no_line], why);
        Table {
            title: "fork",
            first: "Folio Size",
            columns: vec!["New", "Change"],
            rows: vec![row(4, "4KiB", -2.0), row(16, "16KiB", -16.0), unmeasured],
            reasons,
        }
    }

    #[test]
    fn lines_of_the_thread_and_of_quire() {
        const WHY: &[Reason] = &[Reason {
            rows: &["16KiB"],
            columns: &[],
            why: "Because.",
        }];
        let out = render(&table(WHY), &[(Arch::X86_64, runs())]);
        let lines: Vec<&str> = out.text.lines().collect();
        assert_eq!(
            lines,
            [
                "Folio Size        |    New | Change |",
                "-------------------------------------",
                "4KiB       Xeon   | 0.0143 |    -2% |",
                "           x86_64 | 99.0 k |  -1.0% | agrees",
                "16KiB      Xeon   | 0.0143 |   -16% |",
                "           x86_64 |  150 k |  50.0%!| differs: Change [1]",
                "compile           |        |        | not measured [2]",
                "[1] Because.",
                "[2] There is no compiler.",
            ],
            "{}",
            out.text
        );
        assert_eq!((out.tally, out.unexplained.len()), ([1, 0, 1, 1], 0));
    }

    #[test]
    fn what_differs_without_a_reason_is_named() {
        let out = render(&table(&[]), &[(Arch::X86_64, runs())]);
        assert_eq!(out.unexplained, ["fork: 16KiB, Change, x86_64"]);
    }

    #[test]
    fn what_was_not_asked_for_is_no_figure() {
        let out = render(&table(&[]), &[(Arch::X86_64, Runs::default())]);
        let empty = "x86_64 |      - |      - |";
        assert!(out.text.contains(empty), "{}", out.text);
        assert_eq!(out.tally, [0, 0, 0, 1]);
    }
}
