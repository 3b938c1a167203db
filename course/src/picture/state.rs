//! What the program `scene` says after a step.
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;

/// After a step.
#[derive(Debug)]
pub struct State {
    /// What was done.
    pub step: String,
    /// Where the scene begins.
    pub start: u64,
    /// Why it was not.
    pub error: Option<String>,
    /// How far counters moved.
    pub counters: BTreeMap<String, i64>,
    /// The first process, and the second if there is one.
    pub processes: Vec<Process>,
}

/// A process.
#[derive(Debug)]
pub struct Process {
    /// Areas of the scene.
    pub areas: Vec<Area>,
    /// Its page tables there.
    pub entries: Vec<Entry>,
}

/// A line of `/proc/PID/maps`.
#[derive(Debug)]
pub struct Area {
    /// First address and end.
    pub range: (u64, u64),
    /// Such as `rw-p`.
    pub rights: String,
}

/// A line of `/proc/PID/page_tables`.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it translates.
    pub range: (u64, u64),
    /// 3 for an entry of the root, 0 for a PTE.
    pub level: u32,
    /// The first entry, and how many alike.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// What is there.
    pub to: To,
}

/// What an entry leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// A table in this frame.
    Table(u64),
    /// A table in this frame that so many processes share: one, when the others have gone.
    Shared(u64, u64),
    /// Memory.
    Memory {
        /// The page of zeros, or memory of its own.
        zero: bool,
        /// The first frame.
        frame: u64,
        /// The folio's first frame.
        head: u64,
        /// Its size.
        kb: u64,
        /// As the file has them: `rwxadct`.
        flags: String,
    },
    /// Swap slots.
    Slots {
        /// The first one.
        slot: u64,
        /// The first one of its block.
        head: u64,
        /// The block's size.
        kb: u64,
        /// Of what is parked, the frame of the first one's page, its folio's first frame and size.
        parked: Option<(u64, u64, u64)>,
    },
}

impl State {
    /// All that a console has.
    pub fn all(text: &str) -> Result<Vec<State>> {
        let lines = text.lines().filter(|line| line.starts_with("{\"scene\""));
        lines.map(State::parse).collect()
    }

    /// From a line.
    pub fn parse(line: &str) -> Result<State> {
        let value: Value = serde_json::from_str(line).context("scene: a line is not whole")?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let counters = value["counters"].as_object().into_iter().flatten();
        let counters = counters.filter_map(|(name, by)| Some((name.clone(), by.as_i64()?)));
        let processes = value["processes"].as_array().into_iter().flatten();
        Ok(State {
            step: text("scene").context("scene: no step")?,
            start: value["start"].as_u64().context("scene: no start")?,
            error: text("error"),
            counters: counters.collect(),
            processes: processes.map(process).collect::<Result<_>>()?,
        })
    }

    /// In a few words, what it took. The machine counts instructions as nanoseconds.
    pub fn summary(&self) -> String {
        const SHOWN: [(&str, &str, &str); 12] = [
            ("ns", "instruction", "instructions"),
            ("pgfault", "fault", "faults"),
            ("pages_zeroed", "page zeroed", "pages zeroed"),
            ("pages_copied", "page copied", "pages copied"),
            ("pswpout", "page stored", "pages stored"),
            ("pswpin", "page brought back", "pages brought back"),
            ("entry_writes", "entry written", "entries written"),
            (
                "account_updates",
                "update of the account",
                "updates of the account",
            ),
            ("page_tables_shared", "table shared", "tables shared"),
            ("page_tables_unshared", "table copied", "tables copied"),
            ("tlb_flush_range", "flush", "flushes"),
            ("remap_entries_moved", "entry moved", "entries moved"),
        ];
        if let Some(error) = &self.error {
            return format!("failed: {error}");
        }
        let moved = SHOWN.iter().filter_map(|(counter, one, many)| {
            let by = *self.counters.get(*counter)?;
            Some(format!("{by} {}", if by == 1 { one } else { many }))
        });
        let words: Vec<String> = moved.collect();
        match words.is_empty() {
            true => "nothing that is counted".to_owned(),
            false => words.join(", "),
        }
    }
}

fn strings<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v str> {
    let all = value[name].as_array().into_iter().flatten();
    all.filter_map(Value::as_str)
}

fn process(value: &Value) -> Result<Process> {
    Ok(Process {
        areas: strings(value, "areas").map(area).collect::<Result<_>>()?,
        entries: strings(value, "tables").map(entry).collect::<Result<_>>()?,
    })
}

fn hex(text: &str) -> Result<u64> {
    u64::from_str_radix(text, 16).with_context(|| format!("no number {text}"))
}

