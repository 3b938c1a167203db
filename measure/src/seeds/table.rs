//! A table of a thread: what stands in it, and which measurement of Quire's stands beside each
//! figure.
use crate::bench::cells::{Cell as Measured, Cells, Key};
use tools::host::arch::Arch;

/// A figure of the bench, in a run with these words on the kernel's command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Words of the kernel's command line.
    pub words: &'static str,
    /// An operation of the bench; `move=LEVEL/MIB` of the program `moves`, `latency=EVENT` of
    /// `latency`, `cost/NAME` of `cost`.
    pub op: String,
    /// Folios in kB.
    pub kb: u32,
    /// Which of several samples of an operation, 0 where there is one.
    pub sample: u64,
}

impl Point {
    /// The only sample of an operation.
    pub fn new(words: &'static str, op: &str, kb: u32) -> Point {
        Point {
            words,
            op: op.to_owned(),
            kb,
            sample: 0,
        }
    }

    /// How it is found among what was measured.
    pub fn key(&self) -> Key {
        Key {
            op: self.op.clone(),
            kb: self.kb.into(),
            vmas: self.sample,
        }
    }
}

/// What is compared with the thread's figure. Of two points, the second is what changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// By how many per cent the second costs more; less is better.
    Change(Point, Point),
    /// By how many per cent the second does more in the same time; more is better.
    Gain(Point, Point),
    /// How many times the second is faster.
    Times(Point, Point),
    /// How much more often a counter moved for each page.
    More(Point, Point, &'static str),
    /// How often a counter moved for each folio.
    PerFolio(Point, &'static str),
    /// How often a counter moved for each page.
    PerPage(Point, &'static str),
}

impl Value {
    /// What has to be measured for it.
    pub fn points(&self) -> Vec<&Point> {
        match self {
            Value::Change(before, after)
            | Value::Gain(before, after)
            | Value::Times(before, after)
            | Value::More(before, after, _) => vec![before, after],
            Value::PerFolio(point, _) | Value::PerPage(point, _) => vec![point],
        }
    }

    /// The figure, when all of it was measured.
    pub fn of(&self, runs: &Runs) -> Option<f64> {
        let ratio =
            |one: &Point, other: &Point| Some(runs.cell(one)?.figure / runs.cell(other)?.figure);
        let per_page = |point, name| Some(per_page(runs.cell(point)?, name));
        Some(match self {
            Value::Change(before, after) => (ratio(after, before)? - 1.0) * 100.0,
            Value::Gain(before, after) => (ratio(before, after)? - 1.0) * 100.0,
            Value::Times(before, after) => ratio(before, after)?,
            Value::More(before, after, name) => per_page(after, name)? - per_page(before, name)?,
            Value::PerFolio(point, name) => per_page(point, name)? * f64::from(point.kb / 4),
            Value::PerPage(point, name) => per_page(point, name)?,
        })
    }
}

fn per_page(cell: &Measured, name: &str) -> f64 {
    cell.counter(name) as f64 / cell.counter("pages").max(1) as f64
}

/// What stands in a column of Quire's line.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    Blank,
    /// What the whole region costs, in thousands of instructions: shown, not judged.
    Cost(Point),
    /// A figure to which the thread has none.
    Shown(Value),
    /// A figure beside those of the thread for the same, one for each of its machines.
    Judged(Value, Vec<f64>),
}

impl Cell {
    /// What has to be measured for it.
    pub fn points(&self) -> Vec<&Point> {
        match self {
            Cell::Blank => Vec::new(),
            Cell::Cost(point) => vec![point],
            Cell::Shown(value) | Cell::Judged(value, _) => value.points(),
        }
    }
}

/// A line as it stands in the thread.
#[derive(Clone, Debug)]
pub struct Line {
    /// The machine that it is of; may be empty.
    pub machine: &'static str,
    /// A text for each column.
    pub texts: Vec<String>,
}

impl Line {
    /// A text for each column, of a machine.
    pub fn new(machine: &'static str, texts: impl IntoIterator<Item: Into<String>>) -> Line {
        let texts = texts.into_iter().map(Into::into).collect();
        Line { machine, texts }
    }
}

/// Quire's cells of a row.
#[derive(Clone, Debug)]
pub enum Here {
    /// A cell for each column.
    Cells(Vec<Cell>),
    /// The same on one machine, because the thread's figure is of that one.
    On(Arch, Vec<Cell>),
    /// Why nothing was measured.
    Unmeasured(&'static str),
}

impl Here {
    /// The cells of one machine, if there are any.
    pub fn cells(&self, arch: Arch) -> &[Cell] {
        match self {
            Here::Cells(cells) => cells,
            Here::On(only, cells) if *only == arch => cells,
            Here::On(..) | Here::Unmeasured(_) => &[],
        }
    }
}

/// A row: the thread's lines, and Quire's.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its first column.
    pub name: String,
    /// As it stands in the thread.
    pub lines: Vec<Line>,
    /// What was measured for it.
    pub here: Here,
}

impl Row {
    /// With these lines of the thread.
    pub fn new<const N: usize>(name: impl Into<String>, lines: [Line; N], here: Here) -> Row {
        Row {
            name: name.into(),
            lines: lines.into(),
            here,
        }
    }
}

/// Why cells differ from the thread's; the first that names a cell is printed.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// Rows; none: all.
    pub rows: &'static [&'static str],
    /// Columns; none: all.
    pub columns: &'static [&'static str],
    /// Why.
    pub why: &'static str,
}

/// A table of a thread.
#[derive(Clone, Debug)]
pub struct Table {
    /// What it shows, with its unit.
    pub title: &'static str,
    /// Heading of the first column.
    pub first: &'static str,
    /// Headings of the others.
    pub columns: Vec<&'static str>,
    /// Rows, in the thread's order.
    pub rows: Vec<Row>,
    /// Why some differ.
    pub reasons: &'static [Reason],
}

impl Table {
    /// The reason for a cell that differs.
    pub fn reason(&self, row: &str, column: &str) -> Option<&'static str> {
        let names = |list: &[&str], name| list.is_empty() || list.contains(&name);
        let found = self
            .reasons
            .iter()
            .find(|reason| names(reason.rows, row) && names(reason.columns, column));
        found.map(|reason| reason.why)
    }

    /// Everything that has to be measured for it on one machine.
    pub fn points(&self, arch: Arch) -> impl Iterator<Item = &Point> {
        let cells = self.rows.iter().flat_map(move |row| row.here.cells(arch));
        cells.flat_map(Cell::points)
    }
}

/// What was measured on one machine, by the words of the kernel's command line.
#[derive(Clone, Debug, Default)]
pub struct Runs(pub Vec<(String, Cells)>);

impl Runs {
    /// A measured cell.
    pub fn cell(&self, point: &Point) -> Option<&Measured> {
        let mut runs = self.0.iter().filter(|(words, _)| *words == point.words);
        runs.find_map(|(_, cells)| cells.get(&point.key()))
    }
}
