//! `./run.sh test`: three levels, each of which only assumes that the one before works.
//!
//! - `host.CRATE.TEST`: `cargo test` of what builds on the host; `host.selftests.TEST`: the
//!   user-mode suite on Linux; `host.loom.FILE.TEST`: models of what runs on many CPUs;
//!   `host.shuttle.TEST`: the memory manager on the simulated machine under chosen schedules;
//!   `host.labs.N.CASE`: the labs of a course; `host.proof.coq`: the proofs in `docs/proofs`;
//!   `host.book.builds`: the documentation as a book;
//! - `kernel.ARCH.TEST`: the suite inside the kernel; `kernel.ARCH.smp4.TEST`: with 4 CPUs;
//! - `user.ARCH.selftests.TEST`, `user.ARCH.settings.SETTING`, `user.ARCH.boot.CASE`,
//!   `user.ARCH.gdb.CASE`, `user.ARCH.shell.CASE`, `user.ARCH.abuse.CASE`,
//!   `user.ARCH.stretch.CASE`, `user.ARCH.programs.CASE`, `user.ARCH.foreign.CASE`,
//!   `user.ARCH.plugin.CASE`, `user.ARCH.conflicts.CASE`, `user.ARCH.labs.CASE`,
//!   `user.ARCH.scene.CASE`: programs, the same under other settings, bad input, a debugger, keys
//!   typed at the shell, programs that exhaust resources, how long calls keep the machine, programs
//!   of others, dynamic ones, what the plugin for QEMU counts, for which cache lines two CPUs
//!   contend, labs of a course, and two processes that are drawn; `user.ARCH.smp4.*`: those of them
//!   that show more with 4 CPUs; `user.ARCH.smp4.debug.*`: the suite and `torture` on the kernel
//!   with all checks;
//! - with `--long`, instead: `long.*`, instruments that look for defects by chance;
//! - with `--mutants`, instead: `mutants.*`, which test finds what is broken on purpose;
//! - with `--machine`, instead: `way.WAY.*`, the kernel's suite and more on other ways to boot.
use crate::arch::Arch;
use crate::args::{Level, TestArgs};
use crate::build::{self, Built};
use crate::test::outcome::{Outcome, Report};
use anyhow::{Context, Result, anyhow};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

mod abuse;
mod boot;
mod checked;
mod conflicts;
pub mod console;
mod debugger;
mod host;
pub(crate) mod inputs;
mod kernel;
mod labs;
mod long;
pub mod outcome;
mod plugin;
mod programs;
mod scene;
pub(crate) mod session;
mod settings;
mod shell;
mod spent;
mod stretch;
mod suite;
pub(crate) mod tinyelf;
mod transcript;
mod ways;

/// The arguments of every level.
pub struct Job<'a> {
    /// Which tests; a name that does not match is not run.
    pub filter: &'a str,
    /// Print names instead of running.
    pub list: bool,
    /// Where results go.
    pub report: &'a Report,
    /// Whether the filter has matched any test so far.
    matched: AtomicBool,
}

impl Job<'_> {
    /// Whether the filter matches a test of this full name.
    pub fn wants(&self, name: &str) -> bool {
        let wanted = ktest::glob::matches(self.filter, name);
        self.matched.fetch_or(wanted, Relaxed);
        wanted
    }

    /// Runs (or lists) one test of the tool's own.
    fn case(&self, name: String, body: impl FnOnce() -> Result<Outcome>) {
        if !self.wants(&name) {
        } else if self.list {
            println!("{name}");
        } else {
            let started = Instant::now();
            let outcome = body().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
            self.report.add(name, outcome, Some(started.elapsed()));
        }
    }

    /// Whether any name that begins with `prefix` can match the filter. Saves whole levels when the
    /// filter names another one.
    fn may_want(&self, prefix: &str) -> bool {
        self.filter
            .split(',')
            .any(|pattern| may_fit(pattern, prefix))
    }
}

/// Whether any name that begins with `prefix` can match a pattern: what is before its first
/// wildcard decides.
fn may_fit(pattern: &str, prefix: &str) -> bool {
    let fixed = pattern.split(['*', '?']).next().unwrap_or_default();
    fixed.starts_with(prefix) || prefix.starts_with(fixed)
}

