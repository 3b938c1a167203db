//! `selftests`, on the machine from the default initramfs and on the host's own Linux, which checks
//! the tests.
use super::job::Job;
use super::transcript::{Ended, Transcript};
use super::unit;
use anyhow::{Context, Result};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::{self, Built};
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

const LIMIT: Duration = Duration::from_secs(600);

/// Runs the user-mode suite of one architecture with so many CPUs.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built, cpus: u32) -> Result<()> {
    let prefix = format!("{}.selftests", unit::name("user", arch, cpus));
    if job.may_want(&format!("{prefix}.")) {
        let mut machine = Machine::new(arch, built.image.clone());
        machine.smp = cpus;
        run_on(job, prefix, machine)?;
    }
    Ok(())
}

/// Runs the user-mode suite on one machine; the tests' names begin with `prefix`.
pub fn run_on(job: &Job<'_>, prefix: String, mut machine: Machine) -> Result<()> {
    let mut chosen = String::new();
    if !job.wants_all(&format!("{prefix}.")) {
        machine.command_line = "quiet -- selftests --list".to_owned();
        let listed = console::boot(&machine, LIMIT)?.text;
        match choose(job, &prefix, &listed) {
            Some(names) => chosen = names,
            None => return Ok(()),
        }
    }
    machine.command_line = format!("quiet -- selftests {chosen}");
    let mut results = Results::new(job, prefix);
    let boot = console::watch(&machine, LIMIT, |piece| results.feed(piece))?;
    results.end(
        &format!("{:?}", boot.end),
        boot.end == End::Status(results.expected_status()),
        &boot.text,
    );
    Ok(())
}

/// Runs it on the host, when that is a Linux.
pub fn run_on_host(job: &Job<'_>) -> Result<()> {
    let prefix = "host.selftests".to_owned();
    let Some(arch) = Arch::ALL
        .into_iter()
        .find(|arch| arch.name() == std::env::consts::ARCH)
    else {
        return Ok(());
    };
    if std::env::consts::OS != "linux" {
        return Ok(());
    }
    let program = build::programs(arch)?
        .into_iter()
        .find(|path| path.ends_with("selftests"));
    let program: PathBuf = program.context("cargo built no selftests")?;
    let mut command = Command::new(&program);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    if !job.wants_all(&format!("{prefix}.")) {
        let listed = Command::new(&program).arg("--list").output()?;
        match choose(job, &prefix, &String::from_utf8_lossy(&listed.stdout)) {
            Some(names) => command.args(names.split_whitespace()),
            None => return Ok(()),
        };
    }
    let mut results = Results::new(job, prefix);
    let mut child = command.spawn()?;
    let mut stdout = child.stdout.take().context("piped above")?;
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = stdout.read(&mut buffer) {
        results.feed(&buffer[..length]);
        text.extend(&buffer[..length]);
    }
    let status = child.wait()?;
    let sound = status.code() == Some(results.expected_status().into());
    results.end(&status.to_string(), sound, &String::from_utf8_lossy(&text));
    Ok(())
}

/// From what `selftests --list` prints (one name a line, on a console that may carry other lines):
/// those to run; `None` when there are none.
fn choose(job: &Job<'_>, prefix: &str, listed: &str) -> Option<String> {
    let is_name = |line: &&str| {
        !line.is_empty()
            && line
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let all: Vec<&str> = listed.lines().map(text).filter(is_name).collect();
    let wanted = |name: &&str| job.wants(&format!("{prefix}.{name}"));
    let names: Vec<&str> = all.iter().copied().filter(wanted).collect();
    // All of them need no names, and many fewer patterns, where names would not fit on a kernel's
    // command line.
    let tails: Vec<&str> = job
        .filter
        .split(',')
        .filter_map(|pattern| Some(pattern.split_once("selftests.")?.1))
        .collect();
    let by_tails = |name: &&&str| tails.iter().any(|tail| ktest::glob::matches(tail, name));
    let words = if names.len() == all.len() {
        String::new()
    } else if all.iter().filter(by_tails).eq(&names) {
        tails.join(" ")
    } else {
        names.join(" ")
    };
    (!names.is_empty()).then_some(words)
}

/// What of a line follows the last control sequence: firmware leaves some, without an end of the
/// line, before the first name.
fn text(line: &str) -> &str {
    let Some((_, sequence)) = line.rsplit_once('\x1b') else {
        return line;
    };
    let last = sequence.find(|byte: char| byte.is_ascii_alphabetic());
    last.map_or("", |at| &sequence[at + 1..])
}

/// The outcome of a test on Quire's usual machine, which has all that Linux has: a test that is
/// skipped for another reason than the machine would never run.
fn outcome_here(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Skipped(why) if !why.ends_with("on this machine") => {
            Outcome::Failed(format!("skipped here, where it must run: {why}"))
        }
        other => other,
    }
}

/// Reports results as they arrive.
struct Results<'a> {
    job: &'a Job<'a>,
    prefix: String,
    transcript: Transcript,
    reported: usize,
}

impl<'a> Results<'a> {
    fn new(job: &'a Job<'a>, prefix: String) -> Self {
        Results {
            job,
            prefix,
            transcript: Transcript::default(),
            reported: 0,
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.transcript.feed(bytes);
        for line in &self.transcript.done[self.reported..] {
            let mut outcome = line.outcome();
            if self.prefix.starts_with("user.") {
                outcome = outcome_here(outcome);
            }
            let name = format!("{}.{}", self.prefix, line.name);
            self.job.add(name, outcome, line.duration);
        }
        self.reported = self.transcript.done.len();
    }

    /// 1 when a test failed, else 0.
    fn expected_status(&self) -> u8 {
        self.transcript
            .done
            .iter()
            .any(|test: &Ended| !test.ok)
            .into()
    }

    /// A suite that does not get to its end, or ends with a status that its results do not explain,
    /// has failed as such.
    fn end(&self, how: &str, sound: bool, text: &str) {
        if !sound || !self.transcript.complete() {
            let why = format!("the suite ended with {how}\n{text}");
            self.job
                .report
                .add(format!("{}.end", self.prefix), Outcome::Failed(why), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_are_no_names() {
        assert_eq!(text("\x1b[2J\x1b[01;01Hmap_reads_zero"), "map_reads_zero");
        assert_eq!(text("map_reads_zero"), "map_reads_zero");
        assert_eq!(text("\x1b[0"), "");
    }

    #[test]
    fn only_the_machine_excuses_a_test() {
        let skipped = |why: &str| outcome_here(Outcome::Skipped(why.to_owned()));
        let excused = skipped("no segment registers on this machine");
        assert!(matches!(excused, Outcome::Skipped(_)));
        let never_runs = skipped("no MADV_COLLAPSE here");
        assert!(matches!(never_runs, Outcome::Failed(_)));
        assert!(matches!(outcome_here(Outcome::Passed), Outcome::Passed));
    }
}
