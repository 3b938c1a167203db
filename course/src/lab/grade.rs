//! One submission, from its text to its points.
use super::host::{Host, Tests};
use super::list::{FILES, Lab};
use super::machine::{self, Machines};
use super::points::Grade;
use super::sandbox::Sandbox;
use super::source;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;
use tools::host::arch::Arch;

/// What is graded, and how.
pub struct Submission<'a> {
    /// For which lab.
    pub lab: &'a Lab,
    /// The folder of its two files.
    pub from: &'a Path,
    /// Where its code is compiled and runs.
    pub sandbox: Sandbox,
    /// On which machines; on none, only on the host.
    pub arches: &'a [Arch],
    /// Picks where the broken solutions are broken that have a choice.
    pub seed: u64,
    /// What it costs becomes the measure of others.
    pub bless: bool,
    /// The parts are printed as they end.
    pub live: bool,
    /// How much it may take, and how much is tried.
    pub limits: Limits,
}

/// How long a submission may take, of a CPU's time (on a busy computer it takes longer, and counts
/// for as much), and how much is tried.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For all tests of one solution.
    pub tests: Duration,
    /// For one boot.
    pub boot: Duration,
    /// Walks of each kind in the simulated machine, where not as many as the model has of it.
    pub walks: Option<u32>,
}

impl Limits {
    /// A student's.
    pub const OF_GRADES: Limits = Limits {
        tests: Duration::from_secs(20),
        boot: Duration::from_secs(120),
        walks: None,
    };
}

/// Grades it. `Err` is a fault of ours, not of the submission's.
pub fn grade(submission: &Submission<'_>) -> Result<Grade> {
    let labs = [submission.lab];
    let machines = Machines::new(&labs, submission.from, submission.sandbox);
    grade_on(submission, &machines)
}

/// Grades it on machines that have its code already, perhaps that of other labs beside it.
pub fn grade_on(submission: &Submission<'_>, machines: &Machines<'_>) -> Result<Grade> {
    let mut grade = Grade {
        live: submission.live,
        ..Grade::default()
    };
    if let Some(why) = refused(submission.from)? {
        everything_else(submission, &mut grade, &why);
        return Ok(grade);
    }
    let Submission { lab, from, .. } = *submission;
    let host = match Host::build(lab, from, submission.sandbox, submission.limits.tests)? {
        Ok(host) => host,
        Err(error) => {
            let why = format!("it does not compile:\n{error}");
            everything_else(submission, &mut grade, &why);
            return Ok(grade);
        }
    };
    let right = ours(&host, Tests::Public, &mut grade)? & ours(&host, Tests::HeldBack, &mut grade)?;
    if !lab.answer().exists() {
        let held_back = lab.points.held_back;
        let name =
            format!("for {held_back} points more there are tests that are not in this repository");
        grade.add(name, (0.0, 0.0), "");
    }
    tests(submission, &host, right, &mut grade)?;
    solution(submission, machines, right, &mut grade)?;
    Ok(grade)
}

/// Why its files are not taken, if one is not.
fn refused(from: &Path) -> Result<Option<String>> {
    for file in FILES {
        let text = source::read(from, file)?;
        if let Err(why) = text.and_then(|text| source::check(&text)) {
            return Ok(Some(format!("{file}, {why}")));
        }
    }
    Ok(None)
}

/// All points are lost for one reason.
fn everything_else(submission: &Submission<'_>, grade: &mut Grade, why: &str) {
    let points = submission.lab.points;
    grade.add(
        "the tests that come with the lab",
        (0.0, points.public),
        why,
    );
    if submission.lab.answer().exists() {
        grade.not_run(
            "the tests that are held back",
            points.held_back,
            "see above",
        );
    }
    let parts = [points.tests, points.simulated, points.machine, points.cost];
    for (name, most) in PARTS.iter().zip(parts) {
        grade.not_run(name, most, "see above");
    }
}

const PARTS: [&str; 4] = [
    "your tests",
    "random walks in the simulated machine",
    "the kernel, with lab=on",
    "cost",
];

/// Tests of the lab; whether all passed.
fn ours(host: &Host, tests: Tests, grade: &mut Grade) -> Result<bool> {
    let ran = host.tests(tests, "solution", 0)?;
    for test in &ran {
        let got = test.wrong.as_ref().map_or(test.points, |_| 0.0);
        let words = test.wrong.clone().unwrap_or_default();
        let kind = if tests == Tests::HeldBack {
            "held back: "
        } else {
            ""
        };
        grade.add(format!("{kind}{}", test.asks), (got, test.points), words);
    }
    Ok(ran.iter().all(|test| test.wrong.is_none()))
}

