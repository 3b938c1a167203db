//! Long commands: no output when they are quick, progress when not, all output when they fail.
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Nothing is printed for steps that end sooner.
const PATIENCE: Duration = Duration::from_secs(2);
/// Without a terminal, progress of a running step is printed at this interval.
const AGAIN: Duration = Duration::from_secs(30);

/// Runs a command to its end and returns its standard output. Its standard error is shown only when
/// it fails.
pub fn step(label: &str, command: &mut Command) -> Result<Vec<u8>> {
    step_or(label, command, |_| Ok(false))
}

/// As [`step`]; when the command fails, `heal` gets its standard error and may remove the cause:
/// `true` runs it once more.
pub fn step_or(
    label: &str,
    command: &mut Command,
    heal: impl FnOnce(&str) -> Result<bool>,
) -> Result<Vec<u8>> {
    let (mut status, mut output, mut errors) = watch(label, command)?;
    if !status.success() && heal(&errors)? {
        (status, output, errors) = watch(label, command)?;
    }
    if !status.success() {
        eprint!("{errors}");
        bail!("{label} failed ({status})");
    }
    Ok(output)
}

fn watch(
    label: &str,
    command: &mut Command,
) -> Result<(std::process::ExitStatus, Vec<u8>, String)> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{label}: cannot start {program}"))?;
    let mut stdout = child.stdout.take().context("piped above")?;
    let stderr = child.stderr.take().context("piped above")?;
    let output = std::thread::spawn(move || {
        let mut output = Vec::new();
        stdout.read_to_end(&mut output).map(|_| output)
    });
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            if send
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                return;
            }
        }
    });
    let mut errors = String::new();
    let mut said = Said::new(label);
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                said.line(&line);
                errors.push_str(&line);
                errors.push('\n');
            }
            Err(mpsc::RecvTimeoutError::Timeout) => said.late(),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait()?;
    let output = output
        .join()
        .map_err(|_| anyhow::anyhow!("{label}: the reader of its output died"))??;
    Ok((status, output, errors))
}

/// What is shown of one step: a spinner on a terminal, one line elsewhere.
struct Said {
    label: String,
    spinner: Option<ProgressBar>,
    /// The last line of the command.
    last: String,
    started: Instant,
    /// When a line is due without a terminal.
    due: Duration,
}

impl Said {
    fn new(label: &str) -> Self {
        let spinner = std::io::stderr().is_terminal().then(|| spinner(label));
        Said {
            label: label.to_owned(),
            spinner,
            last: String::new(),
            started: Instant::now(),
            due: PATIENCE,
        }
    }

    fn line(&mut self, line: &str) {
        self.last = line.trim().chars().take(70).collect();
        match &self.spinner {
            Some(spinner) => spinner.set_message(format!("{}  {}", self.label, self.last)),
            None => self.late(),
        }
    }

    fn late(&mut self) {
        let passed = self.started.elapsed();
        if self.spinner.is_some() || passed < self.due {
            return;
        }
        match self.due {
            PATIENCE => eprintln!("run.sh: {} ...", self.label),
            _ => eprintln!(
                "run.sh: {}, {} s  {}",
                self.label,
                passed.as_secs(),
                self.last
            ),
        }
        self.due = passed + AGAIN;
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}

/// Does `work`, which prints nothing, with the progress of a [`step`].
pub fn during<T>(label: &str, work: impl FnOnce() -> T) -> T {
    let (end, ended) = mpsc::channel::<()>();
    let mut said = Said::new(label);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                said.late();
            }
        });
        let done = work();
        drop(end);
        done
    })
}

/// A spinner on standard error with elapsed time.
pub fn spinner(label: &str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
        spinner.set_style(style);
    }
    spinner.set_message(label.to_owned());
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// Progress of many steps of about the same length, with an estimate of the time left: a bar on a
/// terminal, a line now and then elsewhere.
pub struct Bar {
    label: String,
    bar: Option<ProgressBar>,
    /// Whether lines are printed instead.
    lines: bool,
    steps: u64,
    done: u64,
    started: Instant,
    /// When the next line is due.
    due: Duration,
}

impl Bar {
    /// Begins.
    pub fn new(label: &str, steps: u64) -> Bar {
        let terminal = std::io::stderr().is_terminal();
        Bar {
            label: label.to_owned(),
            bar: terminal.then(|| bar(label, steps)),
            lines: !terminal,
            due: AGAIN,
            ..Bar::hidden(steps)
        }
    }

    /// One that prints nothing, for tests.
    pub fn hidden(steps: u64) -> Bar {
        Bar {
            label: String::new(),
            bar: None,
            lines: false,
            steps,
            done: 0,
            started: Instant::now(),
            due: Duration::MAX,
        }
    }

    /// So many steps more are done.
    pub fn step(&mut self, steps: u64) {
        self.done += steps;
        let passed = self.started.elapsed();
        let left = left(passed, self.done, self.steps);
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
            bar.set_message(left);
        } else if self.lines && passed >= self.due {
            let percent = 100 * self.done / self.steps.max(1);
            eprintln!("run.sh: {}: {percent} %, {left}", self.label);
            self.due = passed + AGAIN;
        }
    }

    /// Takes it from the terminal.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// How long what is left takes, in words.
fn left(passed: Duration, done: u64, steps: u64) -> String {
    if done == 0 {
        return "just begun".to_owned();
    }
    let left = passed.as_secs_f64() * steps.saturating_sub(done) as f64 / done as f64;
    match left as u64 {
        seconds @ ..60 => format!("about {seconds} s left"),
        seconds => format!("about {} min left", seconds.div_ceil(60)),
    }
}

fn bar(label: &str, steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) =
        ProgressStyle::with_template("{prefix} {wide_bar} {percent} % [{elapsed}] {msg}")
    {
        bar.set_style(style);
    }
    bar.set_prefix(label.to_owned());
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_by_the_steps_so_far() {
        let after = |seconds, done| left(Duration::from_secs(seconds), done, 100);
        assert_eq!(after(5, 0), "just begun");
        assert_eq!(after(60, 10), "about 9 min left");
        assert_eq!(after(60, 61), "about 38 s left");
        assert_eq!(after(60, 101), "about 0 s left");
    }
}
