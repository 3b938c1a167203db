//! One measurement as a line of JSON:
//!
//! ```json
//! {"name":"fork","arch":"x86_64","cpus":[{"user":{"instructions":12,...},"kernel":{...},
//!   "lines":[{"line":"0x1f40","read":["0x7f00","0x401000"],"written":["0x7f08","0x401004"]}]}]}
//! ```
//!
//! `cpus` has one object for each CPU of the machine, in order. `lines` is there when lines were
//! asked for: the physical address of each, and of its first read and write the virtual address and
//! the address of the instruction, as hexadecimal text, since not all readers of JSON have 64 bits.
//! `touched` has how many they are: all, and those that were read and written. `model` is there
//! with a model: its figures by name.
use crate::Arch;
use crate::counts::{Counter, Counts, Mode};
use crate::lines::{Lines, Place, Touched, Use};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name, as the program gave it.
    pub name: String,
    /// The machine.
    pub arch: Arch,
    /// What each CPU did.
    pub cpus: Vec<Cpu>,
}

/// What one CPU did in a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// What was counted.
    pub counts: Counts,
    /// How many lines it touched, if they were kept.
    pub touched: Option<Touched>,
    /// Which they are, if that was asked for, too.
    pub lines: Option<Lines>,
    /// The figures of a model, by name, if there was one.
    pub model: BTreeMap<String, u64>,
}

impl Record {
    /// The line, without its end.
    pub fn to_json(&self) -> String {
        let cpus: Vec<Value> = self.cpus.iter().map(Cpu::to_value).collect();
        json!({"name": self.name, "arch": self.arch.name(), "cpus": cpus}).to_string()
    }

    /// Reads a line.
    ///
    /// # Errors
    ///
    /// A sentence that says what is missing or wrong in it.
    pub fn parse(line: &str) -> Result<Record, String> {
        let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let text = |key: &str| value[key].as_str().ok_or(format!("no {key:?} in {line}"));
        let cpus = value["cpus"].as_array().ok_or("no list of CPUs")?;
        Ok(Record {
            name: text("name")?.to_owned(),
            arch: Arch::named(text("arch")?).ok_or("an unknown machine")?,
            cpus: cpus.iter().map(Cpu::of_value).collect::<Result<_, _>>()?,
        })
    }
}

impl Cpu {
    fn to_value(&self) -> Value {
        let mut fields = Map::new();
        for mode in Mode::ALL {
            let count = |counter: Counter| {
                let value = self.counts.of(mode, counter).into();
                (counter.name().to_owned(), value)
            };
            let counts: Map<String, Value> = Counter::ALL.into_iter().map(count).collect();
            fields.insert(mode.name().to_owned(), counts.into());
        }
        if let Some(touched) = self.touched {
            let Touched { all, read, written } = touched;
            let counts = json!({"all": all, "read": read, "written": written});
            fields.insert("touched".to_owned(), counts);
        }
        if let Some(lines) = &self.lines {
            let lines: Vec<Value> = lines.sorted().into_iter().map(line_to_value).collect();
            fields.insert("lines".to_owned(), lines.into());
        }
        if !self.model.is_empty() {
            let figures = self.model.iter();
            let figures = figures.map(|(name, count)| (name.clone(), Value::from(*count)));
            fields.insert("model".to_owned(), Value::Object(figures.collect()));
        }
        fields.into()
    }

    fn of_value(value: &Value) -> Result<Cpu, String> {
        let mut cpu = Cpu::default();
        for mode in Mode::ALL {
            for counter in Counter::ALL {
                let (mode_name, name) = (mode.name(), counter.name());
                let count = value[mode_name][name].as_u64();
                *cpu.counts.of_mut(mode, counter) =
                    count.ok_or(format!("no count of {mode_name} {name}"))?;
            }
        }
        if !value["touched"].is_null() {
            let touched = touched_of_value(&value["touched"]);
            cpu.touched = Some(touched.ok_or("no counts of lines")?);
        }
        if let Some(lines) = value["lines"].as_array() {
            let mut kept = Lines::default();
            for value in lines {
                let (line, used) = line_of_value(value).ok_or(format!("no line: {value}"))?;
                kept.insert(line, used);
            }
            cpu.lines = Some(kept);
        }
        for (name, figure) in value["model"].as_object().into_iter().flatten() {
            let figure = figure.as_u64().ok_or(format!("no figure {name:?}"))?;
            cpu.model.insert(name.clone(), figure);
        }
        Ok(cpu)
    }
}

fn touched_of_value(value: &Value) -> Option<Touched> {
    Some(Touched {
        all: value["all"].as_u64()?,
        read: value["read"].as_u64()?,
        written: value["written"].as_u64()?,
    })
}

fn line_to_value((line, used): (u64, Use)) -> Value {
    let mut fields = Map::from_iter([("line".to_owned(), hex(line))]);
    for (name, place) in [("read", used.read), ("written", used.written)] {
        if let Some(place) = place {
            let place = json!([hex(place.address), hex(place.pc)]);
            fields.insert(name.to_owned(), place);
        }
    }
    fields.into()
}

fn line_of_value(value: &Value) -> Option<(u64, Use)> {
    let place = |name: &str| match &value[name] {
        Value::Null => Some(None),
        place => Some(Some(Place {
            address: number(&place[0])?,
            pc: number(&place[1])?,
        })),
    };
    let used = Use {
        read: place("read")?,
        written: place("written")?,
    };
    Some((number(&value["line"])?, used))
}

fn hex(number: u64) -> Value {
    format!("{number:#x}").into()
}

fn number(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Recorder;

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
