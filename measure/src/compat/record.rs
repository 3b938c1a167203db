//! What is known so far, for all threads.
use super::Job;
use super::results::Ran;
use super::table::{self, Row};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tools::args::Side;
use tools::host::arch::Arch;
use tools::host::progress::Bar;

/// The results as they come.
pub struct Record(Mutex<State>);

struct State {
    /// By machine and program, of each kernel.
    ran: BTreeMap<(Arch, String), BTreeMap<Side, Ran>>,
    file: Option<File>,
    bar: Bar,
}

impl Record {
    /// An empty one.
    pub fn new(file: Option<File>, bar: Bar) -> Record {
        Record(Mutex::new(State {
            ran: BTreeMap::new(),
            file,
            bar,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the result of a job, and writes its line.
    pub fn add(&self, job: &Job<'_>, ran: Ran) -> Result<()> {
        let mut state = self.state();
        state.bar.step(1);
        if let Some(file) = &mut state.file {
            let written = writeln!(file, "{}", line(job, &ran));
            written.context("--json: the file is cut")?;
        }
        let key = (job.kernels.linux.arch, job.program.name.clone());
        state.ran.entry(key).or_default().insert(job.side, ran);
        Ok(())
    }

    /// The table of each machine, of the programs that have run on both kernels, by one of
    /// [`table`]'s functions.
    pub fn tables(&self, render: fn(Arch, &[Row<'_>]) -> String) -> String {
        let mut state = self.state();
        state.bar.clear();
        let rows = |arch: Arch| {
            let of_arch = state.ran.iter().filter(|((of, _), _)| *of == arch);
            let rows = of_arch.filter_map(|((_, program), ran)| {
                Some(Row {
                    program,
                    linux: ran.get(&Side::Linux)?,
                    quire: ran.get(&Side::Quire)?,
                })
            });
            rows.collect::<Vec<_>>()
        };
        let tables = Arch::ALL.map(|arch| (arch, rows(arch)));
        let tables = tables.iter().filter(|(_, rows)| !rows.is_empty());
        let tables: Vec<String> = tables.map(|(arch, rows)| render(*arch, rows)).collect();
        tables.join("\n")
    }

    /// [`Record::tables`] for a terminal.
    pub fn text(&self) -> String {
        self.tables(table::text)
    }
}

fn line(job: &Job<'_>, ran: &Ran) -> Value {
    let test = |(name, verdict): &(String, super::results::Verdict)| json!([name, verdict.name()]);
    json!({
        "arch": job.kernels.linux.arch.name(),
        "kernel": job.side.name(),
        "program": job.program.name,
        "cut": ran.cut,
        "tests": ran.tests.iter().map(test).collect::<Vec<_>>(),
    })
}
