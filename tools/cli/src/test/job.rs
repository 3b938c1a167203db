//! What a run is to do: which of the cases that there are filter, level and change choose.
use super::cases::{self, Known};
use super::levels::{self, Selection};
use super::outcome::{Case, Outcome, Report};
use super::{changes, pairs, reach};
use anyhow::{Result, anyhow};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tools::args::TestArgs;
use tools::host::workers;

/// What is to be run, and where results go.
pub struct Job<'a> {
    /// Which tests; a name that does not match is not run.
    pub filter: String,
    /// What it has of the levels.
    selection: Selection,
    /// Nothing is run: its names are collected.
    names_only: bool,
    /// Print names instead of running, where they are not tracked.
    pub list: bool,
    /// Tests that try a part of a table try all of it.
    pub whole_tables: bool,
    /// Where results go.
    pub report: &'a Report,
    /// The names of the tracked list, and whether filter and level choose each.
    pub tracked: BTreeMap<String, bool>,
    /// The names that there are, as far as the run gets to them.
    pub found: Mutex<Known>,
    /// Whether the filter has matched any test so far.
    pub matched: AtomicBool,
}

impl<'a> Job<'a> {
    pub fn new(args: &'a TestArgs, report: &'a Report) -> Result<Job<'a>> {
        // The first list is written where there is none.
        let tracked = match args.bless {
            true => Known::tracked().unwrap_or_default(),
            false => Known::tracked()?,
        };
        let (filter, selection) = (filter(args)?, selection(args));
        let chosen = |name: &String| ktest::glob::matches(&filter, name) && selection.has(name);
        let tracked = tracked.names().map(|name| (name.clone(), chosen(&name)));
        Ok(Job {
            tracked: tracked.collect(),
            filter,
            selection,
            names_only: args.bless,
            list: args.list,
            whole_tables: args.full || args.long.is_some(),
            report,
            found: Mutex::default(),
            matched: AtomicBool::new(false),
        })
    }

    /// Whether a test of this full name, which there is, is to be run.
    pub fn wants(&self, name: &str) -> bool {
        self.is_found(name);
        let wanted = self.chooses(name);
        self.matched.fetch_or(wanted, Relaxed);
        wanted && !self.names_only
    }

    /// There is a test of this full name.
    fn is_found(&self, name: &str) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.add(name);
    }

    /// Whether filter and level choose a name.
    pub fn chooses(&self, name: &str) -> bool {
        ktest::glob::matches(&self.filter, name) && self.selection.has(name)
    }

    /// The result of a test that was run.
    pub fn add(&self, name: String, outcome: Outcome, duration: Option<Duration>) {
        self.is_found(&name);
        self.report.add(name, outcome, duration);
    }

    /// Runs one test of the tool's own.
    pub fn case(&self, name: String, body: impl FnOnce() -> Result<Outcome>) {
        if self.wants(&name) {
            let started = Instant::now();
            let outcome =
                workers::caught(body).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
            self.report.add(name, outcome, Some(started.elapsed()));
        }
    }

    /// The tracked names that begin with `prefix`, and whether each is chosen.
    fn below<'b>(&'b self, prefix: &'b str) -> impl Iterator<Item = (&'b String, bool)> {
        let from = self.tracked.range(prefix.to_owned()..);
        let below = from.take_while(move |(name, _)| name.starts_with(prefix));
        below.map(|(name, chosen)| (name, *chosen))
    }

    /// Whether any test whose name begins with `prefix` is to be run: saves whole suites, and what
    /// is built for them. Where no name is tracked, what may fit the filter is.
    pub fn may_want(&self, prefix: &str) -> bool {
        self.may_want_of(prefix, |_| true)
    }

    /// The same, of the names that are `ours`.
    pub fn may_want_of(&self, prefix: &str, ours: impl Fn(&str) -> bool) -> bool {
        let mut names = self.below(prefix).filter(|(name, _)| ours(name)).peekable();
        match names.peek() {
            Some(_) if !self.names_only => names.any(|(_, chosen)| chosen),
            _ => cases::may_fit(&self.filter, prefix),
        }
    }

    /// Whether all tests whose names begin with `prefix` are to be run, so that it need not be
    /// asked which there are.
    pub fn wants_all(&self, prefix: &str) -> bool {
        !self.names_only && self.may_want(prefix) && self.below(prefix).all(|(_, chosen)| chosen)
    }

    /// The tracked names that are to be run.
    pub fn planned(&self) -> impl Iterator<Item = &String> {
        let chosen = self.tracked.iter().filter(|(_, chosen)| **chosen);
        chosen.map(|(name, _)| name)
    }

    /// How the names that the run found differ from the tracked ones. In a `whole` run all that are
    /// chosen must be there, but for those of a way that the computer has not got everything for.
    pub fn differences(&self, whole: bool) -> Vec<String> {
        let cases = self.report.cases();
        let skipped: Vec<String> = cases.iter().filter_map(Case::skipped_as_a_whole).collect();
        let is_there = |name: &String| !skipped.iter().any(|prefix| name.starts_with(prefix));
        let expected = self.planned().filter(|name| whole && is_there(name));
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.differences(&self.tracked, expected)
    }
}

/// The patterns of what the options name: all, where they name nothing.
fn filter(args: &TestArgs) -> Result<String> {
    let Some(commit) = &args.changed else {
        return Ok(args.filter.clone().unwrap_or("*".to_owned()));
    };
    let files = changes::since(commit)?;
    let patterns = reach::of(&files)?;
    match &patterns {
        _ if files.is_empty() => return Err(anyhow!("nothing was changed since {commit}")),
        Some(patterns) => eprintln!("run.sh: {} files were changed: {patterns}", files.len()),
        None => eprintln!(
            "run.sh: {} files were changed, of which one can reach all",
            files.len()
        ),
    }
    Ok(patterns.unwrap_or("*".to_owned()))
}

/// What the options choose: a filter chooses from all levels.
fn selection(args: &TestArgs) -> Selection {
    let named =
        args.filter.is_some() || args.machine.is_some() || args.long.is_some() || args.mutants;
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    // CI runs a slice; its clone is what lands.
    let commit = match args.slice {
        Some(_) => changes::base(),
        None => changes::left(),
    };
    Selection {
        full: args.full || args.bless || named && args.slice.is_none(),
        slice: args.slice.map(levels::slice),
        drawn: pairs::drawn(seed.unwrap_or(0)),
        changed: commit
            .and_then(|commit| changes::since(&commit).ok())
            .unwrap_or_default(),
    }
}
