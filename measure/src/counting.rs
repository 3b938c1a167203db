//! What the plugin for QEMU counts in the boots of a run.
use anyhow::{Context, Result, bail};
use counts::args::Lines;
use counts::record::Record;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use tools::host::arch::Arch;
use tools::host::workspace::Temporary;
use tools::machine::build;
use tools::machine::qemu::plugin::{self, Plugin};

/// What is counted in each boot.
pub struct Counting {
    plugin: PathBuf,
    lines: Lines,
    model: Option<String>,
}

impl Counting {
    /// Lines, and the figures of a model, on these machines.
    ///
    /// # Errors
    ///
    /// When QEMU takes no plugins, which `who` needs.
    pub fn new(who: &str, arches: &[Arch], lines: Lines, model: Option<&str>) -> Result<Counting> {
        for arch in arches {
            if let Some(why) = plugin::missing(*arch)? {
                bail!("{who} a plugin of QEMU: {why}");
            }
        }
        Ok(Counting {
            plugin: build::plugin()?,
            lines,
            model: model.map(str::to_owned),
        })
    }

    /// Of one boot.
    pub fn boot(&self) -> Counted {
        let (out, ram) = (Temporary::name("jsonl"), Temporary::name_in_memory("ram"));
        Counted {
            plugin: Plugin {
                file: self.plugin.clone(),
                out: out.path().to_owned(),
                lines: self.lines,
                ram: Some(ram.path().to_owned()),
                model: self.model.clone(),
                pages: None,
            },
            _files: [out, ram],
            read: 0,
            records: BTreeMap::new(),
        }
    }

    /// What a result says of it.
    pub fn to_value(&self) -> Value {
        json!({"model": self.model, "lines": self.lines != Lines::Off})
    }
}

/// What is counted in one boot, as it comes.
pub struct Counted {
    plugin: Plugin,
    /// Those of the plugin, which go with this value.
    _files: [Temporary; 2],
    /// How many bytes of the plugin's file were read.
    read: u64,
    /// The last line of each name that was not taken yet.
    records: BTreeMap<String, String>,
}

impl Counted {
    /// The plugin for the machine.
    pub fn plugin(&self) -> Plugin {
        self.plugin.clone()
    }

    /// Takes the last measurement of a name. It is in the plugin's file before the program writes
    /// that it was made.
    pub fn take(&mut self, name: &str) -> Result<Record> {
        let read = self.read_new();
        read.with_context(|| format!("cannot read {}", self.plugin.out.display()))?;
        let line = self.records.remove(name);
        let line = line.with_context(|| format!("the plugin counted no {name:?}"))?;
        Record::parse(&line).map_err(|error| anyhow::anyhow!("{name:?}: {error}"))
    }

    /// Keeps what was written since the last look: the machine may be at a later measurement than
    /// the console, and in the middle of a line.
    fn read_new(&mut self) -> Result<()> {
        let mut file = File::open(&self.plugin.out)?;
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
            self.records.insert(name.to_owned(), line.to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::io::Write;

    /// A boot whose plugin wrote this.
    pub fn counted(written: &str) -> Counted {
        let counting = Counting {
            plugin: PathBuf::new(),
            lines: Lines::Count,
            model: None,
        };
        let counted = counting.boot();
        std::fs::write(&counted.plugin.out, written).unwrap();
        counted
    }

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
        let next = record("b 0");
        let (half, rest) = next.split_at(next.len() / 2);
        let mut counted = counted(&(record("a 0") + &record("a 1") + half));
        assert_eq!(counted.take("a 0").unwrap().name, "a 0");
        assert!(counted.take("b 0").is_err());
        let file = File::options().append(true).open(&counted.plugin.out);
        file.unwrap().write_all(rest.as_bytes()).unwrap();
        assert_eq!(counted.take("b 0").unwrap().name, "b 0");
        assert_eq!(counted.take("a 1").unwrap().name, "a 1");
        assert!(counted.take("a 1").is_err());
    }
}
