//! A lab's tests on the host, each in a process of its own with limits: a submission may loop, take
//! all memory or overflow its stack.
use super::list::{ANSWER, FILES, Lab};
use super::sandbox::{self, Sandbox};
use super::seams;
use super::source;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tools::host::workspace::{self, Temporary};
use tools::machine::build;

/// To build, with what is not the student's.
const BUILD: Duration = Duration::from_secs(1800);
/// Of a CPU, for each process of a build: more than the largest of ours takes.
pub const OF_BUILD: u64 = 200;
/// How much longer than its CPU time a program may take.
pub const PATIENCE: u32 = 30;

/// A test that ran.
#[derive(Debug, Clone)]
pub struct Ran {
    /// What it asks.
    pub asks: String,
    /// Points for passing it.
    pub points: f64,
    /// Why it did not pass.
    pub wrong: Option<String>,
}

/// What a command did: its output and errors, and whether it ended well and in time.
pub struct Done {
    /// Lines of standard output.
    pub lines: Vec<String>,
    /// All of standard error.
    pub errors: String,
    /// `None`: it was ended after its time, or after that of a CPU.
    pub success: Option<bool>,
}

/// Runs a command for so long at most.
pub fn run(command: &mut Command, limit: Duration) -> Result<Done> {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = piped.stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let errors = child.stderr.take().context("piped above")?;
    let errors = std::thread::spawn(move || std::io::read_to_string(errors).unwrap_or_default());
    let (lines, ended) = read(&mut child, limit)?;
    if !ended {
        child.kill().context("cannot end it")?;
    }
    let status = child.wait()?;
    let errors = errors.join().unwrap_or_default();
    if let Some(why) = sandbox::failed(&errors) {
        bail!("the sandbox did not start: {why}");
    }
    Ok(Done {
        lines,
        errors,
        success: (ended && !sandbox::is_late(status)).then(|| status.success()),
    })
}

/// The lines until it closes its output, and whether it did so in time.
fn read(child: &mut Child, limit: Duration) -> Result<(Vec<String>, bool)> {
    let output = child.stdout.take().context("piped above")?;
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        // Nobody receives any longer: its time is up.
        lines
            .take_while(|line| send.send(line.clone()).is_ok())
            .count();
    });
    let end = Instant::now() + limit;
    let mut lines = Vec::new();
    loop {
        match receive.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => lines.push(line),
            Err(RecvTimeoutError::Disconnected) => return Ok((lines, true)),
            Err(RecvTimeoutError::Timeout) => return Ok((lines, false)),
        }
    }
}

/// Where the student's files of each submission are compiled, one submission at a time: what the
/// compiler keeps for the next build has the paths of source files, which should differ by what
/// students wrote and not by whose folder it is.
pub struct Place {
    /// What `course/labs/build.rs` takes.
    from: PathBuf,
    /// Nobody else builds a lab while it is open: no thread of this process, and no other process.
    _lock: File,
}

impl Place {
    /// Waits until it is free, and has the student's files of `from` there; with `answer`, those of
    /// each lab are compiled from where they are.
    pub fn with(from: &Path) -> Result<Place> {
        let folder = folder();
        let lock = workspace::lock(&folder.join("lock"))?;
        let answers = from == Path::new(ANSWER);
        for file in FILES.iter().filter(|_| !answers) {
            let text = source::read(from, file)?.map_err(|why| anyhow!("{file}: {why}"))?;
            // What is the same keeps its time: cargo builds it again if that is a later one.
            build::replace(&folder.join(file), text.as_bytes())?;
        }
        Ok(Place {
            from: if answers { from.to_owned() } else { folder },
            _lock: lock,
        })
    }

    /// For `LAB_FROM`.
    pub fn from(&self) -> &Path {
        &self.from
    }
}

/// The folder of the files that are compiled.
fn folder() -> PathBuf {
    seams::folder().join("student")
}

/// Text of the compiler or of a program, with the student's files as the student calls them.
pub fn named(text: &str) -> String {
    text.replace(&format!("{}/", folder().display()), "")
}

/// Builds a program of the host with the student's files of `from`, and keeps a copy of it; `Err`
/// inside: what the compiler says.
pub fn program(from: &Path, sandbox: Sandbox, args: &[&str]) -> Result<Result<Program, String>> {
    let place = Place::with(from)?;
    let mut command = seams::cargo()?;
    command.env("LAB_FROM", place.from());
    command.args(args);
    command.args(["--quiet", "--message-format=json-render-diagnostics"]);
    let temporary = Temporary::folder("lab")?;
    let mut command = sandbox.build(command, temporary.path(), OF_BUILD);
    let done = run(&mut command, BUILD)?;
    if done.success.is_none() {
        bail!("the build had not ended after {} s", BUILD.as_secs());
    }
    if done.success != Some(true) {
        return Ok(Err(first_error(&named(&done.errors))));
    }
    let built = done
        .lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut files = built.filter_map(|line| line["executable"].as_str().map(PathBuf::from));
    let built = files.next().context("cargo built no program")?;
    // Below the folder that the sandbox reads.
    let file = Temporary::within(&folder(), "program");
    fs::copy(&built, file.path()).context("cannot copy a program")?;
    Ok(Ok(Program { file, sandbox }))
}

