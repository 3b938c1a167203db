//! One measurement as a line of JSON:
//!
//! ```json
//! {"name":"fork","arch":"x86_64","cpus":[{"user":{"instructions":12,...},"kernel":{...},
//!   "lines":[{"line":"0x1f40","read":["0x7f00","0x401000"],"written":["0x7f08","0x401004"]}]}]}
//! ```
//!
//! `cpus` has one object for each CPU of the machine, in order. `lines` is there when lines were
//! asked for: the physical address of each, and of its first read and write the virtual address and
//! the address of the instruction, as hexadecimal text.
//! `touched` has how many they are: all, and those that were read and written. `model` is there
//! with a model: its figures by name.
use crate::Arch;
use crate::counts::Counts;
use crate::lines::{Lines, Touched};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its name, as the program gave it.
    pub name: String,
    /// The machine.
    pub arch: Arch,
    /// What each CPU did.
    pub cpus: Vec<Cpu>,
}

/// What one CPU did in a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
    /// How many lines it touched, if they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touched: Option<Touched>,
    /// Which they are, if that was asked for, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Lines>,
    /// The figures of a model, by name, if there was one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub model: BTreeMap<String, u64>,
}

impl Record {
    /// The line, without its end.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("names and numbers")
    }

    /// Reads a line.
    ///
    /// # Errors
    ///
    /// A sentence that says what is missing or wrong in it.
    pub fn parse(line: &str) -> Result<Record, String> {
        serde_json::from_str(line).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::{Place, Recorder};

    fn record() -> Record {
        let mut lines = Recorder::default();
        let place = |address| Place {
            address,
            pc: u64::MAX - 3,
        };
        lines.touch(0x4000_0040, 8, false, place(u64::MAX - 63));
        lines.touch(0x4000_0040, 8, true, place(0x7f00));
        lines.touch(0x80, 8, true, place(0x7f08));
        let lines = lines.take();
        Record {
            name: "fork \"2M\"".to_owned(),
            arch: Arch::Aarch64,
            cpus: vec![
                Cpu {
                    counts: Counts::read(|offset| u64::MAX - offset as u64),
                    touched: Some(lines.figures()),
                    lines: Some(lines),
                    model: BTreeMap::from([("dtlb_walks".to_owned(), 17)]),
                },
                Cpu::default(),
            ],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let line = record().to_json();
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(Record::parse(&line), Ok(record()));
    }

    #[test]
    fn a_line_that_was_cut_is_refused() {
        let line = record().to_json();
        for cut in [0, 1, line.len() / 2, line.len() - 1] {
            assert!(Record::parse(&line[..cut]).is_err(), "{cut}");
        }
        assert!(Record::parse(&line.replace("loads", "load")).is_err());
        assert!(Record::parse(&line.replace("0x80", "80")).is_err());
        assert!(Record::parse(&line.replace("aarch64", "riscv64")).is_err());
    }
}
