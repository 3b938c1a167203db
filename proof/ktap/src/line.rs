//! The lines as values, and how they are printed.

use core::fmt::{Display, Formatter, Result};

/// A line without its end. `T` is text: `&str` where a line was read, anything that prints where
/// one is written. Text has no line ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<T> {
    /// `KTAP version 1`: the first line of a run.
    Version,
    /// `1..N`: the number of results that follow.
    Plan(usize),
    /// `# start NAME`: the test runs now. When no result follows, it has ended the machine.
    Start(T),
    /// `# test NAME`: a test that could be run.
    Listed(T),
    /// `ok 1 NAME` or `not ok 1 NAME`: a test has ended.
    Result(TestResult<T>),
    /// `# TEXT`: anything else a test prints.
    Diagnostic(T),
}

/// The result of one test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestResult<T> {
    /// `ok` and not `not ok`; true for skipped tests.
    pub ok: bool,
    /// Its number in the plan, from 1.
    pub number: usize,
    /// The test's name: no `#` in it, no dash before it.
    pub name: T,
    /// What follows ` # `.
    pub note: Option<Note<T>>,
}

/// What follows the name of a test in its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note<T> {
    /// `SKIP REASON`: the test does not apply.
    Skip(T),
    /// `N us`: the time the test took, in microseconds.
    Micros(u64),
    /// Any other text.
    Text(T),
}

/// The number of tests that ended in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that do not apply.
    pub skipped: usize,
}

impl Totals {
    /// The exit status of a run: 0 when no test failed, else 1.
    pub fn status(&self) -> u8 {
        u8::from(self.failed != 0)
    }
}

impl<T: Display> Display for Line<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Line::Version => f.write_str("KTAP version 1"),
            Line::Plan(tests) => write!(f, "1..{tests}"),
            Line::Start(name) => write!(f, "# start {name}"),
            Line::Listed(name) => write!(f, "# test {name}"),
            Line::Result(result) => result.fmt(f),
            Line::Diagnostic(text) => write!(f, "# {text}"),
        }
    }
}

impl<T: Display> Display for TestResult<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { number, name, .. } = self;
        let word = if self.ok { "ok" } else { "not ok" };
        write!(f, "{word} {number} {name}")?;
        match &self.note {
            Some(Note::Skip(reason)) => write!(f, " # SKIP {reason}"),
            Some(Note::Micros(time)) => write!(f, " # {time} us"),
            Some(Note::Text(text)) => write!(f, " # {text}"),
            None => Ok(()),
        }
    }
}

/// The text of the diagnostic at the end of a run, in the form of Linux's kselftests.
impl Display for Totals {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(
            f,
            "Totals: pass:{passed} fail:{failed} skip:{skipped} error:0"
        )
    }
}