/// A program that was built with a solution.
pub struct Program {
    file: Temporary,
    sandbox: Sandbox,
}

impl Program {
    /// Runs it with limits to the time of a CPU and to memory.
    pub fn run(&self, args: &[&str], limit: Duration) -> Result<Done> {
        self.run_with(&[], args, limit)
    }

    /// The same, with variables of its environment.
    pub fn run_with(
        &self,
        variables: &[(&str, &str)],
        args: &[&str],
        limit: Duration,
    ) -> Result<Done> {
        let mut command = Command::new(self.file.path());
        command.args(args).envs(variables.iter().copied());
        run(
            &mut self.sandbox.program(command, limit.as_secs()),
            limit * PATIENCE,
        )
    }
}

/// Whose tests they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tests {
    /// Those that come with the lab.
    Public,
    /// Those that a handout does not have.
    HeldBack,
    /// The student's.
    Own,
}

impl Tests {
    /// As the program calls them.
    fn name(self) -> &'static str {
        match self {
            Tests::Public => "public",
            Tests::HeldBack => "held-back",
            Tests::Own => "own",
        }
    }
}

/// The program with the tests of one solution.
pub struct Host {
    program: Program,
    limit: Duration,
}

impl Host {
    /// Builds it with the student's files of `from`; `Err` inside: what the compiler says. All
    /// tests of one solution may take `limit` of a CPU's time.
    pub fn build(
        lab: &Lab,
        from: &Path,
        sandbox: Sandbox,
        limit: Duration,
    ) -> Result<Result<Host, String>> {
        let answer = if lab.answer().exists() { ",answer" } else { "" };
        let features = format!("host,{}{answer}", lab.feature);
        let args = [
            "build",
            "--package=labs",
            "--bin=lab",
            "--no-default-features",
            "--features",
            &features,
        ];
        Ok(program(from, sandbox, &args)?.map(|program| Host { program, limit }))
    }

    /// The tests of a kind, of the solution with this name.
    pub fn tests(&self, tests: Tests, subject: &str, seed: u64) -> Result<Vec<Ran>> {
        let (tests, seed) = (tests.name(), seed.to_string());
        let done = self.program.run(&[tests, subject, &seed], self.limit)?;
        self.ran(&done)
    }

    /// Whether tests of a kind find that the solution with this name is broken.
    pub fn find(&self, tests: Tests, subject: &str, seed: u64) -> Result<bool> {
        let ran = self.tests(tests, subject, seed)?;
        Ok(ran.iter().any(|test| test.wrong.is_some()))
    }

    /// The broken solutions: name, and what is broken.
    pub fn mutants(&self) -> Result<Vec<(String, String)>> {
        let done = self.program.run(&["mutants"], self.limit)?;
        let lines = done
            .lines
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(lines
            .map(|line| (text(&line["mutant"]), text(&line["breaks"])))
            .collect())
    }

    /// What the program says of its tests.
    fn ran(&self, done: &Done) -> Result<Vec<Ran>> {
        let (mut ran, mut next, mut whole) = (Vec::<Ran>::new(), 0, false);
        for line in &done.lines {
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                bail!("the program lab printed {line:?}");
            };
            if let Some(asks) = line["plan"].as_str() {
                ran.push(Ran {
                    asks: asks.to_owned(),
                    points: line["points"].as_f64().unwrap_or(0.0),
                    wrong: Some("not run: the one before did not end".to_owned()),
                });
            } else if line["test"].is_string() {
                let words = line["words"].as_str().unwrap_or_default();
                let one = ran.get_mut(next).context("a test without a plan")?;
                one.wrong = (line["ok"] != true).then(|| without_place(words));
                next += 1;
            } else {
                whole |= line["done"].is_u64();
            }
        }
        if let Some(one) = ran.get_mut(next).filter(|_| !whole) {
            one.wrong = Some(match done.success {
                None => format!("it had not ended after {} s", self.limit.as_secs()),
                Some(_) => format!("it ended the program: {}", last_line(&done.errors)),
            });
        }
        Ok(ran)
    }
}

/// A panic's text without the line that says where it was: that is a line of ours.
fn without_place(words: &str) -> String {
    match words.split_once(":\n") {
        Some((place, words)) if place.contains("/solution.rs") || place.contains("/tests.rs") => {
            let file = place.rsplit('/').next().unwrap_or(place);
            format!("{file}: {words}")
        }
        Some((_, words)) => words.to_owned(),
        None => words.to_owned(),
    }
}

fn last_line(text: &str) -> &str {
    let mut lines = text.lines().rev().map(str::trim);
    lines.find(|line| !line.is_empty()).unwrap_or("no word why")
}

/// The first error of the compiler, a page at most.
fn first_error(errors: &str) -> String {
    let from = errors.find("error").map_or(errors, |at| &errors[at..]);
    let error = from.split("\n\n").next().unwrap_or(from);
    let lines: Vec<&str> = error.lines().take(24).collect();
    lines.join("\n")
}
