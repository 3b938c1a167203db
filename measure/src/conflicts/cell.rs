//! One pair of operations at one place, and the lines that both CPUs contend for.
use super::names::Names;
use anyhow::{Context, Result, ensure};
use counts::counts::{Counter, Mode};
use counts::lines::{self, Conflict, Lines, Place, Use};
use counts::record::{Cpu, Record};
use serde_json::{Value, json};
use tools::args::Side;
use tools::host::arch::Arch;

/// What was found of a pair.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The machine.
    pub arch: Arch,
    /// The kernel.
    pub side: Side,
    /// What was done first, and then.
    pub ops: [String; 2],
    /// Where: a name of [`super::PLACES`].
    pub place: String,
    /// The result.
    pub found: Found,
}

/// The result of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Both were done; the lines for which they contend, as they are in a result. None: they
    /// commute.
    Lines(Vec<Value>),
    /// There is no such pair there, and why.
    Absent(String),
    /// What should have worked did not.
    Failed(String),
}

impl Cell {
    /// Reads the program's line of a cell; none when it is another line. `record` takes the
    /// measurement of a name.
    pub fn read(
        arch: Arch,
        side: Side,
        line: &Value,
        mut record: impl FnMut(&str) -> Result<Record>,
        names: &Names<'_>,
    ) -> Option<Cell> {
        let text = |key: &str| line[key].as_str().map(str::to_owned);
        let (ops, place) = ([text("first")?, text("second")?], text("place")?);
        let found = match text("absent") {
            Some(why) if why.starts_with("failed") => Found::Failed(why),
            Some(why) => Found::Absent(why),
            None => {
                let mut of =
                    |which: usize| record(&format!("{} {} {place} {which}", ops[0], ops[1]));
                let both = of(0).and_then(|first| Ok([first, of(1)?]));
                let found = both.and_then(|both| found(&both, names));
                found.unwrap_or_else(|error| Found::Failed(format!("{error:#}")))
            }
        };
        Some(Cell {
            arch,
            side,
            ops,
            place,
            found,
        })
    }

    /// From a line of a result; none when it is another line.
    pub fn of_value(line: &Value) -> Result<Option<Cell>> {
        let text = |key: &str| line[key].as_str().map(str::to_owned);
        let (Some(first), Some(second), Some(place)) =
            (text("first"), text("second"), text("place"))
        else {
            return Ok(None);
        };
        Ok(Some(Cell {
            arch: Arch::of_line(line)?,
            side: Side::of_line(line)?,
            ops: [first, second],
            place,
            found: match (text("absent"), text("failed")) {
                (Some(why), _) => Found::Absent(why),
                (_, Some(why)) => Found::Failed(why),
                _ => Found::Lines(line["lines"].as_array().cloned().unwrap_or_default()),
            },
        }))
    }

    /// The object of each line, where there are lines to see.
    pub fn objects(&self) -> Result<Vec<&str>, &str> {
        match &self.found {
            Found::Lines(lines) => {
                let objects = lines.iter().map(|line| &line["object"]);
                Ok(objects
                    .map(|object| object.as_str().unwrap_or("?"))
                    .collect())
            }
            Found::Absent(why) | Found::Failed(why) => Err(why),
        }
    }

    /// As a line of the result.
    pub fn to_value(&self, version: &str) -> Value {
        let mut value = json!({
            "arch": self.arch.name(),
            "kernel": self.side.name(),
            "version": version,
            "first": self.ops[0],
            "second": self.ops[1],
            "place": self.place,
        });
        match &self.found {
            Found::Lines(lines) => value["lines"] = lines.as_slice().into(),
            Found::Absent(why) => value["absent"] = why.as_str().into(),
            Found::Failed(why) => value["failed"] = why.as_str().into(),
        }
        value
    }
}

/// A line for which two CPUs contend: the object that it is of, its physical address, and what both
/// CPUs did with it.
fn line(object: &str, one: &Conflict) -> Value {
    let [first, second] = one.uses;
    let at = format!("{:#x}", one.line);
    json!({"object": object, "line": at, "first": first, "second": second})
}

