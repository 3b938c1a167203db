//! The labs: an answer gets all points and a skeleton none, no broken solution passes the tests
//! that come with a lab, submissions of all kinds are graded as what they are, and a handout boots.
mod escapes;
mod made_up;

use super::job::Job;
use anyhow::{Context, Result, ensure};
use course::lab::{self, ANSWER, Host, LABS, Lab, Limits, Machines, Sandbox, Submission, Tests};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::build;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

/// A student's, with fewer walks: an answer is broken in any of them, or in none of many more.
const LIMITS: Limits = Limits {
    walks: Some(20),
    ..Limits::OF_GRADES
};
/// For the boot of a handout.
const BOOT: Duration = Duration::from_secs(60);

/// Labs whose answers have a kernel of their own, as students' have: what other labs add to
/// MADV_DONTNEED and munmap (lab 6), or have the compiler not inline in mprotect (lab 4), is more
/// than their costs may vary.
const APART: [u32; 2] = [4, 6];

/// The cases that need no machine.
pub fn run_on_host(job: &Job<'_>) {
    job.case("host.labs.sandbox".to_owned(), escapes::run);
    job.case("host.labs.seams".to_owned(), || of_answers(&LABS[0], seams));
    for lab in LABS {
        let name = |case| format!("host.labs.{}.{case}", lab.number);
        job.case(name("skeleton"), || of_answers(lab, || skeleton(lab)));
        job.case(name("broken"), || of_answers(lab, || broken(lab)));
        job.case(name("alone"), || of_answers(lab, || alone(lab)));
    }
}

/// The cases of one architecture.
pub fn run(job: &Job<'_>, arch: Arch) {
    // One kernel has most of them, and one simulated machine all: to build one for each would take
    // longer than all else.
    let (all, answers): (Vec<&Lab>, _) = (LABS.iter().collect(), Path::new(ANSWER));
    let walks = Machines::new(&all, answers, Sandbox::Open);
    let together = LABS.iter().filter(|lab| !APART.contains(&lab.number));
    let together: Vec<&Lab> = together.collect();
    let machines = Machines::beside(&walks, &together);
    for lab in LABS {
        let name = format!("user.{arch}.labs.{}.answer", lab.number);
        let apart = [lab];
        let apart = APART
            .contains(&lab.number)
            .then(|| Machines::beside(&walks, &apart));
        let machines = apart.as_ref().unwrap_or(&machines);
        job.case(name, || of_answers(lab, || answer(lab, machines, arch)));
    }
    let lab = &LABS[0];
    job.case(format!("user.{arch}.labs.submissions"), || {
        of_answers(lab, || made_up::run(lab, arch))
    });
    // On the machine whose other tests end sooner.
    if arch == Arch::Aarch64 {
        job.case("user.aarch64.labs.handout".to_owned(), || {
            of_answers(lab, || handout(arch))
        });
    }
}

/// A handout has nothing to hold these against.
fn of_answers(lab: &Lab, case: impl FnOnce() -> Result<()>) -> Result<Outcome> {
    if !lab.answer().exists() {
        return Ok(Outcome::Skipped("a handout has no answers".to_owned()));
    }
    case().map(|()| Outcome::Passed)
}

/// A folder's files, to be graded.
fn submission<'a>(lab: &'a Lab, from: &'a Path, arches: &'a [Arch]) -> Submission<'a> {
    Submission {
        lab,
        from,
        sandbox: Sandbox::Open,
        arches,
        seed: 7,
        bless: false,
        live: false,
        limits: LIMITS,
    }
}

/// The files as they are handed out get no points, and are told where to begin.
fn skeleton(lab: &Lab) -> Result<()> {
    let grade = lab::grade(&submission(lab, &lab.folder(), &[Arch::X86_64]))?;
    let text = grade.text();
    ensure!(grade.total() == (0.0, 100.0), "{text}");
    let first = grade.parts.iter().find(|part| part.points.1 > 0.0);
    ensure!(first.is_some_and(|part| !part.words.is_empty()), "{text}");
    Ok(())
}

