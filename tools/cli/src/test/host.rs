//! The host level: every test program of the workspace's default members, the models that loom and
//! shuttle run, and the examples in the documentation.
use super::base;
use super::job::Job;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tools::host::outcome::Outcome;
use tools::host::{progress, workers, workspace};

mod docs;
mod models;
pub mod mutants;

pub use docs::doc_tests;
pub use models::{run_loom, run_shuttle, with_cfg};

/// A test program that cargo built.
pub struct Program {
    package: String,
    /// The target's name: the crate, or the file in `tests/`.
    target: String,
    path: PathBuf,
    folder: PathBuf,
}

impl Program {
    /// The prefix of its tests' full names.
    fn prefix(&self) -> String {
        prefix(&self.package, &self.target)
    }
}

/// What the names of a target's tests begin with.
fn prefix(package: &str, target: &str) -> String {
    if target == package.replace('-', "_") {
        format!("host.{package}")
    } else {
        format!("host.{package}.{target}")
    }
}

/// What has a prefix of its own, or a build.
const APART: [&str; 7] = [
    "host.selftests.",
    "host.proof.",
    "host.loom.",
    "host.shuttle.",
    "host.labs.",
    "host.book.",
    "host.doc.",
];

/// Builds the test programs of which tests are wanted.
pub fn build(job: &Job<'_>) -> Result<Vec<Program>> {
    let mut targets = targets()?;
    targets.retain(|target| !target.is_model() && !target.is_apart());
    let wanted = targets
        .iter()
        .filter(|target| target.is_wanted(job, &targets));
    let wanted: Vec<&Target> = wanted.collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    // Of all packages, so that what they share is built as for all of them; of those only the
    // programs that are asked for.
    let mut build = cargo(&["test"]);
    build.args(
        wanted
            .iter()
            .map(|target| target.argument())
            .collect::<BTreeSet<_>>(),
    );
    let programs = programs("building the host's tests", &mut build)?;
    let is_wanted = |program: &Program| wanted.iter().any(|it| it.prefix == program.prefix());
    Ok(programs.into_iter().filter(is_wanted).collect())
}

/// Runs test programs side by side, those that take longest first.
pub fn run(job: &Job<'_>, programs: &[Program]) -> Result<()> {
    let mut programs: Vec<&Program> = programs.iter().collect();
    let long = |program: &&Program| job.report.expected(&[program.prefix() + "."]);
    programs.sort_by_key(|program| std::cmp::Reverse(long(program)));
    let results = workers::map(&programs, workers::cpus(), |program| {
        tests_of(job, program, &program.prefix())
    });
    results.into_iter().collect()
}

/// Something that cargo can build as a test program.
struct Target {
    package: String,
    prefix: String,
    kind: String,
    name: String,
}

/// Those of the workspace's default members.
fn targets() -> Result<Vec<Target>> {
    let command = &mut cargo(&["metadata", "--no-deps", "--format-version=1"]);
    let metadata: Value =
        serde_json::from_slice(&progress::step("reading the workspace", command)?)?;
    let members = metadata["workspace_default_members"].as_array();
    let members = members.context("cargo names no default members")?;
    let packages = metadata["packages"].as_array();
    let packages = packages.context("cargo names no packages")?;
    let mut targets = Vec::new();
    for package in packages
        .iter()
        .filter(|package| members.contains(&package["id"]))
    {
        for target in package["targets"].as_array().into_iter().flatten() {
            // What needs features is built with them, elsewhere.
            let as_it_is = target["required-features"].is_null();
            if target["test"] == true && as_it_is {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (package, name) = (text(&package["name"]), text(&target["name"]));
                let (prefix, kind) = (prefix(&package, &name), text(&target["kind"][0]));
                targets.push(Target {
                    package,
                    prefix,
                    kind,
                    name,
                });
            }
        }
    }
    Ok(targets)
}

impl Target {
    /// Whether it is a model, which has tests in a build of its own only.
    fn is_model(&self) -> bool {
        self.kind == "test" && (self.name.starts_with("loom") || self.name == "shuttle")
    }

    /// Whether something else has its prefix.
    fn is_apart(&self) -> bool {
        APART.contains(&format!("{}.", self.prefix).as_str())
    }

    /// Whether any of its tests is wanted. The names of a library's tests begin as those of its
    /// package's other programs do: a name is of the longest prefix that fits.
    fn is_wanted(&self, job: &Job<'_>, all: &[Target]) -> bool {
        let prefix = format!("{}.", self.prefix);
        let others = all.iter().filter(|other| other.prefix.starts_with(&prefix));
        let others: Vec<String> = others.map(|other| format!("{}.", other.prefix)).collect();
        let is_own = |name: &str| !others.iter().any(|other| name.starts_with(other.as_str()));
        job.may_want_of(&prefix, is_own)
    }

    /// What has `cargo test` build it, with all that have the same name or kind.
    fn argument(&self) -> String {
        match self.kind.as_str() {
            "test" => format!("--test={}", self.name),
            "bin" => format!("--bin={}", self.name),
            "bench" => format!("--bench={}", self.name),
            _ => "--lib".to_owned(),
        }
    }
}

