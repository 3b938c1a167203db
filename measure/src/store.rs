//! What a run has found so far, for all of its threads: kept for the tables, and written to a file
//! line by line, so that a run that is interrupted keeps what it has.
use anyhow::Result;
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tools::host::progress::Bar;
use tools::machine::guest;

/// What is kept is a `T`.
pub struct Store<T>(Mutex<State<T>>);

struct State<T> {
    kept: T,
    file: Option<File>,
    /// Why the file does not get everything.
    unwritten: Option<std::io::Error>,
    bar: Bar,
    over: bool,
}

impl<T> Store<T> {
    /// With what there is before anything is measured.
    pub fn new(kept: T, file: Option<File>, bar: Bar) -> Store<T> {
        Store(Mutex::new(State {
            kept,
            file,
            unwritten: None,
            bar,
            over: false,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the run was interrupted: nothing is added any more.
    pub fn is_over(&self) -> bool {
        self.state().over
    }

    /// So many steps of progress more are done.
    pub fn step(&self, steps: u64) {
        self.state().bar.step(steps);
    }

    /// Writes a line, and keeps what it says.
    pub fn add(&self, line: &Value, keep: impl FnOnce(&mut T)) {
        let mut state = self.state();
        if state.over {
            return;
        }
        if let Some(file) = &mut state.file
            && let Err(error) = writeln!(file, "{line}")
        {
            state.unwritten = Some(error);
            state.file = None;
        }
        keep(&mut state.kept);
    }

    /// What is kept.
    pub fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.state().kept)
    }

    /// Ends the run early, and returns the tables of what there is.
    pub fn interrupt(&self, render: fn(&T) -> String) -> String {
        let mut state = self.state();
        state.over = true;
        state.bar.clear();
        render(&state.kept)
    }

    /// The tables of a run that got to its end.
    ///
    /// # Errors
    ///
    /// When the file has not everything.
    pub fn finish(&self, render: fn(&T) -> String) -> Result<String> {
        let mut state = self.state();
        state.bar.clear();
        match state.unwritten.take() {
            Some(error) => Err(anyhow::Error::new(error).context("--json: the file is cut")),
            None => Ok(render(&state.kept)),
        }
    }
}

impl<T: Send + 'static> Store<T> {
    /// Has a signal end the run and print the tables of what there is.
    pub fn print_on_a_signal(self: &Arc<Self>, render: fn(&T) -> String) {
        let last = Arc::clone(self);
        guest::before_the_end(move || print!("{}", last.interrupt(render)));
    }
}
