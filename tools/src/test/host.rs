//! The host level: every test program of the workspace's default members, the models that loom and
//! shuttle run, and the examples in the documentation.
pub mod mutants;

use super::Job;
use crate::test::outcome::Outcome;
use crate::{progress, workspace};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A test program that cargo built.
struct Program {
    package: String,
    /// The target's name: the crate, or the file in `tests/`.
    target: String,
    path: PathBuf,
    folder: PathBuf,
}

impl Program {
    /// The prefix of its tests' full names.
    fn prefix(&self) -> String {
        if self.target == self.package.replace('-', "_") {
            format!("host.{}", self.package)
        } else {
            format!("host.{}.{}", self.package, self.target)
        }
    }
}

/// Runs the host level.
pub fn run(job: &Job<'_>) -> Result<()> {
    let mut build = cargo(&["test"]);
    for program in programs("building the host's tests", &mut build)? {
        tests_of(job, &program, &program.prefix())?;
    }
    doc_tests(job)
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

/// Runs the models of the lock and of the account with loom's atomics in the place of the real
/// ones: `host.loom.FILE.TEST`. A build of its own, with its own folder, so that it does not undo
/// the other one.
pub fn run_loom(job: &Job<'_>) -> Result<()> {
    let mut models = vec![
        "--features=own/mutants".to_owned(),
        "--test=loom*".to_owned(),
    ];
    models.extend(["locks", "own", "mm", "arch-x86_64"].map(|name| format!("--package={name}")));
    for program in programs("building the models", &mut with_cfg("loom", &models))? {
        tests_of(job, &program, &format!("host.loom.{}", program.target))?;
    }
    Ok(())
}

/// Runs the models of the memory manager on the simulated machine, with shuttle's atomics and
/// threads: `host.shuttle.TEST`. A build of its own, too.
pub fn run_shuttle(job: &Job<'_>) -> Result<()> {
    let models = ["--package=arch-sim", "--test=shuttle"];
    let mut build = with_cfg("shuttle", &models);
    for program in programs("building the models of the memory manager", &mut build)? {
        tests_of(job, &program, "host.shuttle")?;
    }
    Ok(())
}

/// A `cargo test` with `--cfg NAME`, in a folder of its own.
fn with_cfg(name: &str, arguments: &[impl AsRef<std::ffi::OsStr>]) -> Command {
    let mut build = cargo(&["test"]);
    build
        .args(arguments)
        .args(["--target-dir", &format!("target/{name}")])
        .env("RUSTFLAGS", format!("--cfg {name}"));
    build
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
    if job.list {
        wanted.iter().for_each(|test| println!("{}", full(test)));
        return Ok(());
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(&program.path);
    command
        .current_dir(&program.folder)
        .arg("--exact")
        .args(&wanted);
    let label = format!("testing {}", prefix.trim_start_matches("host."));
    let output = progress::during(&label, || run_to_end(&mut command))?.0;
    let results = libtest(&output);
    for test in wanted {
        let outcome = match results.iter().find(|(name, _)| name == test) {
            Some((_, Verdict::Ok)) => Outcome::Passed,
            Some((_, Verdict::Ignored(why))) => Outcome::Skipped(why.clone()),
            Some((_, Verdict::Failed)) => Outcome::Failed(failure(&output, test)),
            // The program ended before this test did.
            None => Outcome::Failed(output.clone()),
        };
        // Without a time: libtest prints only the whole program's.
        job.report.add(full(test), outcome, None);
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

/// Examples in documentation; cargo runs them crate by crate.
fn doc_tests(job: &Job<'_>) -> Result<()> {
    if !job.may_want("host.doc.") {
        return Ok(());
    }
    let full = |test: &str| format!("host.doc.{}", test.replace(" - ", ":").replace("::", "."));
    if job.list {
        let listed = progress::step(
            "listing examples",
            &mut cargo(&["test", "--doc", "--", "--list"]),
        )?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let names = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(full);
        names
            .filter(|name| job.wants(name))
            .for_each(|name| println!("{name}"));
        return Ok(());
    }
    let mut command = cargo(&["test", "--quiet", "--no-fail-fast", "--doc"]);
    command.args(["--", "--format=pretty"]);
    let (output, took) = progress::during("testing the examples of the documentation", || {
        run_to_end(&mut command)
    })?;
    let results = libtest(&output);
    if results.is_empty() && output.contains("error") {
        job.report
            .add("host.doc", Outcome::Failed(output), Some(took));
        return Ok(());
    }
    for (test, verdict) in results.iter().filter(|(test, _)| job.wants(&full(test))) {
        let outcome = match verdict {
            Verdict::Ok => Outcome::Passed,
            Verdict::Ignored(why) => Outcome::Skipped(why.clone()),
            Verdict::Failed => Outcome::Failed(failure(&output, test)),
        };
        job.report.add(full(test), outcome, None);
    }
    Ok(())
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
            package("path+file:///x/arch/sim#arch-sim@0.1.0"),
            "arch-sim"
        );
    }
}