/// The lines of two measurements, of which CPU 0 did the first and CPU 1 the second.
fn found(both: &[Record; 2], names: &Names<'_>) -> Result<Found> {
    for (which, record) in both.iter().enumerate() {
        let order = ["first", "second"][which];
        let in_kernel = |cpu: &Cpu| cpu.counts.of(Mode::Kernel, Counter::Instructions) > 0;
        if !record.cpus.iter().any(in_kernel) {
            return Ok(Found::Absent(format!("the {order} needs no kernel there")));
        }
        ensure!(
            record.cpus.get(which).is_some_and(in_kernel),
            "the {order} was counted for another CPU"
        );
    }
    let of = |which: usize, cpu: usize| -> Result<Lines> {
        let cpu = both[which].cpus.get(cpu).context("a machine of two CPUs")?;
        Ok(in_kernel(cpu.lines.as_ref().context("lines=each")?))
    };
    // What the operations do, and what an interrupt does that one of them sends to the other CPU.
    let mut all = lines::conflicts(&of(0, 0)?, &of(1, 1)?);
    for which in 0..2 {
        all.extend(lines::conflicts(&of(which, 0)?, &of(which, 1)?));
    }
    all.sort_by_key(|one| one.line);
    all.dedup_by_key(|one| one.line);
    let named = |one: &Conflict| line(&names.object(one), one);
    Ok(Found::Lines(all.iter().map(named).collect()))
}

/// What the kernel did with lines: what a program does with its own is its affair.
fn in_kernel(lines: &Lines) -> Lines {
    let kernel = |place: &Place| Mode::of(place.pc) == Mode::Kernel;
    let mut kept = Lines::default();
    for (line, used) in lines.sorted() {
        let used = Use {
            read: used.read.filter(kernel),
            written: used.written.filter(kernel),
        };
        if used != Use::default() {
            kept.insert(line, used);
        }
    }
    kept
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::testing::has;
    use counts::counts::Counts;

    const KERNEL: u64 = 0xffff_ffff_8020_0000;

    /// A measurement in which these CPUs wrote these lines at this `pc`.
    fn record(pc: u64, written: [&[u64]; 2]) -> Record {
        let cpu = |written: &[u64]| {
            let mut lines = Lines::default();
            for line in written {
                let place = Place {
                    address: *line | 0xffff_8000_0000_0000,
                    pc,
                };
                let used = Use {
                    read: None,
                    written: Some(place),
                };
                lines.insert(*line, used);
            }
            let mut counts = Counts::default();
            *counts.of_mut(Mode::of(pc), Counter::Instructions) = written.len() as u64;
            Cpu {
                counts,
                lines: Some(lines),
                ..Cpu::default()
            }
        };
        Record {
            name: String::new(),
            arch: counts::Arch::X86_64,
            cpus: written.map(cpu).to_vec(),
        }
    }

    fn conflicting(both: [Record; 2]) -> Vec<String> {
        match found(&both, &Names::none()).unwrap() {
            Found::Lines(lines) => {
                let at = |line: &Value| line["line"].as_str().unwrap().to_owned();
                lines.iter().map(at).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_of_both_operations_conflict() {
        let both = [
            record(KERNEL, [&[0, 64], &[]]),
            record(KERNEL, [&[128], &[64, 192]]),
        ];
        // 128 is CPU 0's alone.
        assert_eq!(conflicting(both), ["0x40"]);
    }

    #[test]
    fn so_do_those_of_an_interrupt() {
        let both = [
            record(KERNEL, [&[0, 64], &[64]]),
            record(KERNEL, [&[], &[128]]),
        ];
        assert_eq!(conflicting(both), ["0x40"]);
    }

    #[test]
    fn what_programs_do_is_theirs() {
        let both = [record(KERNEL, [&[0], &[]]), record(KERNEL, [&[], &[0]])];
        assert_eq!(conflicting(both.clone()), ["0x0"]);
        let [first, _] = both;
        let absent = found(&[first, record(0x1000, [&[], &[0]])], &Names::none()).unwrap();
        assert_eq!(
            absent,
            Found::Absent("the second needs no kernel there".to_owned())
        );
    }

    #[test]
    fn a_measurement_that_is_missing_is_a_failure() {
        let line = json!({"first": "read", "second": "fork", "place": "page", "done": true});
        let names = Names::none();
        let none = |name: &str| Err(anyhow::anyhow!("no {name:?}"));
        let cell = Cell::read(Arch::X86_64, Side::Quire, &line, none, &names).unwrap();
        let Found::Failed(why) = &cell.found else {
            panic!("{cell:?}")
        };
        has(why, "\"read fork page 0\"");
        let other = json!({"begin": true});
        assert!(Cell::read(Arch::X86_64, Side::Quire, &other, none, &names).is_none());
    }
}
