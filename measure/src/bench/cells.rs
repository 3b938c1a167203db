//! The parser of the bench program's output.
use crate::lines::objects;
use anyhow::{Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;

/// Which cell: operation, folio size in kB, and the number of VMAs where that is the question (else
/// 0).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Operation.
    pub op: String,
    /// Folio size in kB.
    pub kb: u64,
    /// VMAs, or 0.
    pub vmas: u64,
}

impl Key {
    /// Where neither VMAs nor threads are the question.
    pub fn new(op: &str, kb: u64) -> Key {
        Key {
            op: op.to_owned(),
            kb,
            vmas: 0,
        }
    }
}

/// One measured cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Guest instructions per 4 KiB page, or for the whole call.
    pub figure: f64,
    /// The line as it was printed.
    pub line: Value,
}

impl Cell {
    /// A counter that moved meanwhile.
    pub fn counter(&self, name: &str) -> u64 {
        self.line[name].as_u64().unwrap_or(0)
    }
    /// By the name of its rank, how often a lock was not free.
    pub fn waits(&self) -> impl Iterator<Item = (&str, u64)> {
        let fields = self.line.as_object().into_iter().flatten();
        fields
            .filter_map(|(name, value)| Some((name.strip_prefix("lock_waits_")?, value.as_u64()?)))
    }
}

/// The cells of one run.
pub type Cells = BTreeMap<Key, Cell>;

/// One run.
#[derive(Default)]
pub struct Column {
    /// Its heading.
    pub label: String,
    /// Its cells.
    pub cells: Cells,
}

/// Reads a console; anything but whole JSON lines on it is skipped. A run that did not get to its
/// end, or lost a line, is an error.
pub fn parse(console: &str) -> Result<Cells> {
    let mut cells = Cells::new();
    let mut done = None;
    for line in objects(console) {
        if line["begin"] == true && line["instructions"] != true {
            bail!("the machine's clock does not count instructions");
        }
        if line["done"] == true {
            done = line["cells"].as_u64();
        }
        if let Some((key, figure)) = cell(&line) {
            cells.insert(key, Cell { figure, line });
        }
    }
    ensure!(done.is_some(), "the bench did not get to its end");
    ensure!(
        done == Some(cells.len() as u64),
        "lines of the bench are missing"
    );
    Ok(cells)
}

/// Which cell a line is of, and its figure.
pub fn cell(line: &Value) -> Option<(Key, f64)> {
    let figure = ["per_page", "whole"]
        .iter()
        .find_map(|name| line[*name].as_f64())?;
    let key = Key {
        op: line["op"].as_str()?.to_owned(),
        kb: line["folio_kb"].as_u64()?,
        vmas: line["vmas"].as_u64().unwrap_or(0),
    };
    Some((key, figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "{\"begin\":true,\"instructions\":true}\n";

    #[test]
    fn cells_between_other_lines() {
        let text = format!(
            "[ 0.1] boot\n{BEGIN}{{\"op\":\"fault\",\"folio_kb\":64,\"per_page\":12.5,\"pgfault\":7}}\n{{half\n\
             {{\"op\":\"mremap\",\"folio_kb\":4,\"whole\":38}}\n{{\"skipped\":16}}\n{{\"done\":true,\"cells\":2}}\n"
        );
        let cells = parse(&text).unwrap();
        let key = Key::new("fault", 64);
        assert_eq!((cells.len(), cells[&key].figure), (2, 12.5));
        assert_eq!(cells[&key].counter("pgfault"), 7);
        assert_eq!(cells[&key].counter("entry_writes"), 0);
    }

    #[test]
    fn half_a_run_is_an_error() {
        assert!(parse(BEGIN).is_err());
        assert!(parse(&format!("{BEGIN}{{\"done\":true,\"cells\":1}}\n")).is_err());
        let by_time = "{\"begin\":true,\"instructions\":false}\n{\"done\":true,\"cells\":0}\n";
        assert!(parse(by_time).is_err());
    }
}
