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
