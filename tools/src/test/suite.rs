//! `selftests` from the default initramfs, as a guest's init would run them.
use super::{Job, console};
use crate::arch::Arch;
use crate::build::Built;
use crate::guest::End;
use crate::ktap::Parser;
use crate::qemu::Machine;
use crate::report::Outcome;
use anyhow::Result;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(600);

/// Runs the user-mode suite of one architecture.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) -> Result<()> {
    let full = |name: &str| format!("user.{arch}.selftests.{}", name.replace(' ', "_"));
    let mut machine = Machine::new(arch, built.image.clone());
    machine.command_line = if job.list {
        "quiet -- selftests --list"
    } else {
        "quiet -- selftests"
    }
    .to_owned();
    let mut parser = Parser::default();
    let mut reported = 0;
    let boot = console::watch(&machine, LIMIT, |piece| {
        parser.feed(piece);
        for line in &parser.done[reported..] {
            let name = full(&line.name);
            let outcome = match (&line.skip, line.ok) {
                (Some(reason), _) => Outcome::Skipped(reason.clone()),
                (None, true) => Outcome::Passed,
                (None, false) => Outcome::Failed(line.output.clone()),
            };
            if job.wants(&name) && !job.list {
                job.report.add(name, outcome, line.duration);
            }
        }
        reported = parser.done.len();
    })?;
    if job.list {
        let names = parser.listed.iter().map(|name| full(name));
        names
            .filter(|name| job.wants(name))
            .for_each(|name| println!("{name}"));
        return Ok(());
    }
    let failed = parser.done.iter().any(|line| !line.ok);
    // A status that the results do not explain: the suite did not get to its end, or lies.
    let sound = parser.complete() && boot.end == End::Status(u8::from(failed));
    let outcome = match sound {
        true => Outcome::Passed,
        false => Outcome::Failed(format!(
            "the suite ended with {:?}\n{}",
            boot.end, boot.text
        )),
    };
    let name = full("ends");
    if job.wants(&name) {
        job.report.add(name, outcome, None);
    }
    Ok(())
}
