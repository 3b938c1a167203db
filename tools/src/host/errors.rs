//! Errors in the command line, and what stands before each error that is printed.
use std::fmt;

/// An error in the command line that clap does not find: exit status 2.
#[derive(Debug)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (see ./run.sh --help)", self.0)
    }
}

impl std::error::Error for UsageError {}

/// What each error begins with on standard error.
pub fn name_of_errors() -> impl fmt::Display {
    console::style("run.sh:").red().bold().for_stderr()
}
