//! The cells as they come: kept for the table, and written to a file line by line.
use super::cell::{Cell, Found};
use super::table;
use anyhow::Result;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tools::host::progress::Bar;

/// Everything of one run.
pub struct Results(Mutex<State>);

struct State {
    cells: Vec<Cell>,
    file: Option<File>,
    /// Why the file does not get everything.
    unwritten: Option<std::io::Error>,
    bar: Bar,
    over: bool,
}

impl Results {
    /// None yet.
    pub fn new(file: Option<File>, bar: Bar) -> Results {
        Results(Mutex::new(State {
            cells: Vec::new(),
            file,
            unwritten: None,
            bar,
            over: false,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one.
    pub fn add(&self, cell: Cell, version: &str) {
        let mut state = self.state();
        if state.over {
            return;
        }
        state.bar.step(1);
        let line = cell.to_value(version);
        if let Some(file) = &mut state.file
            && let Err(error) = writeln!(file, "{line}")
        {
            state.unwritten = Some(error);
            state.file = None;
        }
        state.cells.push(cell);
    }

    /// What there is.
    pub fn cells(&self) -> Vec<Cell> {
        self.state().cells.clone()
    }

    /// Ends the run early, and returns the table of what there is.
    pub fn interrupt(&self) -> String {
        let mut state = self.state();
        state.over = true;
        state.bar.clear();
        table::render(&state.cells)
    }

    /// The table, and how many cells failed.
    ///
    /// # Errors
    ///
    /// When the file has not everything.
    pub fn finish(&self) -> Result<(String, usize)> {
        let mut state = self.state();
        state.bar.clear();
        if let Some(error) = state.unwritten.take() {
            return Err(anyhow::Error::new(error).context("--json: the file is cut"));
        }
        let failed = |cell: &&Cell| matches!(cell.found, Found::Failed(_));
        let failed = state.cells.iter().filter(failed).count();
        Ok((table::render(&state.cells), failed))
    }
}
