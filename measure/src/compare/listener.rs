//! One boot's console, line by line: figures, what the kernel does not have, and how it ends.
use super::counted::add_to;
use super::record::{Job, Record};
use super::results::Place;
use crate::bench::cells;
use crate::counting::Counted;
use crate::lines::Stream;
use anyhow::Result;
use serde_json::{Value, json};
use tools::machine::console;

/// Listens to the console of one boot.
pub struct Listener<'a> {
    record: &'a Record,
    job: &'a Job<'a>,
    stream: Stream,
    release: String,
    /// Why this kernel's figures are none of one folio size.
    unfit: Option<&'static str>,
    cells: u64,
    done: Option<u64>,
    steps: u64,
    /// What the plugin counts, if there is one.
    counted: Option<Counted>,
}

impl<'a> Listener<'a> {
    /// At the start of a boot.
    pub fn new(record: &'a Record, job: &'a Job<'a>, counted: Option<Counted>) -> Self {
        Listener {
            record,
            job,
            stream: Stream::default(),
            release: String::new(),
            unfit: None,
            cells: 0,
            done: None,
            steps: 0,
            counted,
        }
    }

    /// A piece of the console.
    pub fn hear(&mut self, piece: &[u8]) {
        for line in self.stream.hear(piece) {
            self.line(line);
        }
    }

    fn line(&mut self, line: Value) {
        if self.record.store.is_over() {
            return;
        }
        if line["begin"] == true {
            self.begin(&line);
        } else if line["done"] == true {
            self.done = line["cells"].as_u64();
        } else if let Some((key, figure)) = cells::cell(&line) {
            self.cells += 1;
            self.step();
            match self.unfit {
                Some(why) => self.absent(&key.op, key.kb, why),
                None => self.cell(key, figure, line),
            }
        } else if let Some(swap) = line["swap"].as_str() {
            let Job { arch, side, .. } = *self.job;
            let swap = swap.to_owned();
            let store = &self.record.store;
            store.with(|results| results.swaps.insert((arch, side), swap));
        } else if line["first_pass"].is_string() {
            self.step();
        } else if let Some(why) = line["absent"].as_str() {
            let kb = line["folio_kb"].as_u64().unwrap_or(0);
            self.absent(line["op"].as_str().unwrap_or_default(), kb, why);
        } else if let (Some(kb), Some(why)) = (line["skipped"].as_u64(), line["why"].as_str()) {
            for op in &self.job.group.ops {
                self.absent(op, kb, why);
            }
        }
    }

    fn begin(&mut self, line: &Value) {
        line["release"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut self.release);
        if line["instructions"] == false {
            self.unfit = Some("the machine's clock does not count instructions");
        } else if line["size_controls"] == false {
            self.unfit = Some("no controls per folio size, which Linux has since 6.8");
        }
        let Job { arch, side, .. } = *self.job;
        self.record.store.with(|results| {
            let known = results.releases.entry((arch, side)).or_default();
            // Not every program says it; an earlier boot has.
            match self.release.is_empty() {
                true => self.release.clone_from(known),
                false => known.clone_from(&self.release),
            }
        });
    }

    fn step(&mut self) {
        // A program with more lines than were expected does not take the steps of others.
        if self.steps < self.job.group.steps {
            self.steps += 1;
            self.record.store.step(1);
        }
    }

    /// What each line says of where it comes from.
    fn marked(&self, mut line: Value) -> Value {
        let Job { arch, side, group } = *self.job;
        let program = group.line.split(' ').next().unwrap_or_default();
        let hash = self.record.programs.get(&(arch, program.to_owned()));
        line["kernel"] = side.name().into();
        line["version"] = self.release.as_str().into();
        line["arch"] = arch.name().into();
        line["cpus"] = group.cpus.into();
        line["program"] = program.into();
        line["program_sha256"] = hash.map(String::as_str).into();
        line
    }

    fn cell(&mut self, key: cells::Key, figure: f64, mut line: Value) {
        if let Some(counted) = &mut self.counted
            && let Err(error) = add_to(&mut line, counted)
        {
            self.fail(&format!("{error:#}"));
        }
        let Job { arch, side, group } = *self.job;
        let row = |name: &String| *name == key.op;
        let place = Place {
            arch,
            row: self.record.order.iter().position(row).unwrap_or(usize::MAX),
            cpus: group.cpus,
            by_pmd: line["mapped"] == "pmd",
            op: key.op,
            kb: key.kb,
            vmas: key.vmas,
        };
        let line = self.marked(line);
        self.record.store.add(&line, |results| {
            results.add_counted(&place, side, &line);
            results.add(place, side, figure, line["whole"].is_number());
        });
    }

    fn absent(&self, op: &str, kb: u64, why: &str) {
        let Job { arch, side, .. } = *self.job;
        let line = self.marked(json!({"op": op, "folio_kb": kb, "absent": why}));
        let store = &self.record.store;
        store.add(&line, |results| results.lacks(arch, side, why, op, kb));
    }

    /// The end of the boot. One that did not get to the program's end, or lost a line, has failed:
    /// programs end so, too, when memory does not hold what it must.
    pub fn end(mut self, boot: &Result<console::Boot>) {
        if self.record.store.is_over() {
            return;
        }
        let why = match boot {
            Err(error) => Some(format!("{error:#}")),
            Ok(_) if self.done == Some(self.cells) => None,
            Ok(boot) => Some(failure(boot, self.done.is_some())),
        };
        let missing = self.job.group.steps - self.steps;
        self.steps += missing;
        self.record.store.step(missing);
        if let Some(why) = why {
            self.fail(&why);
        }
    }

