//! The kernel level: boots the suite, and boots it again behind every test that takes the machine with it.
use super::{Job, console};
use crate::arch::Arch;
use crate::build::Built;
use crate::guest::End;
use crate::ktap::Parser;
use crate::qemu::Machine;
use crate::report::Outcome;
use anyhow::Result;
use std::time::Duration;

/// For a whole suite; what hangs is noticed by its silence long before.
const LIMIT: Duration = Duration::from_secs(900);

/// Runs the in-kernel tests of one architecture.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) -> Result<()> {
    let full = |name: &str| format!("kernel.{arch}.{name}");
    let mut machine = Machine::new(arch, built.image.clone());
    let mut globs = "*".to_owned();
    if job.list || job.filter != "*" {
        let names = list(&mut machine)?;
        let wanted: Vec<String> = names
            .into_iter()
            .filter(|name| job.wants(&full(name)))
            .collect();
        if job.list {
            wanted.iter().for_each(|name| println!("{}", full(name)));
        }
        if job.list || wanted.is_empty() {
            return Ok(());
        }
        globs = wanted.join(",");
    }
    let mut after = String::new();
    loop {
        machine.command_line = format!("quire.test={globs}{after}");
        let mut parser = Parser::default();
        let mut reported = 0;
        let boot = console::watch(&machine, LIMIT, |piece| {
            parser.feed(piece);
            for line in &parser.done[reported..] {
                let outcome = match (&line.skip, line.ok) {
                    (Some(reason), _) => Outcome::Skipped(reason.clone()),
                    (None, true) => Outcome::Passed,
                    (None, false) => Outcome::Failed(line.output.clone()),
                };
                job.report.add(full(&line.name), outcome, line.duration);
            }
            reported = parser.done.len();
        })?;
        let Some(culprit) = parser.running.clone() else {
            if !parser.complete() || !matches!(boot.end, End::Status(0 | 1)) {
                let why = format!("the suite ended early: {:?}\n{}", boot.end, boot.text);
                job.report.add(full("boot"), Outcome::Failed(why), None);
            }
            return Ok(());
        };
        let why = format!("{}\n{}", describe(boot.end), parser.pending());
        job.report.add(full(&culprit), Outcome::Failed(why), None);
        after = format!(" quire.test.after={culprit}");
    }
}

/// How a test took the machine with it.
fn describe(end: End) -> String {
    match end {
        End::Timeout => "hangs: nothing was printed for a minute".to_owned(),
        End::Status(101) => "panics".to_owned(),
        End::Reset => "resets the machine".to_owned(),
        other => format!("ends the machine: {other:?}"),
    }
}

/// The names of all tests in the kernel.
fn list(machine: &mut Machine) -> Result<Vec<String>> {
    machine.command_line = "quire.test.list".to_owned();
    let mut parser = Parser::default();
    console::watch(machine, LIMIT, |piece| parser.feed(piece))?;
    Ok(parser.listed)
}
