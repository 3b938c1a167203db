//! One test as a probe: run by itself, with something broken or not.
use super::super::Program;
use super::{CHEAP, LIMIT};
use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io::{BufRead, BufReader, PipeReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tools::host::workers;

/// Of virtual memory, in kB: what is broken may take all there is.
const MEMORY: u32 = 4 << 20;
/// How much longer than its CPU time a test may take, on a busy computer.
const PATIENCE: u32 = 10;
/// How often a test that has found something must pass again without it.
const AGAIN: usize = 2;
/// How a test says which of the breaks it has come to: `reached: N`.
const REACHED: &str = "reached: ";

/// A test.
#[derive(Debug)]
pub struct Probe {
    /// Its full name: `host.CRATE.FILE.TEST`.
    pub name: String,
    test: String,
    program: PathBuf,
    folder: PathBuf,
    /// What it does with nothing broken, once that is known.
    sound: OnceLock<Ran>,
    /// Whether its own program is always broken: `sound` is another one's.
    elsewhere: bool,
}

/// What one run of a test did.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Whether it ended and passed.
    pub passed: bool,
    /// Whether it was ended for its time.
    late: bool,
    /// CPU time, of all its threads.
    pub took: Duration,
    /// The breaks that it has come to.
    pub reached: Vec<usize>,
}

impl Probe {
    /// The tests of some programs; the names of a program's tests begin with `prefix`.
    pub fn of(programs: &[Program], prefix: impl Fn(&Program) -> String) -> Result<Vec<Probe>> {
        let mut probes = Vec::new();
        for program in programs {
            let listed = Command::new(&program.path)
                .args(["--list", "--format", "terse"])
                .output()
                .with_context(|| format!("cannot start {}", program.path.display()))?;
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            let tests = listed
                .lines()
                .filter_map(|line| line.strip_suffix(": test"));
            probes.extend(tests.map(|test| Probe {
                name: format!("{}.{}", prefix(program), test.replace("::", ".")),
                test: test.to_owned(),
                program: program.path.clone(),
                folder: program.folder.clone(),
                sound: OnceLock::new(),
                elsewhere: false,
            }));
        }
        Ok(probes)
    }

    /// Runs it with variables of the environment, for so much CPU time at most.
    fn run(&self, variables: &[(&str, &str)], limit: Duration) -> Result<Ran> {
        let (reader, writer) = std::io::pipe()?;
        let limits = format!(
            "ulimit -c 0; ulimit -v {MEMORY}; ulimit -S -t {}",
            limit.as_secs()
        );
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")])
            .arg(&self.program)
            .args(["--exact", &self.test])
            .envs(variables.iter().copied())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        let started = Instant::now();
        let mut child = command.spawn().context("cannot start a test")?;
        // The command holds the pipe's other end.
        drop(command);
        let output = read(reader, &mut child, started + limit * PATIENCE)?;
        let took = cpu_time(&child).unwrap_or_else(|| started.elapsed());
        let status = child.wait()?;
        let reached = output.lines().filter_map(|line| line.split_once(REACHED));
        Ok(Ran {
            passed: status.success(),
            late: status.signal().is_some(),
            took,
            reached: reached.filter_map(|(_, n)| n.parse().ok()).collect(),
        })
    }

    /// What it does with nothing broken.
    pub fn sound(&self) -> Result<&Ran> {
        if self.sound.get().is_none() {
            let _ = self.sound.set(self.run(&[], LIMIT)?);
        }
        self.sound.get().context("set above")
    }

    /// What it costs with nothing broken was learned elsewhere; `None`: it is taken for sound.
    pub fn is_sound(&mut self, took: Option<Duration>) {
        self.elsewhere = true;
        let _ = self.sound.set(Ran {
            passed: true,
            late: false,
            took: took.unwrap_or(LIMIT),
            reached: Vec::new(),
        });
    }

    /// Whether it takes long, or is not known to be quick.
    pub fn is_costly(&self) -> bool {
        self.sound.get().is_none_or(|ran| ran.took > CHEAP)
    }

    /// Whether it may come to a break.
    pub fn may_reach(&self, number: usize) -> bool {
        let sound = self.sound.get();
        sound.is_none_or(|ran| ran.reached.contains(&number))
    }

    /// Runs it with something broken; whether that is found, and in how much CPU time.
    pub fn finds(&self, variables: &[(&str, &str)]) -> Result<Option<Duration>> {
        let ran = self.run(variables, LIMIT)?;
        if ran.passed || !self.sound()?.passed {
            return Ok(None);
        }
        // What fails now and then finds nothing.
        for _ in 0..AGAIN {
            if !self.elsewhere && !self.run(&[], LIMIT)?.passed {
                eprintln!(
                    "run.sh: {} fails now and then with nothing broken",
                    self.name
                );
                return Ok(None);
            }
        }
        Ok(Some(ran.took))
    }
}

/// Sorts tests by what they cost with nothing broken; those that take long, which are not run to
/// their end for that, come last, and those that fail anyway go.
pub fn cheapest_first(mut probes: Vec<Probe>) -> Result<Vec<Probe>> {
    let ran = workers::map(&probes, workers::cpus(), |probe| {
        let ran = probe.run(&[], CHEAP)?;
        // One that was ended for its time has not failed.
        if !ran.late {
            let _ = probe.sound.set(ran);
        }
        anyhow::Ok(())
    });
    ran.into_iter().collect::<Result<()>>()?;
    let fails = |probe: &Probe| probe.sound.get().is_some_and(|ran| !ran.passed);
    for probe in probes.iter().filter(|probe| fails(probe)) {
        eprintln!("run.sh: {} fails with nothing broken", probe.name);
    }
    probes.retain(|probe| !fails(probe));
    probes.sort_by_key(|probe| {
        let took = probe.sound.get().map(|ran| ran.took);
        (probe.is_costly(), took)
    });
    Ok(probes)
}

/// All that a test prints. It is ended at `end`.
fn read(reader: PipeReader, child: &mut Child, end: Instant) -> Result<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(reader).split(b'\n').map_while(Result::ok);
        // Nobody receives any longer: its time is up.
        lines
            .take_while(|line| send.send(line.clone()).is_ok())
            .count();
    });
    let mut output = String::new();
    loop {
        match receive.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => output += &format!("{}\n", String::from_utf8_lossy(&line)),
            Err(RecvTimeoutError::Disconnected) => return Ok(output),
            Err(RecvTimeoutError::Timeout) => {
                child.kill().context("cannot end a test")?;
                return Ok(output);
            }
        }
    }
}

/// The CPU time of a process that has ended, or is about to, and was not waited for; `None` where
/// no file says so.
fn cpu_time(child: &Child) -> Option<Duration> {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(child)), ended).ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // Behind the name: the state is field 3, user and system time are 14 and 15.
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    Some(Duration::from_millis(1000 / TICKS * ticks))
}

/// Ticks of `/proc/PID/stat` in a second, on every machine that Linux runs on.
const TICKS: u64 = 100;
