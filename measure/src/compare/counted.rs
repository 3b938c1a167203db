//! What the plugin for QEMU adds to the lines of a comparison: by each measurement's mark.
use anyhow::{Context, Result, bail};
use counts::args::Lines;
use counts::record::Record;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use tools::args::CompareArgs;
use tools::host::arch::Arch;
use tools::host::workspace::Temporary;
use tools::machine::build;
use tools::machine::qemu::plugin::{self, Model, Plugin};

/// What is counted in each boot of a run.
pub struct Counting {
    plugin: PathBuf,
    model: Option<String>,
    lines: bool,
}

impl Counting {
    /// As the arguments say; nothing when they ask for nothing.
    pub fn of(args: &CompareArgs, arches: &[Arch]) -> Result<Option<Counting>> {
        if args.model.is_none() && !args.lines {
            return Ok(None);
        }
        for arch in arches {
            if let Some(why) = plugin::missing(*arch)? {
                bail!("--model and --lines need a plugin of QEMU: {why}");
            }
        }
        Ok(Some(Counting {
            plugin: build::plugin()?,
            model: args.model.clone(),
            lines: args.lines,
        }))
    }

    /// Of one boot.
    pub fn boot(&self) -> Counted {
        let (out, ram) = (Temporary::name("jsonl"), Temporary::name_in_memory("ram"));
        let model = self.model.clone();
        Counted {
            plugin: Plugin {
                file: self.plugin.clone(),
                out: out.path().to_owned(),
                lines: match self.lines {
                    true => Lines::Count,
                    false => Lines::Off,
                },
                ram: Some(ram.path().to_owned()),
                model: model.map(|core| Model {
                    core,
                    contiguous: true,
                }),
            },
            files: [out, ram],
            read: 0,
            records: BTreeMap::new(),
        }
    }

    /// What a result says of it.
    pub fn to_value(&self) -> Value {
        json!({"model": self.model, "lines": self.lines})
    }
}

/// What is counted in one boot, as it comes.
pub struct Counted {
    plugin: Plugin,
    files: [Temporary; 2],
    /// How many bytes of the plugin's file were read.
    read: u64,
    /// The last measurement of each name.
    records: BTreeMap<String, Record>,
}

impl Counted {
    /// The plugin for the machine.
    pub fn plugin(&self) -> Plugin {
        self.plugin.clone()
    }

    /// Adds to a program's line what was counted between its marks.
    ///
    /// # Errors
    ///
    /// When the program did not mark it, or the plugin's file has no such measurement: it is
    /// written before the program writes its line.
    pub fn add_to(&mut self, line: &mut Value) -> Result<()> {
        let mark = line["mark"].as_str();
        let mark = mark.with_context(|| format!("a line without its mark: {line}"))?;
        self.read_new()?;
        let record = self.records.get(mark);
        let record = record.with_context(|| format!("the plugin counted no {mark:?}"))?;
        let fields = fields(record);
        let line = line.as_object_mut().context("a line of fields")?;
        line.extend(fields);
        Ok(())
    }

    /// Keeps the measurements since the last look.
    fn read_new(&mut self) -> Result<()> {
        let path = self.files[0].path();
        let mut file =
            File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        self.read += text.len() as u64;
        for line in text.lines() {
            let record = Record::parse(line);
            let record = record.map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
            self.records.insert(record.name.clone(), record);
        }
        Ok(())
    }
}

/// The figures of all CPUs together, by the names that they have in a line.
fn fields(record: &Record) -> Map<String, Value> {
    let mut sums = Map::new();
    let mut add = |name: &str, count: u64| {
        let sum = sums.get(name).and_then(Value::as_u64).unwrap_or(0);
        sums.insert(name.to_owned(), (sum + count).into());
    };
    for cpu in &record.cpus {
        for (name, count) in &cpu.model {
            add(name, *count);
        }
        if !cpu.model.is_empty() {
            let of = |names: &[&str]| -> u64 { names.iter().map(|name| cpu.model[*name]).sum() };
            add("walks", of(&["dtlb_walks", "itlb_walks"]));
            add("walk_reads", of(&WALK));
            add(
                "tlb_misses",
                of(&["dtlb_l2", "dtlb_walks", "itlb_l2", "itlb_walks"]),
            );
            add("l1d_misses", of(&DATA));
            add(
                "memory_reads",
                of(&["data_memory", "fetch_memory", "walk_memory"]),
            );
        }
        if let Some(touched) = cpu.touched {
            add("lines_touched", touched.all);
            add("lines_read", touched.read);
            add("lines_written", touched.written);
        }
    }
    sums
}

/// What walks read, wherever it was.
const WALK: [&str; 5] = [
    "walk_l1",
    "walk_l2",
    "walk_last",
    "walk_remote",
    "walk_memory",
];
/// Data that the first level did not have.
const DATA: [&str; 4] = ["data_l2", "data_last", "data_remote", "data_memory"];

#[cfg(test)]
mod tests {
    use super::*;
    use counts::lines::Touched;
    use counts::record::Cpu;

    fn record(name: &str, walks: u64) -> Record {
        let figures = WALK.into_iter().chain(DATA).chain([
            "dtlb_l2",
            "dtlb_walks",
            "itlb_l2",
            "itlb_walks",
            "fetch_memory",
        ]);
        let touched = Touched {
            all: 3,
            read: 2,
            written: 2,
        };
        let cpu = Cpu {
            touched: Some(touched),
            model: figures.map(|name| (name.to_owned(), walks)).collect(),
            ..Cpu::default()
        };
        Record {
            name: name.to_owned(),
            arch: counts::Arch::X86_64,
            cpus: vec![cpu.clone(), cpu],
        }
    }

    fn counted(records: &[Record]) -> Counted {
        let lines: Vec<String> = records.iter().map(|one| one.to_json() + "\n").collect();
        let counting = Counting {
            plugin: PathBuf::new(),
            model: None,
            lines: true,
        };
        let counted = counting.boot();
        std::fs::write(counted.files[0].path(), lines.concat()).unwrap();
        counted
    }

    #[test]
    fn a_line_gets_what_was_counted_last_under_its_mark() {
        let records = [
            record("fork@4", 100),
            record("fork@4", 5),
            record("cow@4", 7),
        ];
        let mut line = json!({"op": "fork", "mark": "fork@4"});
        let mut counted = counted(&records);
        counted.add_to(&mut line).unwrap();
        // Of two CPUs.
        assert_eq!(
            (&line["walks"], &line["walk_reads"]),
            (&json!(20), &json!(50))
        );
        assert_eq!(
            (&line["lines_touched"], &line["l1d_misses"]),
            (&json!(6), &json!(40))
        );
        assert_eq!(line["op"], "fork");
        let mut next = json!({"op": "cow", "mark": "cow@4"});
        counted.add_to(&mut next).unwrap();
        assert_eq!(next["walks"], 28);
    }

    #[test]
    fn a_line_that_was_not_counted_is_an_error() {
        let mut counted = counted(&[record("fork@4", 1)]);
        let error = counted.add_to(&mut json!({"op": "cow", "mark": "cow@4"}));
        assert!(format!("{:#}", error.unwrap_err()).contains("no \"cow@4\""));
        assert!(counted.add_to(&mut json!({"op": "cow"})).is_err());
    }
}