fn range(text: &str) -> Result<(u64, u64)> {
    let (start, end) = text.split_once('-').context("no range")?;
    Ok((hex(start)?, hex(end)?))
}

fn area(line: &str) -> Result<Area> {
    let mut words = line.split(' ');
    Ok(Area {
        range: range(words.next().unwrap_or_default())?,
        rights: words.next().unwrap_or_default().to_owned(),
    })
}

pub(super) fn entry(line: &str) -> Result<Entry> {
    let words: Vec<&str> = line.split(' ').collect();
    let [place, level, indices, kind, frame, ..] = words[..] else {
        bail!("page_tables: {line}");
    };
    let level = ["pte", "pmd", "pud", "pgd"]
        .iter()
        .position(|name| *name == level);
    let (first, last) = indices.split_once('-').context("no indices")?;
    let (first, last): (u64, u64) = (first.parse()?, last.parse()?);
    let frame = hex(frame)?;
    let size = |kb: &str| kb.trim_end_matches("kB").parse();
    let to = match (kind, &words[5..]) {
        ("table", []) => To::Table(frame),
        ("shared", [sharers]) => To::Shared(frame, sharers.parse()?),
        ("anon" | "file" | "zero", [head, kb, flags]) => To::Memory {
            zero: kind == "zero",
            frame,
            head: hex(head)?,
            kb: size(kb)?,
            flags: (*flags).to_owned(),
        },
        ("swap", [head, kb, place @ ..]) => To::Slots {
            slot: frame,
            head: hex(head)?,
            kb: size(kb)?,
            parked: match place {
                ["stored"] => None,
                ["parked", frame, head, kb] => Some((hex(frame)?, hex(head)?, size(kb)?)),
                _ => bail!("page_tables: {line}"),
            },
        },
        _ => bail!("page_tables: {line}"),
    };
    Ok(Entry {
        range: range(place)?,
        level: level.with_context(|| format!("page_tables: {line}"))? as u32,
        first,
        count: last + 1 - first,
        to,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Two processes that share a folio, after a write.
    pub fn sample() -> State {
        let line = r#"{"scene":"write 0-15","start":35184372088832,"error":null,"counters":{"ns":900,"pgfault":1,"entry_writes":16},
            "processes":[{"pid":7,"areas":["200000000000-200000400000 rw-p 00000000 00:00 0"],"tables":[
            "200000000000-208000000000 pgd 64-64 table 101","200000000000-200040000000 pud 0-0 table 102",
            "200000000000-200000200000 pmd 0-0 table 103","200000000000-200000010000 pte 0-15 anon 400 400 64kB rw-ad--",
            "200000200000-200000400000 pmd 1-1 anon 600 600 2048kB rw-ad--"]},
            {"pid":8,"areas":[],"tables":["200000000000-200000200000 pmd 0-0 shared 103 2",
            "200000000000-200000010000 pte 0-15 anon 400 400 64kB r--ad--","200000020000-200000021000 pte 32-32 zero 7 7 4kB r--a---"]}]}"#;
        State::parse(&line.replace('\n', "")).unwrap()
    }

    #[test]
    fn lines_of_the_program() {
        let state = sample();
        assert_eq!(
            state.summary(),
            "900 instructions, 1 fault, 16 entries written"
        );
        let [first, second] = &state.processes[..] else {
            panic!("{state:?}")
        };
        assert_eq!((first.areas.len(), first.entries.len()), (1, 5));
        assert_eq!((first.entries[3].first, first.entries[3].count), (0, 16));
        assert_eq!(second.entries[0].to, To::Shared(0x103, 2));
        assert!(matches!(
            &second.entries[2].to,
            To::Memory { zero: true, .. }
        ));
    }

    #[test]
    fn slots_are_parked_or_stored() {
        let to = |rest: &str| entry(&format!("200000000000-200000004000 pte 0-3 swap {rest}"));
        let slots = |parked| To::Slots {
            slot: 0x10004,
            head: 0x10000,
            kb: 64,
            parked,
        };
        assert_eq!(to("10004 10000 64kB stored").unwrap().to, slots(None));
        assert_eq!(
            to("10004 10000 64kB parked 404 400 64kB").unwrap().to,
            slots(Some((0x404, 0x400, 64)))
        );
        for wrong in ["10004", "10004 10000 64kB", "10004 10000 64kB parked 404"] {
            assert!(to(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_whole_is_an_error() {
        assert!(State::all("{\"scene\":\"x\",\"sta").is_err());
        assert!(State::all("boot\n").unwrap().is_empty());
        assert!(entry("200000000000-208000000000 pgd 64-64").is_err());
        assert!(entry("200000000000-208000000000 pxd 64-64 table 1").is_err());
    }
}