/// The random tests of the memory manager with new seeds for `time`, about: tests of one program
/// run beside each other. The seeds are printed by the one that fails.
pub fn run_seeds(time: Duration) -> Result<Outcome> {
    const PROGRAMS: [&str; 2] = ["model", "like_linux"];
    let mut report = String::new();
    for name in PROGRAMS {
        let mut command = cargo(&["test", "--package", "arch-sim", "--test", name]);
        command.args(["--", "--nocapture"]);
        let seconds = time.as_secs() / (2 * PROGRAMS.len() as u64);
        command.env("SEED_SECONDS", seconds.to_string());
        let output = run_to_end(&mut command)?.0;
        let seeds = output.lines().filter(|line| line.starts_with("seed "));
        report += &format!("{name}: {} seeds. ", seeds.count());
        if !output.contains("test result: ok.") {
            return Ok(Outcome::Failed(output));
        }
    }
    println!("      | long.host.seeds: {report}");
    Ok(Outcome::Passed)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(workspace::root()).args(arguments);
    command
}

/// The test programs of a `cargo test`.
fn programs(what: &str, build: &mut Command) -> Result<Vec<Program>> {
    build.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let messages = progress::step(what, build)?;
    let messages = messages
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok());
    let mut programs: Vec<Program> = messages.filter_map(|message| program(&message)).collect();
    programs.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
    Ok(programs)
}

/// The test program in one of cargo's messages.
fn program(message: &Value) -> Option<Program> {
    if message["profile"]["test"] != true {
        return None;
    }
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    Some(Program {
        package: package(message["package_id"].as_str()?).to_owned(),
        target: message["target"]["name"].as_str()?.to_owned(),
        path: message["executable"].as_str()?.into(),
        folder,
    })
}

/// The name in `path+file:///somewhere/mm#0.1.0` or `path+file:///somewhere/x#arch-sim@0.1.0`.
fn package(id: &str) -> &str {
    let (place, fragment) = id.split_once('#').unwrap_or((id, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(place),
    }
}

fn tests_of(job: &Job<'_>, program: &Program, prefix: &str) -> Result<()> {
    let listed = Command::new(&program.path)
        .args(["--list", "--format", "terse"])
        .output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let full = |test: &str| format!("{prefix}.{}", test.replace("::", "."));
    let wanted: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|test| job.wants(&full(test)))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    job.report.begins();
    let mut command = Command::new(&program.path);
    command
        .current_dir(&program.folder)
        .arg("--exact")
        .args(&wanted);
    if job.whole_tables {
        command.env("PAIRS", "all");
    }
    let label = format!("testing {}", prefix.trim_start_matches("host."));
    let output = progress::during(&label, || run_to_end(&mut command))?.0;
    job.report.spent_for(prefix);
    let results = libtest(&output);
    for test in wanted {
        let outcome = match results.iter().find(|(name, _)| name == test) {
            Some((_, Verdict::Ok)) => Outcome::Passed,
            Some((_, Verdict::Ignored(why))) => Outcome::Skipped(why.clone()),
            Some((_, Verdict::Failed)) => {
                let mut why = failure(&output, test);
                if base::is_random(prefix) {
                    why += &format!("\n{}", base::compare(&program.target, test));
                }
                Outcome::Failed(why)
            }
            // The program ended before this test did.
            None => Outcome::Failed(output.clone()),
        };
        // Without a time: libtest prints only the whole program's.
        job.add(full(test), outcome, None);
    }
    Ok(())
}

/// Both output streams in one text, in the order in which they came.
fn run_to_end(command: &mut Command) -> Result<(String, Duration)> {
    let started = Instant::now();
    let (reader, writer) = std::io::pipe()?;
    let other = writer.try_clone()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(other)
        .spawn()
        .context("cannot start a test")?;
    // The command holds the pipe's other end until it gets new ones.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let output = std::io::read_to_string(reader)?;
    child.wait()?;
    Ok((output, started.elapsed()))
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Failed,
    Ignored(String),
}

/// libtest's `test NAME ... VERDICT` lines. A test's own output may stand between the two parts.
fn libtest(output: &str) -> Vec<(String, Verdict)> {
    let parse = |line: &str| {
        let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
        let verdict = match verdict {
            "ok" => Verdict::Ok,
            "FAILED" => Verdict::Failed,
            other => Verdict::Ignored(
                other
                    .strip_prefix("ignored")?
                    .trim_start_matches(", ")
                    .to_owned(),
            ),
        };
        Some((name.trim_end_matches(" - should panic").to_owned(), verdict))
    };
    output.lines().filter_map(parse).collect()
}

/// The part of libtest's report that belongs to one failed test.
fn failure(output: &str, test: &str) -> String {
    let head = format!("---- {test} stdout ----");
    let Some((_, rest)) = output.split_once(&head) else {
        return output.to_owned();
    };
    rest.split("\n---- ")
        .next()
        .unwrap_or(rest)
        .split("\nfailures:")
        .next()
        .unwrap_or(rest)
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtest_output() {
        let output = "running 4 tests\ntest a::b ... ok\ntest c - should panic ... ok\ntest d ... ignored, slow\n\
                      test e ... FAILED\n\nfailures:\n\n---- e stdout ----\nthread panicked\nleft: 1\n\n\n\
                      failures:\n    e\n\ntest result: FAILED. 2 passed; 1 failed\n";
        let results = libtest(output);
        let expected = [
            ("a::b", Verdict::Ok),
            ("c", Verdict::Ok),
            ("d", Verdict::Ignored("slow".to_owned())),
            ("e", Verdict::Failed),
        ];
        assert_eq!(
            results,
            expected.map(|(name, verdict)| (name.to_owned(), verdict))
        );
        assert_eq!(failure(output, "e"), "thread panicked\nleft: 1");
    }

    #[test]
    fn package_names() {
        assert_eq!(package("path+file:///x/kernel/mm#0.1.0"), "mm");
        assert_eq!(
            package("path+file:///x/proof/sim#arch-sim@0.1.0"),
            "arch-sim"
        );
    }
}
