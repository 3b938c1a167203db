//! The figures as they come: kept for the table, and written to a file line by line, so that a run
//! that is interrupted keeps what it has.
use super::plan::Group;
use super::results::{Pair, Place, Results};
use super::table;
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tools::args::Side;
use tools::host::arch::Arch;
use tools::host::progress::Bar;

/// A boot to measure with.
pub struct Job<'a> {
    /// What is measured.
    pub group: &'a Group,
    /// By which kernel.
    pub side: Side,
    /// On which machine.
    pub arch: Arch,
}

/// By machine and name of a program, its hash.
pub type Programs = BTreeMap<(Arch, String), String>;

/// Everything of one run, for all of its threads.
pub struct Record {
    /// The operations in the order of the program's list.
    pub order: Vec<String>,
    /// The programs that both kernels run.
    pub programs: Programs,
    state: Mutex<State>,
}

struct State {
    results: Results,
    file: Option<File>,
    /// Why the file does not get everything.
    unwritten: Option<std::io::Error>,
    bar: Bar,
    over: bool,
}

impl State {
    fn write(&mut self, line: &Value) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = writeln!(file, "{line}") {
            self.unwritten = Some(error);
            self.file = None;
        }
    }
}

impl Record {
    /// An empty one, whose first line in the file is `header`.
    pub fn new(
        order: Vec<String>,
        programs: Programs,
        file: Option<File>,
        header: &Value,
        bar: Bar,
    ) -> Record {
        let mut state = State {
            results: Results::default(),
            file,
            unwritten: None,
            bar,
            over: false,
        };
        state.write(header);
        Record {
            order,
            programs,
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the run was interrupted: nothing is added any more.
    pub fn is_over(&self) -> bool {
        self.state().over
    }

    /// Ends the run early, and returns the table of what there is.
    pub fn interrupt(&self) -> String {
        let mut state = self.state();
        state.over = true;
        state.bar.clear();
        table::render(&state.results)
    }

    /// So many steps of progress more are done.
    pub fn step(&self, steps: u64) {
        self.state().bar.step(steps);
    }

    /// What a kernel calls itself.
    pub fn begin(&self, job: &Job<'_>, release: &str) {
        let releases = &mut self.state().results.releases;
        releases.insert((job.arch, job.side), release.to_owned());
    }

    /// What this kernel called itself before; empty when it has not.
    pub fn release(&self, job: &Job<'_>) -> String {
        let releases = &self.state().results.releases;
        let release = releases.get(&(job.arch, job.side)).cloned();
        release.unwrap_or_default()
    }

    /// A figure, and its line.
    pub fn add(&self, place: Place, side: Side, figure: f64, line: &Value) {
        let mut state = self.state();
        let whole = line["whole"].is_number();
        state.results.add_counted(&place, side, line);
        state.results.add(place, side, figure, whole);
        state.write(line);
    }

    /// What a kernel does not have, and its line.
    pub fn lacks(&self, job: &Job<'_>, why: &str, op: &str, kb: u64, line: &Value) {
        let mut state = self.state();
        state.results.lacks(job.arch, job.side, why, op, kb);
        state.write(line);
    }

    /// How a boot failed, and its line.
    pub fn fail(&self, text: String, line: &Value) {
        let mut state = self.state();
        state.write(line);
        state.results.failures.push(text);
    }

    /// The one pair of figures, if no more were measured.
    pub fn only_pair(&self) -> Option<Pair> {
        let state = self.state();
        let mut pairs = state.results.pairs.values();
        pairs.next().copied().filter(|_| pairs.next().is_none())
    }

    /// The table of a run that got to its end, with how boots failed that did not; an error when
    /// the file has not everything.
    pub fn finish(&self) -> Result<(String, Vec<String>)> {
        let mut state = self.state();
        state.bar.clear();
        match state.unwritten.take() {
            Some(error) => Err(anyhow::Error::new(error).context("--json: the file is cut")),
            None => Ok((
                table::render(&state.results),
                std::mem::take(&mut state.results.failures),
            )),
        }
    }
}