/// Walks, then a kernel on each machine, then what it costs: each only when all was right before.
fn solution(
    submission: &Submission<'_>,
    machines: &Machines<'_>,
    right: bool,
    grade: &mut Grade,
) -> Result<()> {
    let Submission {
        lab,
        arches,
        limits,
        ..
    } = *submission;
    let share = |points: f64| points / arches.len() as f64;
    let mut right = right;
    for arch in arches {
        let [_, walks, kernel, cost] = PARTS.map(|part| format!("{part}, {arch}"));
        let most = share(lab.points.simulated);
        if !right {
            let why = "first the tests above";
            grade.not_run(&walks, most, why);
            grade.not_run(&kernel, share(lab.points.machine), why);
            grade.not_run(&cost, share(lab.points.cost), why);
            continue;
        }
        grade.begin(&format!("the solution in the simulated machine, {arch}"));
        let wrong = machines.walks(lab, *arch, limits.walks)?;
        right &= wrong.is_none();
        grade.add(
            walks,
            (if right { most } else { 0.0 }, most),
            wrong.unwrap_or_default(),
        );
        let most = (share(lab.points.machine), share(lab.points.cost));
        match right {
            true => {
                let parts = (&*kernel, &*cost);
                right &= on_machine(submission, machines, *arch, parts, most, grade)?;
            }
            false => {
                grade.not_run(&kernel, most.0, "first the walks");
                grade.not_run(&cost, most.1, "first the walks");
            }
        }
    }
    Ok(())
}

/// In a kernel; whether nothing went wrong there.
fn on_machine(
    submission: &Submission<'_>,
    machines: &Machines<'_>,
    arch: Arch,
    (kernel_part, cost_part): (&str, &str),
    (kernel_most, cost_most): (f64, f64),
    grade: &mut Grade,
) -> Result<bool> {
    let (lab, limit) = (submission.lab, submission.limits.boot);
    let (kernel, word) = (machines.kernel(arch)?, machines.word(lab));
    grade.begin(&format!("the solution in a kernel, {arch}"));
    if let Some(wrong) = kernel.check(lab, word, limit)? {
        grade.add(kernel_part, (0.0, kernel_most), wrong);
        grade.not_run(cost_part, cost_most, "first the kernel");
        return Ok(false);
    }
    grade.add(kernel_part, (kernel_most, kernel_most), "");
    let cells = match kernel.cost(lab, word, limit)? {
        Ok(cells) => cells,
        Err(wrong) => {
            grade.add(cost_part, (0.0, cost_most), wrong);
            return Ok(false);
        }
    };
    if submission.bless {
        machine::bless(lab, arch, &cells)?;
    }
    let costs = machine::costs(lab, arch)?;
    let (got, words) = machine::compared(arch, &cells, &costs, cost_most);
    grade.add(cost_part, (got, cost_most), words);
    Ok(true)
}

/// The student's tests: of what is right, then of each broken solution.
fn tests(submission: &Submission<'_>, host: &Host, right: bool, grade: &mut Grade) -> Result<()> {
    let (part, most) = (PARTS[0], submission.lab.points.tests);
    let best = match (submission.lab.answer().exists(), right) {
        (true, _) => "answer",
        (false, true) => "solution",
        (false, false) => {
            grade.not_run(part, most, "first a solution that they can be held against");
            return Ok(());
        }
    };
    let of_right = host.tests(Tests::Own, best, submission.seed)?;
    if of_right.is_empty() {
        grade.add(
            part,
            (0.0, most),
            "tests.rs has none: begin with its example",
        );
        return Ok(());
    }
    if let Some(failed) = of_right.iter().find(|test| test.wrong.is_some()) {
        let why = failed.wrong.as_deref().unwrap_or_default();
        let words = format!("\"{}\" fails on a right solution: {why}", failed.asks);
        grade.add(part, (0.0, most), words);
        return Ok(());
    }
    // One that the lab's tests find is nothing that the student's have found.
    let (mut open, mut missed) = (0, Vec::new());
    for (name, breaks) in &host.mutants()? {
        if host.find(Tests::Public, name, submission.seed)? {
            continue;
        }
        open += 1;
        if !host.find(Tests::Own, name, submission.seed)? {
            missed.push(format!("{name}: {breaks}"));
        }
    }
    let found = open - missed.len();
    let mut words =
        format!("{found} of {open} broken solutions that the lab's tests miss are found");
    if !missed.is_empty() {
        words += &format!("; not these:\n  {}", missed.join("\n  "));
    }
    let got = most * found as f64 / open.max(1) as f64;
    grade.add(part, (got, most), words);
    Ok(())
}
