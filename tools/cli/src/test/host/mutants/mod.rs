//! How good the tests are: rules broken on purpose, and which test finds each.
//!
//! `mutants.NAME` are the mutants with a name (`mutant.rs` of `kernel/{mm,own,locks}`);
//! `mutants.drawn.N` are breaks drawn from the list of cargo-mutants. A test finds one when it
//! passes without it and fails with it. The cheapest tests come first, so that one which costs more
//! than [`CHEAP`] is named only for what no cheaper one finds.
use crate::test::job::Job;
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::Duration;
use tools::host::workspace;

mod breaks;
mod compiler;
mod drawn;
mod named;
mod probe;
mod suites;
mod tree;

/// Of a CPU's time: what a test may take to be among those that are tried first.
const CHEAP: Duration = Duration::from_secs(1);
/// Of a CPU's time: after that a test has found something, as it does not end.
const LIMIT: Duration = Duration::from_secs(150);

/// Tries the mutants with a name or, if a number is given, so many breaks of cargo-mutants' list,
/// which are drawn by a word: the hash of HEAD if there is none.
pub fn run(job: &Job<'_>, drawn: Option<usize>, by: Option<&str>) -> Result<()> {
    match (drawn, by) {
        (None, _) => named::run(job),
        (Some(count), Some(by)) => drawn::run(job, count, by),
        (Some(count), None) => {
            let mut head = Command::new("git");
            head.current_dir(workspace::root())
                .args(["rev-parse", "--short=8", "HEAD"]);
            let head = head.output().context("cannot start git")?;
            ensure!(
                head.status.success(),
                "git knows no commit to draw by: use --by WORD"
            );
            drawn::run(job, count, String::from_utf8_lossy(&head.stdout).trim())
        }
    }
}
