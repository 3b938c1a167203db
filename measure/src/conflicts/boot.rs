//! One boot: the program's lines as they come, with what the plugin has of each.
use super::cell::Cell;
use super::names::Names;
use super::results::Results;
use crate::bench::of_quire;
use anyhow::{Context, Result, bail, ensure};
use counts::args::Lines;
use counts::record::Record;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;
use tools::args::Side;
use tools::host::arch::Arch;
use tools::host::workspace::Temporary;
use tools::machine::build::{self, Built};
use tools::machine::console;
use tools::machine::linux::{self, Kernel};
use tools::machine::qemu::{Machine, Plugin};

/// Limit for one boot.
const LIMIT: Duration = Duration::from_secs(4 * 3600);
/// A boot that prints nothing for this long hangs: Linux boots quietly, and each access is looked
/// at.
const SILENCE: Duration = Duration::from_secs(900);
/// One for each operation, and one for who tells them when.
const CPUS: u32 = 3;

/// What is booted.
pub struct Machines<'a> {
    /// The machine.
    pub arch: Arch,
    /// What was built for it.
    pub built: &'a Built,
    /// The kernel, if it is no Quire.
    pub linux: Option<&'a Kernel>,
}

impl Machines<'_> {
    /// Which kernel it is.
    fn side(&self) -> Side {
        self.linux.map_or(Side::Quire, |_| Side::Linux)
    }

    fn machine(&self, program: &str, plugin: &Plugin) -> Machine {
        let mut machine = of_quire(self.arch, self.built, "1G", "", program);
        machine.smp = CPUS;
        machine.plugin = Some(plugin.clone());
        if let Some(kernel) = self.linux {
            machine.image.clone_from(&kernel.image);
            machine.initramfs = Some(self.built.initramfs.clone());
            machine.command_line = linux::words(self.arch, program);
        }
        machine
    }
}

/// Boots, and gives each cell to `results`.
///
/// # Errors
///
/// When the program did not get to its end.
pub fn run(machines: &Machines<'_>, program: &str, results: &Results) -> Result<()> {
    let (out, ram) = (Temporary::name("jsonl"), Temporary::name_in_memory("ram"));
    let plugin = Plugin {
        file: build::plugin()?,
        out: out.path().to_owned(),
        lines: Lines::Each,
        ram: Some(ram.path().to_owned()),
        model: None,
    };
    let elf = std::fs::read(&machines.built.elf)?;
    let names = match machines.linux {
        Some(_) => Names::none(),
        None => Names::of(&elf)?,
    };
    let mut listener = Listener {
        arch: machines.arch,
        side: machines.side(),
        names,
        results,
        records: Records::new(plugin.out.clone()),
        rest: String::new(),
        version: String::new(),
        cells: 0,
        end: None,
    };
    let machine = machines.machine(program, &plugin);
    let boot = console::watch_patiently(&machine, LIMIT, SILENCE, |piece| listener.hear(piece))?;
    let all = listener.end == Some(listener.cells);
    ensure!(
        all,
        "{} on {} did not get to its end ({:?})\n{}",
        machines.side().title(),
        machines.arch,
        boot.end,
        boot.text
    );
    Ok(())
}

struct Listener<'a> {
    arch: Arch,
    side: Side,
    names: Names<'a>,
    results: &'a Results,
    records: Records,
    /// A line that is not whole yet.
    rest: String,
    version: String,
    cells: u64,
    /// How many cells the program says that it printed.
    end: Option<u64>,
}

impl Listener<'_> {
    fn hear(&mut self, piece: &[u8]) {
        self.rest += &String::from_utf8_lossy(piece);
        while let Some((line, rest)) = self.rest.split_once('\n') {
            let (line, rest) = (line.trim().to_owned(), rest.to_owned());
            self.rest = rest;
            if let Ok(line) = serde_json::from_str::<Value>(&line) {
                self.line(&line);
            }
        }
    }

    fn line(&mut self, line: &Value) {
        let count = line["cells"].as_u64();
        if line["begin"] == true {
            let version = line["release"].as_str().unwrap_or_default();
            version.clone_into(&mut self.version);
        } else if line["end"] == true {
            self.end = count;
        } else {
            let read = self.records.read().map_err(|error| format!("{error:#}"));
            let record = |name: &str| match &read {
                Ok(()) => self.records.take(name),
                Err(error) => bail!("what the plugin writes: {error}"),
            };
            let cell = Cell::read(self.arch, self.side, line, record, &self.names);
            if let Some(cell) = cell {
                self.cells += 1;
                self.results.add(cell, &self.version);
            }
        }
    }
}

/// What the plugin wrote.
struct Records {
    path: PathBuf,
    /// How many bytes were read.
    read: u64,
    /// The lines that no cell has taken yet, by the name of the measurement.
    lines: BTreeMap<String, String>,
}

impl Records {
    fn new(path: PathBuf) -> Records {
        Records {
            path,
            read: 0,
            lines: BTreeMap::new(),
        }
    }

    /// Keeps what was written since the last look: the machine may be at a later cell than the
    /// console, and in the middle of a line.
    fn read(&mut self) -> Result<()> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some(line) = line.strip_suffix(b"\n") else {
                break;
            };
            self.read += line.len() as u64 + 1;
            let line = str::from_utf8(line)?;
            let value: Value = serde_json::from_str(line)?;
            let name = value["name"].as_str().context("a measurement has a name")?;
            self.lines.insert(name.to_owned(), line.to_owned());
        }
        Ok(())
    }

    fn take(&mut self, name: &str) -> Result<Record> {
        let line = self.lines.remove(name);
        let line = line.with_context(|| format!("the plugin counted no {name:?}"))?;
        Record::parse(&line).map_err(|error| anyhow::anyhow!("{name:?}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_comes_early_or_in_pieces_is_kept() {
        let record = |name: &str| {
            let record = Record {
                name: name.to_owned(),
                arch: counts::Arch::X86_64,
                cpus: Vec::new(),
            };
            record.to_json() + "\n"
        };
        let file = Temporary::file("jsonl", record("a 0").as_bytes()).unwrap();
        let mut add = File::options().append(true).open(file.path()).unwrap();
        let mut records = Records::new(file.path().to_owned());
        let next = record("b 0");
        let (half, rest) = next.split_at(next.len() / 2);
        add.write_all((record("a 1") + half).as_bytes()).unwrap();
        records.read().unwrap();
        assert_eq!(records.take("a 0").unwrap().name, "a 0");
        assert!(records.take("b 0").is_err());
        add.write_all(rest.as_bytes()).unwrap();
        records.read().unwrap();
        assert_eq!(records.take("b 0").unwrap().name, "b 0");
        assert_eq!(records.take("a 1").unwrap().name, "a 1");
        assert!(records.take("a 1").is_err());
    }
}