/// Runs the tests that the arguments choose and returns the exit status.
pub fn test(args: &TestArgs) -> Result<u8> {
    let junit = args
        .junit
        .as_deref()
        .map(|path| crate::workspace::writable("--junit", path))
        .transpose()?;
    let report = Report::default();
    let job = Job {
        filter: args.filter.as_deref().unwrap_or("*"),
        list: args.list,
        report: &report,
        matched: AtomicBool::new(false),
    };
    let plan = Plan::of(args);
    if !plan.prefixes().iter().any(|level| job.may_want(level)) {
        return Err(nothing_matches(&job, &plan));
    }
    match plan {
        Plan::Ways(names) => ways::run(&job, names, args)?,
        Plan::Long(time) => long(&job, args, time)?,
        Plan::Mutants => host::mutants::run(&job, args.drawn, args.by.as_deref())?,
        Plan::Levels => levels(&job, args)?,
    }
    if let Some(path) = &junit {
        std::fs::write(path, report.junit())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if !job.matched.load(Relaxed) && report.cases().is_empty() {
        return Err(nothing_matches(&job, &Plan::of(args)));
    }
    Ok(if args.list { 0 } else { report.finish() })
}

/// The tests to run.
enum Plan<'a> {
    /// The three levels.
    Levels,
    /// Ways to boot, by name.
    Ways(&'a str),
    /// The instruments, each for so long.
    Long(Duration),
    /// What is broken on purpose.
    Mutants,
}

impl Plan<'_> {
    fn of(args: &TestArgs) -> Plan<'_> {
        match (&args.machine, args.long) {
            _ if args.mutants => Plan::Mutants,
            (Some(names), _) => Plan::Ways(names),
            (None, Some(minutes)) => Plan::Long(Duration::from_secs(60 * minutes)),
            (None, None) => Plan::Levels,
        }
    }

    /// What the names of its tests begin with.
    fn prefixes(&self) -> &'static [&'static str] {
        match self {
            Plan::Levels => &["host.", "kernel.", "user."],
            Plan::Ways(_) => &["way."],
            Plan::Long(_) => &["long."],
            Plan::Mutants => &["mutants."],
        }
    }
}

/// A filter that no name fits is a mistake, and no success.
fn nothing_matches(job: &Job<'_>, plan: &Plan<'_>) -> anyhow::Error {
    let names = match plan {
        Plan::Levels => {
            "names begin with host., kernel.ARCH. or user.ARCH.; --machine is for way.WAY., --long for long."
        }
        Plan::Ways(_) => "names begin with way.WAY when --machine is given",
        Plan::Long(_) => "names begin with long.host. or long.ARCH. when --long is given",
        Plan::Mutants => "names are mutants.NAME or mutants.drawn.N when --mutants is given",
    };
    anyhow!(
        "no test matches --filter {}: {names}; --list prints them",
        job.filter
    )
}

/// The three levels, on the default machine of each architecture.
fn levels(job: &Job<'_>, args: &TestArgs) -> Result<()> {
    let wants = |level| args.only.is_none_or(|only| only == level);
    if wants(Level::Host) && job.may_want("host.") {
        host_level(job)?;
    }
    let arches = args.machines.arch.arches();
    let arches: Vec<Arch> = arches
        .iter()
        .copied()
        .filter(|arch| {
            (wants(Level::Kernel) && job.may_want(&format!("kernel.{arch}.")))
                || (wants(Level::User) && job.may_want(&format!("user.{arch}.")))
        })
        .collect();
    on_each(&arches, args, |arch, built| machine(job, arch, built, args))
}

/// The host level. What is built in a folder of its own runs beside the rest: most of it is one
/// long test after another, each on one core.
fn host_level(job: &Job<'_>) -> Result<()> {
    thread::scope(|scope| {
        let beside = scope.spawn(|| host_beside(job));
        let apart = [
            "host.selftests.",
            "host.proof.",
            "host.loom.",
            "host.shuttle.",
            "host.labs.",
            "host.book.",
        ];
        let in_crates = |pattern: &str| {
            may_fit(pattern, "host.") && !apart.iter().any(|prefix| pattern.starts_with(prefix))
        };
        if job.filter.split(',').any(in_crates) {
            host::run(job)?;
        }
        if job.may_want("host.labs.") {
            labs::run_on_host(job);
        }
        beside.join().ok().context("a test thread died")?
    })?;
    // Alone: how long things take is a part of some of these tests.
    if job.may_want("host.selftests.") {
        suite::run_on_host(job)?;
    }
    Ok(())
}

/// The models, the proofs and the book.
fn host_beside(job: &Job<'_>) -> Result<()> {
    if job.may_want("host.loom.") {
        host::run_loom(job)?;
    }
    if job.may_want("host.shuttle.") {
        host::run_shuttle(job)?;
    }
    job.case("host.proof.coq".to_owned(), proofs);
    job.case("host.book.builds".to_owned(), book);
    Ok(())
}

/// Builds for some architectures, and runs their tests beside each other: each has one QEMU at a
/// time, so two cores are enough for both.
fn on_each(
    arches: &[Arch],
    args: &TestArgs,
    run: impl Fn(Arch, &Built) -> Result<()> + Sync,
) -> Result<()> {
    crate::install::ensure_qemu(arches, args.install.no_install)?;
    let built = arches
        .iter()
        .map(|arch| Ok((*arch, build::build(*arch, false)?)))
        .collect::<Result<Vec<_>>>()?;
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = built
            .iter()
            .map(|(arch, built)| scope.spawn(move || run(*arch, built)))
            .collect();
        for thread in threads {
            thread.join().ok().context("a test thread died")??;
        }
        Ok(())
    })
}

