//! The kernel with all checks (`--debug`) on several CPUs: its assertions find what comes out wrong
//! later, or not at all, in the optimised one.
use super::job::Job;
use super::{suite, unit};
use anyhow::Result;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::{self, Built};
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

const LIMIT: Duration = Duration::from_secs(180);
/// A third of what `user.ARCH.smp4.abuse.torture` has.
const TORTURE: &str = "quiet quire.noinput -- torture --steps 2700 --seed 3";
/// A CPU that serves no interrupt any more, beside a program that does not end.
const HANG: &str = "quiet quire.noinput quire.crash=hang -- sh -c \"sleep 100\"";

/// Builds that kernel if any of these tests is wanted, and runs the user-mode suite and `torture`
/// with so many CPUs.
pub fn run(job: &Job<'_>, arch: Arch, cpus: u32) -> Result<()> {
    let prefix = format!("{}.debug", unit::name("user", arch, cpus));
    if !job.may_want(&format!("{prefix}.")) {
        return Ok(());
    }
    let name = |test| format!("{prefix}.{test}");
    let built = build::build(arch, true)?;
    let machine = || machine(arch, &built, cpus);
    if job.may_want(&name("selftests.")) {
        suite::run_on(job, name("selftests"), machine())?;
    }
    job.case(name("torture"), || {
        check(machine(), TORTURE, End::Status(0), "torture: done")
    });
    job.case(name("watchdog"), || {
        let says = "has served no interrupt for more than 20 s";
        check(machine(), HANG, End::Status(101), says)
    });
    Ok(())
}

fn machine(arch: Arch, built: &Built, cpus: u32) -> Machine {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.smp = cpus;
    machine
}

fn check(mut machine: Machine, words: &str, end: End, says: &str) -> Result<Outcome> {
    machine.command_line = words.to_owned();
    let boot = console::boot(&machine, LIMIT)?;
    if boot.end == end && boot.text.contains(says) {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!(
        "it ended with {:?}\n{}",
        boot.end, boot.text
    )))
}