    fn fail(&self, why: &str) {
        let Job { arch, side, group } = *self.job;
        let line = self.marked(json!({"line": group.line, "failed": why}));
        let text = format!("{} on {arch}, {}: {why}", side.title(), group.line);
        let store = &self.record.store;
        store.add(&line, |results| results.failures.push(text));
    }
}

/// How a boot ended too early, with the end of its console: more than a panic of Linux.
fn failure(boot: &console::Boot, done: bool) -> String {
    const LINES: usize = 80;
    let lines: Vec<&str> = boot.text.trim_end().lines().collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    let what = match done {
        true => "lines are missing",
        false => "did not get to its end",
    };
    format!("{what} ({:?})\n{}", boot.end, last.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::super::plan::Group;
    use super::super::results::Results;
    use super::super::table;
    use super::*;
    use crate::lines::objects;
    use crate::store::Store;
    use crate::testing::has;
    use std::fs::File;
    use std::sync::Arc;
    use tools::args::Side;
    use tools::host::arch::Arch;
    use tools::host::progress::Bar;
    use tools::host::workspace::Temporary;
    use tools::machine::guest::End;

    const BEGIN: &str =
        "{\"begin\":true,\"release\":\"7.2\",\"instructions\":true,\"size_controls\":true}\n";
    const CELL: &str = "{\"op\":\"fork\",\"folio_kb\":64,\"per_page\":12.5,\"pgfault\":7}\r\n";

    fn boot(text: &str) -> Result<console::Boot> {
        Ok(console::Boot {
            end: End::Status(1),
            text: text.to_owned(),
        })
    }

    /// The lines in the file and the table after such a console of one boot.
    fn heard(pieces: &[&str], interrupted: bool) -> (Vec<Value>, String, Vec<String>) {
        let file = Temporary::file("json", b"").unwrap();
        let group = Group {
            line: "bench --op fork --size 64".to_owned(),
            mib: 1024,
            cpus: 1,
            swaps: false,
            ops: vec!["fork".to_owned()],
            steps: 2,
        };
        let job = Job {
            group: &group,
            side: Side::Linux,
            arch: Arch::X86_64,
        };
        let programs = [((Arch::X86_64, "bench".to_owned()), "5a".to_owned())].into();
        let open = File::options().append(true).open(file.path()).unwrap();
        let store = Store::new(Results::default(), Some(open), Bar::hidden(2));
        let record = Record {
            order: vec!["fork".to_owned()],
            programs,
            store: Arc::new(store),
        };
        let mut listener = Listener::new(&record, &job, None);
        for piece in pieces {
            listener.hear(piece.as_bytes());
        }
        if interrupted {
            record.store.interrupt(table::render);
        }
        listener.end(&boot(&pieces.concat()));
        let text = std::fs::read_to_string(file.path()).unwrap();
        let table = record.store.finish(table::render).unwrap();
        let failures = record.store.with(|results| results.failures.clone());
        (objects(&text).collect(), table, failures)
    }

    #[test]
    fn a_figure_is_written_with_where_it_comes_from() {
        let (cut, rest) = CELL.split_at(20);
        let pieces = [
            BEGIN,
            "[ 0.1] noise\n",
            cut,
            rest,
            "{\"done\":true,\"cells\":1}\n",
        ];
        let (lines, table, failures) = heard(&pieces, false);
        assert_eq!(
            lines,
            [
                json!({"op": "fork", "folio_kb": 64, "per_page": 12.5, "pgfault": 7, "kernel": "linux",
                "version": "7.2", "arch": "x86_64", "cpus": 1, "program": "bench", "program_sha256": "5a"})
            ]
        );
        has(&table, "Linux 7.2");
        has(&table, " 12.5");
        assert!(failures.is_empty());
    }

    #[test]
    fn wrong_memory_fails_the_run_and_keeps_the_rest() {
        let (lines, table, failures) = heard(&[BEGIN, CELL, "bench: page 3 is wrong\n"], false);
        assert_eq!(lines[0]["per_page"], 12.5);
        assert!(
            lines[1]["failed"]
                .as_str()
                .unwrap()
                .ends_with("page 3 is wrong")
        );
        has(&table, " 12.5");
        assert!(
            failures[0].starts_with("Linux on x86_64, bench --op fork"),
            "{failures:?}"
        );
    }

    #[test]
    fn a_lost_line_is_a_failure() {
        let (_, _, failures) = heard(&[BEGIN, "{\"done\":true,\"cells\":1}\n"], false);
        assert!(failures[0].contains("lines are missing"), "{failures:?}");
    }

    #[test]
    fn an_interrupted_boot_is_none() {
        let (lines, table, failures) = heard(&[BEGIN, CELL], true);
        assert_eq!((lines.len(), failures.len()), (1, 0));
        has(&table, " 12.5");
    }

    #[test]
    fn what_a_kernel_has_not_is_said_and_not_guessed() {
        let done = "{\"done\":true,\"cells\":0}\n";
        let absent = "{\"op\":\"fork\",\"folio_kb\":64,\"absent\":\"no fork\"}\n";
        let (lines, table, _) = heard(&[BEGIN, absent, done], false);
        assert_eq!(lines[0]["absent"], "no fork");
        assert_eq!(table, "x86_64, Linux: no fork: fork (64 kB)\n");
        let skipped = "{\"skipped\":64,\"why\":\"no such folios\"}\n";
        let (_, table, _) = heard(&[BEGIN, skipped, done], false);
        assert_eq!(table, "x86_64, Linux: no such folios: fork (64 kB)\n");
        let old = BEGIN.replace("\"size_controls\":true", "\"size_controls\":false");
        let (lines, table, failures) = heard(&[&old, CELL, "{\"done\":true,\"cells\":1}\n"], false);
        assert!(lines[0]["per_page"].is_null() && failures.is_empty());
        has(&table, "no controls per folio size");
    }
}