/// Each broken solution fails one of our tests, and one of the answer's; few enough fail one that
/// comes with the lab, which anybody can hand in.
fn broken(lab: &Lab) -> Result<()> {
    let host = match Host::build(lab, &lab.answer(), Sandbox::Open, LIMITS.tests)? {
        Ok(host) => host,
        Err(error) => anyhow::bail!("{error}"),
    };
    for tests in [Tests::Public, Tests::HeldBack, Tests::Own] {
        ensure!(
            !host.find(tests, "answer", 0)?,
            "the answer fails: {tests:?}"
        );
    }
    let mutants = host.mutants()?;
    ensure!(mutants.len() <= 10, "{} mutants", mutants.len());
    for seed in [0, 7, 1000] {
        let mut open = 0;
        for (name, _) in &mutants {
            if !host.find(Tests::Public, name, seed)? {
                open += 1;
                let held = host.find(Tests::HeldBack, name, seed)?;
                ensure!(held, "{name} passes our tests");
            }
            let own = host.find(Tests::Own, name, seed)?;
            ensure!(own, "{name} passes the answer's tests");
        }
        ensure!(open >= 5, "the lab's tests miss {open} broken solutions");
    }
    Ok(())
}

/// The copy with all seams is as formatted as the source, and clippy finds as little in it.
fn seams() -> Result<()> {
    let crates = ["mm", "switches", "arch-sim"].map(|name| format!("--package={name}"));
    cargo(lab::cargo()?.args(["fmt", "--check"]).args(crates))?;
    let features = LABS.iter().map(|lab| format!("lab-{}", lab.feature));
    clippy(&Vec::from_iter(features).join(","))
}

/// The memory manager compiles with this lab and no other, as for a student.
fn alone(lab: &Lab) -> Result<()> {
    clippy(&format!("lab-{}", lab.feature))
}

/// Nothing is said of the memory manager with the answers of labs.
fn clippy(features: &str) -> Result<()> {
    let mut clippy = lab::cargo()?;
    clippy.args(["clippy", "--quiet", "--package=mm", "--no-deps"]);
    clippy.args(["--features", features, "--", "-Dwarnings"]);
    cargo(clippy.env("LAB_FROM", ANSWER))
}

/// Runs a command that has nothing to say.
fn cargo(command: &mut Command) -> Result<()> {
    let output = command.output().context("cannot start cargo")?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success() && said.is_empty(), "{said}");
    Ok(())
}

/// All points on this machine.
fn answer(lab: &Lab, machines: &Machines<'_>, arch: Arch) -> Result<()> {
    let (from, arches) = (lab.answer(), [arch]);
    let grade = lab::grade_on(&submission(lab, &from, &arches), machines)?;
    ensure!(grade.full() && grade.total().1 == 100.0, "{}", grade.text());
    Ok(())
}

/// A handout's kernel builds, boots and runs a program.
fn handout(arch: Arch) -> Result<()> {
    // Not below this checkout, whose `.cargo` would count there, too.
    let folder = Temporary::folder("handout")?;
    let checkout = folder.path().join("repo");
    lab::write_handout(&checkout, &LABS.iter().collect::<Vec<_>>())?;
    let log = Command::new("git")
        .current_dir(&checkout)
        .args(["log", "--oneline"])
        .output()?;
    ensure!(
        String::from_utf8_lossy(&log.stdout).lines().count() == 1,
        "more than one commit"
    );
    let built = build::elsewhere(arch, &checkout, &folder.path().join("target"))?;
    let mut machine = Machine::new(arch, built.image);
    machine.command_line = "quiet -- torture --steps 2000 --seed 1".to_owned();
    let boot = console::boot(&machine, BOOT)?;
    ensure!(boot.end == End::Status(0), "{:?}\n{}", boot.end, boot.text);
    Ok(())
}
