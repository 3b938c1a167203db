//! `./run.sh test`: on the host, in the kernel and in programs on it, each of which only assumes
//! that the one before works. What of it is run is chosen by level ([`levels`]), by name, or by
//! what a change can reach.
//!
//! - `host.CRATE.TEST`: `cargo test` of what builds on the host; `host.selftests.TEST`: the
//!   user-mode suite on Linux; `host.loom.FILE.TEST`: models of what runs on many CPUs;
//!   `host.shuttle.TEST`: the memory manager on the simulated machine under chosen schedules;
//!   `host.labs.N.CASE`: the labs of a course; `host.proof.coq`: the proofs in `proof/coq`;
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
//! - `way.WAY.*`: the kernel's suite and more on other ways to boot, alone with `--machine`;
//! - with `--long`, after all of these: `long.*`, instruments that look for defects by chance.
//! - with `--mutants`, instead: `mutants.*`, which test finds what is broken on purpose; `--long`
//!   has these, too.
use anyhow::{Context, Result, anyhow};
use std::io::Write;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;
use tools::args::{Arches, Level, Machines, TestArgs, TryArgs};
use tools::host::arch::Arch;
use tools::host::workers::{self, Queue};
use tools::machine::build;

mod abuse;
mod base;
mod boot;
mod cases;
mod changes;
mod checked;
mod conflicts;
mod debugger;
mod downloads;
mod host;
mod job;
mod kernel;
mod labs;
pub mod levels;
mod long;
pub mod outcome;
mod pairs;
mod plugin;
mod programs;
pub mod reach;
mod scene;
mod settings;
mod shell;
mod spent;
mod stretch;
mod suite;
mod transcript;
mod unit;
mod units;
mod ways;

use job::Job;
use outcome::{Outcome, Report};
use unit::Unit;

/// `try`: what a room or a file of the memory manager has as tests, on the host and in one kernel.
pub fn of_room(args: &TryArgs) -> Result<u8> {
    let machines = args.arch.arches();
    let filters = args.words.iter().flat_map(|word| {
        machines
            .iter()
            .map(|arch| reach::of_word(word, arch.name()))
    });
    let filter = filters.collect::<Result<Vec<_>>>()?.join(",");
    eprintln!("run.sh: test --filter '{filter}'");
    test(&TestArgs {
        machines: Machines { arch: args.arch },
        filter: Some(filter),
        install: args.install.clone(),
        ..TestArgs::default()
    })
}

/// Runs the tests that the arguments choose and returns the exit status.
pub fn test(args: &TestArgs) -> Result<u8> {
    let junit = tools::host::workspace::writable("--junit", args.junit.as_deref())?;
    let report = Report::default();
    let job = Job::new(args, &report)?;
    let plan = Plan::of(args);
    if !plan.prefixes().iter().any(|level| job.may_want(level)) {
        return Err(nothing_matches(&job, &plan));
    }
    // Which mutants there are is not tracked.
    if args.list && !matches!(plan, Plan::Mutants) {
        return list(&job, args, &plan);
    }
    match plan {
        Plan::Ways(names) => ways(&job, names, args)?,
        // A night has all that there is, too.
        Plan::Long(time) => {
            levels(&job, args)?;
            night_of_mutants(&job)?;
            long(&job, args, time)?;
        }
        Plan::Mutants => host::mutants::run(&job, args.drawn, args.by.as_deref())?,
        Plan::Levels => levels(&job, args)?,
    }
    if args.list {
        return Ok(0);
    }
    if args.bless {
        let found = job.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.bless()?;
        println!("{} cases are listed", found.names().count());
        return Ok(0);
    }
    if matches!(plan, Plan::Levels) && args.smp.is_none() && !report.has_failed() {
        let whole = args.filter.is_none()
            && args.changed.is_none()
            && args.only.is_none()
            && args.machines.arch == Arches::All;
        let differences = job.differences(whole);
        if !differences.is_empty() {
            let how = "./run.sh test --bless keeps the list\n".to_owned();
            let why = Outcome::Failed(how + &differences.join("\n"));
            report.add("host.cases.listed", why, None);
        }
    }
    if let Some(path) = &junit {
        std::fs::write(path, report.junit())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if !job.matched.load(Relaxed) && report.cases().is_empty() {
        return Err(nothing_matches(&job, &Plan::of(args)));
    }
    // Who names some tests knows that the others are left out.
    let whole = matches!(plan, Plan::Levels) && args.filter.is_none() && args.only.is_none();
    let left = job.tracked.iter().filter(|(_, chosen)| whole && !**chosen);
    Ok(report.finish(left.map(|(name, _)| name.as_str())))
}

/// Prints the names of the tracked list that are to be run, each with its level.
fn list(job: &Job<'_>, args: &TestArgs, plan: &Plan<'_>) -> Result<u8> {
    let ways = ways::named(args.machine.as_deref().unwrap_or("all"))?;
    let is_ours = |name: &str| {
        let mut parts = name.split('.');
        let (level, machine) = (parts.next(), parts.next().unwrap_or_default());
        let of_arch = |arch: &Arch| match level {
            Some("way") => ways
                .iter()
                .any(|way| way.name == machine && way.arch == *arch),
            _ => machine == arch.name(),
        };
        let of_machine = || args.machines.arch.arches().iter().any(of_arch);
        match (level, args.only) {
            (Some("host"), only) => only.is_none_or(|only| only == Level::Host),
            (_, Some(Level::Host)) | (Some("kernel"), Some(Level::User)) => false,
            (Some("user"), Some(Level::Kernel)) => false,
            _ => of_machine(),
        }
    };
    let mut text = String::new();
    for name in job.planned().filter(|name| is_ours(name)) {
        if plan.prefixes().iter().any(|level| name.starts_with(level)) {
            text += &format!("{name}  {}\n", levels::words(name));
        }
    }
    if let Plan::Long(_) = plan {
        let names = long::names();
        let wanted = names.iter().filter(|name| job.chooses(name));
        wanted.for_each(|name| text += &format!("{name}\n"));
    }
    // The reader may have had enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(0)
}

/// Which test finds each mutant, and each of some breaks that are drawn, where cargo-mutants is.
fn night_of_mutants(job: &Job<'_>) -> Result<()> {
    if job.may_want("mutants.") {
        host::mutants::run(job, None, None)?;
    }
    if job.may_want("mutants.drawn.")
        && let Err(why) = host::mutants::run(job, Some(DRAWN), None)
    {
        let why = Outcome::Skipped(format!("{why:#}"));
        job.report.add("mutants.drawn", why, None);
    }
    Ok(())
}

/// Breaks that a night draws.
const DRAWN: usize = 20;

/// The tests to run.
enum Plan<'a> {
    /// The levels.
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
            Plan::Levels => &["host.", "kernel.", "user.", "way."],
            Plan::Ways(_) => &["way."],
            Plan::Long(_) => &["long.", "host.", "kernel.", "user.", "way.", "mutants."],
            Plan::Mutants => &["mutants."],
        }
    }
}

