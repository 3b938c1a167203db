//! The kernel level: boots the suite, and boots it again behind every test that ended the machine.
use super::job::Job;
use super::transcript::Transcript;
use super::unit;
use anyhow::Result;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::console::{self, Boot};
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

/// Limit for a whole suite; a hang is noticed by its silence long before.
const LIMIT: Duration = Duration::from_secs(900);

/// Runs the in-kernel tests of one architecture with so many CPUs.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built, cpus: u32) -> Result<()> {
    let prefix = unit::name("kernel", arch, cpus);
    if job.may_want(&format!("{prefix}.")) {
        let mut machine = Machine::new(arch, built.image.clone());
        machine.smp = cpus;
        run_on(job, &prefix, machine)?;
    }
    Ok(())
}

/// Runs the in-kernel tests on one machine; their names begin with `prefix`.
pub fn run_on(job: &Job<'_>, prefix: &str, mut machine: Machine) -> Result<()> {
    let full = |name: &str| format!("{prefix}.{name}");
    let mut globs = "*".to_owned();
    if !job.wants_all(&format!("{prefix}.")) {
        let names = list(&mut machine)?;
        let wanted: Vec<String> = names
            .into_iter()
            .filter(|name| job.wants(&full(name)))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        globs = wanted.join(",");
    }
    let add = |name, outcome, took| job.add(name, outcome, took);
    suite(&add, &full, |after, each| {
        machine.command_line = format!("quire.test={globs}{after}");
        console::watch(&machine, LIMIT, each)
    })
}

/// Boots (by `boot`, with words for the command line) until every test has been run, and reports
/// each. A test that was running when its machine ended has failed; the next boot begins behind it.
fn suite(
    add: &dyn Fn(String, Outcome, Option<Duration>),
    full: &dyn Fn(&str) -> String,
    mut boot: impl FnMut(&str, &mut dyn FnMut(&[u8])) -> Result<Boot>,
) -> Result<()> {
    let mut after = String::new();
    loop {
        let mut transcript = Transcript::default();
        let mut reported = 0;
        let boot = boot(&after, &mut |piece| {
            transcript.feed(piece);
            for line in &transcript.done[reported..] {
                add(full(&line.name), line.outcome(), line.duration);
            }
            reported = transcript.done.len();
        })?;
        let Some(culprit) = transcript.running.clone() else {
            if !transcript.complete() || !matches!(boot.end, End::Status(0 | 1)) {
                let why = format!("the suite ended early: {:?}\n{}", boot.end, boot.text);
                add(full("boot"), Outcome::Failed(why), None);
            }
            return Ok(());
        };
        let why = format!("{}\n{}", describe(boot.end), transcript.pending());
        add(full(&culprit), Outcome::Failed(why), None);
        after = format!(" quire.test.after={culprit}");
    }
}

/// Describes how a test ended the machine.
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
    let mut transcript = Transcript::default();
    console::watch(machine, LIMIT, |piece| transcript.feed(piece))?;
    Ok(transcript.listed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::outcome::Report;

    /// Consoles of three boots: a test panics in the first, another hangs in the second.
    #[test]
    fn goes_on_behind_what_takes_the_machine_with_it() {
        let boots = [
            (
                "",
                "KTAP version 1\n1..4\n# start a\nok 1 a # 5 us\n# start b\nkernel panic: boom\n",
                End::Status(101),
            ),
            (
                " quire.test.after=b",
                "KTAP version 1\n1..2\n# start c\n",
                End::Timeout,
            ),
            (
                " quire.test.after=c",
                "KTAP version 1\n1..1\n# start d\n# no\nnot ok 1 d # 1 us\n",
                End::Status(1),
            ),
        ];
        let mut boots = boots.iter();
        let report = Report::default();
        let full = |name: &str| format!("kernel.x.{name}");
        let add = |name, outcome, took| report.add(name, outcome, took);
        suite(&add, &full, |words, each| {
            let (expected, console, end) = boots.next().expect("three boots are enough");
            assert_eq!(words, *expected);
            each(console.as_bytes());
            Ok(Boot {
                end: *end,
                text: (*console).to_owned(),
            })
        })
        .unwrap();
        assert!(boots.next().is_none());
        let cases = report.cases();
        let failure = |name: &str| match &cases
            .iter()
            .find(|case| case.name == full(name))
            .unwrap()
            .outcome
        {
            Outcome::Failed(why) => why.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(cases.len(), 4);
        assert_eq!(failure("a"), "Passed");
        assert_eq!(failure("b"), "panics\nkernel panic: boom\n");
        assert!(failure("c").starts_with("hangs"));
        assert_eq!(failure("d"), "# no\n");
    }

    /// A kernel that prints no suite is a failure of its own.
    #[test]
    fn no_suite_at_all() {
        let report = Report::default();
        let boot = |_: &str, _: &mut dyn FnMut(&[u8])| {
            Ok(Boot {
                end: End::Status(101),
                text: "dead".to_owned(),
            })
        };
        let add = |name, outcome, took| report.add(name, outcome, took);
        suite(&add, &|name| name.to_owned(), boot).unwrap();
        assert!(
            matches!(&report.cases()[..], [case] if case.name == "boot" && case.outcome != Outcome::Passed)
        );
    }
}
