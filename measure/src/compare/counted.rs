//! What the plugin for QEMU adds to the lines of a comparison: by each measurement's mark.
use crate::counting::{Counted, Counting};
use anyhow::{Context, Result};
use counts::args::Lines;
use counts::record::Record;
use serde_json::{Map, Value};
use tools::args::CompareArgs;
use tools::host::arch::Arch;

/// What the arguments ask to be counted; nothing when they ask for nothing.
pub fn counting(args: &CompareArgs, arches: &[Arch]) -> Result<Option<Counting>> {
    if args.model.is_none() && !args.lines {
        return Ok(None);
    }
    let lines = match args.lines {
        true => Lines::Count,
        false => Lines::Off,
    };
    let who = "--model and --lines need";
    Counting::new(who, arches, lines, args.model.as_deref()).map(Some)
}

/// Adds to a program's line what was counted between its marks.
///
/// # Errors
///
/// When the program did not mark it, or the plugin's file has no such measurement.
pub fn add_to(line: &mut Value, counted: &mut Counted) -> Result<()> {
    let mark = line["mark"].as_str();
    let mark = mark.with_context(|| format!("a line without its mark: {line}"))?;
    let fields = fields(&counted.take(mark)?);
    line.as_object_mut()
        .context("a line of fields")?
        .extend(fields);
    Ok(())
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
    use serde_json::json;

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
        crate::counting::tests::counted(&lines.concat())
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
        add_to(&mut line, &mut counted).unwrap();
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
        add_to(&mut next, &mut counted).unwrap();
        assert_eq!(next["walks"], 28);
    }

    #[test]
    fn a_line_that_was_not_counted_is_an_error() {
        let mut counted = counted(&[record("fork@4", 1)]);
        let error = add_to(&mut json!({"op": "cow", "mark": "cow@4"}), &mut counted);
        assert!(format!("{:#}", error.unwrap_err()).contains("no \"cow@4\""));
        assert!(add_to(&mut json!({"op": "cow"}), &mut counted).is_err());
    }
}