/// A filter that no name fits is a mistake, and no success.
fn nothing_matches(job: &Job<'_>, plan: &Plan<'_>) -> anyhow::Error {
    let names = match plan {
        Plan::Levels => {
            "names begin with host., kernel.ARCH., user.ARCH. or way.WAY.; --long is for long."
        }
        Plan::Ways(_) => "names begin with way.WAY when --machine is given",
        Plan::Long(_) => "names begin with long.host. or long.ARCH., too, when --long is given",
        Plan::Mutants => "names are mutants.NAME or mutants.drawn.N when --mutants is given",
    };
    anyhow!(
        "no test matches --filter {}: {names}; --list prints them",
        job.filter
    )
}

/// Everything but the instruments. Kernels are built while the host's tests run, and machines start
/// when those have passed.
fn levels(job: &Job<'_>, args: &TestArgs) -> Result<()> {
    let wants = |level| args.only.is_none_or(|only| only == level);
    let arches = arches(job, args);
    downloads::bring(job, &arches, args.install.no_install)?;
    job.report.expect(job.planned().map(String::as_str));
    let queue = Queue::default();
    thread::scope(|scope| {
        let (begin, begun) = channel();
        let (queue, arches) = (&queue, &arches);
        let kernels = scope.spawn(move || -> Result<()> {
            // Not before the host's tests are built, which would take longer else.
            let _close = queue.closing();
            if begun.recv().is_err() {
                return Ok(());
            }
            build_machines(job, args, arches, &ways::WAYS, queue)
        });
        if wants(Level::Host) && job.may_want("host.") {
            host_level(job, || start(&begin))?;
        }
        if job.report.has_failed() && !arches.is_empty() {
            eprintln!("run.sh: the host level failed: no machine is started");
            queue.give_up();
        } else {
            start(&begin);
            run_units(job, queue);
        }
        drop(begin);
        kernels.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Has the thread at the other end begin, if it has not.
fn start(begin: &Sender<()>) {
    let _ = begin.send(());
}

/// The architectures of which something is to be run in QEMU.
fn arches(job: &Job<'_>, args: &TestArgs) -> Vec<Arch> {
    let wants = |level| args.only.is_none_or(|only| only == level);
    let wanted = |arch: &Arch| {
        let ways = ways::WAYS.iter().filter(|way| way.arch == *arch);
        let mut ways = ways.map(|way| format!("way.{}.", way.name));
        (wants(Level::Kernel) && job.may_want(&format!("kernel.{arch}.")))
            || (wants(Level::User) && job.may_want(&format!("user.{arch}.")))
            || (args.only != Some(Level::Host) && ways.any(|way| job.may_want(&way)))
    };
    let all = args.machines.arch.arches().iter().copied();
    all.filter(wanted).collect()
}

/// Ways to boot alone, by their names.
fn ways(job: &Job<'_>, names: &str, args: &TestArgs) -> Result<()> {
    let ways = ways::named(names)?;
    let arches = arches(job, args);
    downloads::bring(job, &arches, args.install.no_install)?;
    let queue = Queue::default();
    thread::scope(|scope| {
        let kernels = scope.spawn(|| {
            let _close = queue.closing();
            build_machines(job, args, &arches, &ways, &queue)
        });
        run_units(job, &queue);
        kernels.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Runs units as they come, side by side.
fn run_units(job: &Job<'_>, queue: &Queue<Unit<'_>>) {
    thread::scope(|scope| {
        for _ in 0..workers::of_machines(None) {
            scope.spawn(|| {
                while let Some(unit) = queue.next() {
                    job.report.begins();
                    if let Err(error) = workers::caught(unit.run) {
                        let why = Outcome::Failed(format!("{error:#}"));
                        job.report.add(format!("{}end", unit.names[0]), why, None);
                    }
                }
            });
        }
    });
}

/// Builds for each architecture, and puts what runs there into the queue.
fn build_machines<'a>(
    job: &'a Job<'a>,
    args: &'a TestArgs,
    arches: &[Arch],
    ways: &'a [ways::Way],
    queue: &Queue<Unit<'a>>,
) -> Result<()> {
    for &arch in arches {
        if queue.is_given_up() {
            break;
        }
        let built = Arc::new(build::build(arch, false)?);
        let mut units = match args.machine {
            Some(_) => Vec::new(),
            None => units::of(job, arch, &built, args),
        };
        units.extend(ways::units(job, ways, arch, &built, args));
        units.retain(|unit| unit.names.iter().any(|names| job.may_want(names)));
        for unit in units {
            queue.put(job.report.expected(&unit.names), unit);
        }
    }
    Ok(())
}

/// The host level; `built` is called when its programs are built. What is built in a folder of its
/// own runs beside the rest: most of it is one long test after another, each on one core.
fn host_level(job: &Job<'_>, built: impl FnOnce()) -> Result<()> {
    thread::scope(|scope| {
        let programs = host::build(job)?;
        let beside = scope.spawn(|| host_beside(job));
        built();
        host::run(job, &programs)?;
        job.report.begins();
        if job.may_want("host.labs.") {
            labs::run_on_host(job);
        }
        beside.join().unwrap_or_else(|panic| resume_unwind(panic))
    })?;
    // Alone: how long things take is a part of some of these tests.
    job.report.begins();
    if job.may_want("host.selftests.") {
        suite::run_on_host(job)?;
    }
    Ok(())
}

/// The models, the proofs, the book and the examples.
fn host_beside(job: &Job<'_>) -> Result<()> {
    if job.may_want("host.loom.") {
        host::run_loom(job)?;
    }
    if job.may_want("host.shuttle.") {
        host::run_shuttle(job)?;
    }
    host::doc_tests(job)?;
    job.case("host.proof.coq".to_owned(), proofs);
    job.case("host.book.builds".to_owned(), book);
    Ok(())
}

/// The instruments, each for `time`.
fn long(job: &Job<'_>, args: &TestArgs, time: Duration) -> Result<()> {
    job.case("long.host.seeds".to_owned(), || host::run_seeds(time));
    let arches = args.machines.arch.arches().iter().copied();
    let arches: Vec<Arch> = arches
        .filter(|arch| job.may_want(&format!("long.{arch}.")))
        .collect();
    tools::host::install::ensure_qemu(&arches, args.install.no_install)?;
    let built = arches
        .iter()
        .map(|arch| Ok((*arch, build::build(*arch, false)?)))
        .collect::<Result<Vec<_>>>()?;
    thread::scope(|scope| {
        for (arch, built) in &built {
            scope.spawn(move || long::run(job, *arch, built, time));
        }
    });
    Ok(())
}

/// The proofs, where Coq is installed.
fn proofs() -> Result<Outcome> {
    if tools::host::install::coq_version().is_none() {
        return Ok(Outcome::Skipped(
            "coqc is not installed (Debian's package coq)".to_owned(),
        ));
    }
    tools::proof::check()?;
    Ok(Outcome::Passed)
}

/// The book, where mdBook is there or can be built.
fn book() -> Result<Outcome> {
    let mdbook = match course::book::ensure_mdbook(false) {
        Ok(mdbook) => mdbook,
        Err(error) => return Ok(Outcome::Skipped(format!("{error:#}"))),
    };
    let out = tools::host::workspace::Temporary::folder("book")?;
    course::book::build(&mdbook, out.path())?;
    Ok(Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tools::args::options;

    #[test]
    fn what_cannot_be_is_said_before_anything_is_built() {
        let refused = |line: &str| {
            let args = options::<TestArgs>(line);
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
}