/// The instruments, each for `time`.
fn long(job: &Job<'_>, args: &TestArgs, time: Duration) -> Result<()> {
    job.case("long.host.seeds".to_owned(), || host::run_seeds(time));
    let arches = args.machines.arch.arches().iter().copied();
    let arches: Vec<Arch> = arches
        .filter(|arch| job.may_want(&format!("long.{arch}.")))
        .collect();
    on_each(&arches, args, |arch, built| {
        long::run(job, arch, built, time);
        Ok(())
    })
}

/// The proofs, where Coq is installed.
fn proofs() -> Result<Outcome> {
    if crate::install::coq_version().is_none() {
        return Ok(Outcome::Skipped(
            "coqc is not installed (Debian's package coq)".to_owned(),
        ));
    }
    crate::proof::check()?;
    Ok(Outcome::Passed)
}

/// The book, where mdBook is there or can be built.
fn book() -> Result<Outcome> {
    let mdbook = match crate::book::ensure_mdbook(false) {
        Ok(mdbook) => mdbook,
        Err(error) => return Ok(Outcome::Skipped(format!("{error:#}"))),
    };
    let out = crate::workspace::Temporary::folder("book")?;
    crate::book::build(&mdbook, out.path())?;
    Ok(Outcome::Passed)
}

/// What the names of a level's tests begin with, on an architecture with so many CPUs.
fn name(level: &str, arch: Arch, cpus: u32) -> String {
    match cpus {
        1 => format!("{level}.{arch}"),
        cpus => format!("{level}.{arch}.smp{cpus}"),
    }
}

/// With how many CPUs the suites run if nothing is said.
const CPUS: [u32; 2] = [1, 4];

/// Everything that runs on one machine.
fn machine(job: &Job<'_>, arch: Arch, built: &Built, args: &TestArgs) -> Result<()> {
    let wants = |level| args.only.is_none_or(|only| only == level);
    let all = args.smp.map_or(CPUS.to_vec(), |cpus| vec![cpus]);
    if wants(Level::Kernel) && job.may_want(&format!("kernel.{arch}.")) {
        for cpus in &all {
            kernel::run(job, arch, built, *cpus)?;
        }
    }
    if wants(Level::User) && job.may_want(&format!("user.{arch}.")) {
        for cpus in &all {
            suite::run(job, arch, built, *cpus)?;
            abuse::run(job, arch, built, *cpus);
            programs::run(job, arch, built, *cpus);
            plugin::run(job, arch, built, *cpus);
        }
        for cpus in all.iter().filter(|cpus| **cpus > 1) {
            checked::run(job, arch, *cpus)?;
        }
        if all.contains(&1) {
            one_cpu(job, arch, built);
        }
    }
    Ok(())
}

/// What chooses the CPUs itself, or is the same with any number of them.
fn one_cpu(job: &Job<'_>, arch: Arch, built: &Built) {
    if job.may_want(&format!("user.{arch}.settings.")) {
        settings::run(job, arch, built);
    }
    if job.may_want(&format!("user.{arch}.scene.")) {
        scene::run(job, arch, built);
    }
    if job.may_want(&format!("user.{arch}.boot.")) {
        boot::run(job, arch, built);
    }
    if job.may_want(&format!("user.{arch}.stretch.")) {
        stretch::run(job, arch, built);
    }
    if job.may_want(&format!("user.{arch}.gdb.")) {
        debugger::run(job, arch, built);
    }
    if job.may_want(&format!("user.{arch}.conflicts.")) {
        conflicts::run(job, arch, built);
    }
    if job.may_want(&format!("user.{arch}.labs.")) {
        labs::run(job, arch);
    }
    if job.may_want(&format!("user.{arch}.shell.")) {
        shell::run(job, arch, built);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_said_before_anything_is_built() {
        let refused = |line: &str| {
            let args = crate::args::test_args(line);
            format!("{:#}", test(&args).unwrap_err())
        };
        let error = refused("run.sh test --filter hots.mm.*");
        assert!(
            error.starts_with("no test matches --filter hots.mm.*: names begin with host."),
            "{error}"
        );
        let error = refused("run.sh test --machine q35 --filter kernel.*");
        assert!(error.contains("names begin with way.WAY"), "{error}");
        let error = refused("run.sh test --junit /nowhere/at/all.xml");
        assert!(
            error.contains("--junit /nowhere/at/all.xml: No such"),
            "{error}"
        );
        let error = refused("run.sh test --machine qq35 --filter way.*");
        assert!(error.contains("did you mean q35?"), "{error}");
    }

    #[test]
    fn levels_that_a_filter_can_mean() {
        let report = Report::default();
        let job = |filter| Job {
            filter,
            list: false,
            report: &report,
            matched: AtomicBool::new(false),
        };
        assert!(job("*").may_want("host."));
        assert!(job("*.buddy*").may_want("kernel.x86_64."));
        assert!(job("kernel.*").may_want("kernel.aarch64."));
        assert!(!job("kernel.*").may_want("host."));
        assert!(job("kernel.x86_64.mm.a,host.*").may_want("host."));
        assert!(!job("user.x86_64.boot.no_init").may_want("user.x86_64.programs."));
    }
}
