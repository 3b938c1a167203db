//! Measures what a report needs and is not there yet: a small set, a file for each command.
use super::{contpte, reclaim};
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use tools::args::ReportArgs;
use tools::host::arch::Arch;
use tools::host::install;

/// The exit status after ctrl-c.
const INTERRUPTED: u8 = 130;

/// A command and the file of its figures.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    file: String,
    words: Vec<String>,
    /// Its option for the file; `None`: the figures are what it prints.
    option: Option<&'static str>,
}

impl Step {
    fn json(file: String, words: &str) -> Step {
        Step {
            file: file + ".jsonl",
            words: words.split(' ').map(str::to_owned).collect(),
            option: Some("--json"),
        }
    }

    fn frames(arch: Arch) -> Step {
        let words = format!("run --arch {arch} --mem 128M --timeout 300 --append");
        let mut step = Step::json(format!("frames-{arch}"), &words);
        step.words.push("quiet quire.noinput -- frames".to_owned());
        step.option = None;
        step
    }
}

/// Sizes and operations that a look needs.
const COUNTED: &str = "--lines --op fault,munmap,fork,cow-byte,dontneed,protect --size 4,64,2048";
const SCALED: &str = "--op beside,cow-seq,cow-rand --size 4,64 --smp 1,2,4";

/// What is measured, the most telling first.
fn steps(arches: &[Arch]) -> Vec<Step> {
    let mut steps = Vec::new();
    let of = |arch, what: &str, command: &str, rest: &str| {
        let words = format!("{command} --arch {arch}{rest}");
        Step::json(format!("{what}-{arch}"), &words)
    };
    for &arch in arches {
        steps.push(of(arch, "compare", "compare", " --set quick"));
        steps.push(Step::frames(arch));
    }
    for &arch in arches {
        let core = match arch {
            Arch::X86_64 => "zen4",
            Arch::Aarch64 => "cortex-a76",
        };
        let rest = format!(" --model {core} {COUNTED}");
        steps.push(of(arch, "counted", "compare", &rest));
        if arch == Arch::Aarch64 {
            for (file, words) in [("contpte-on", ""), ("contpte-off", contpte::OFF)] {
                let command = contpte::command(words, &[contpte::SIZE]);
                let words = command.trim_start_matches("./run.sh ");
                let words = words.trim_end_matches(" --json FILE");
                steps.push(Step::json(file.to_owned(), words));
            }
        }
    }
    for &arch in arches {
        steps.push(of(arch, "scaling", "compare", &format!(" {SCALED}")));
        steps.push(of(arch, "ablation", "bench --ablation", ""));
        steps.push(of(arch, "conflicts", "conflicts", ""));
    }
    steps.push(Step {
        file: "reclaim.csv".to_owned(),
        words: vec!["reclaim".to_owned()],
        option: Some("--csv"),
    });
    steps
}

/// Measures into `folder`; the files that have figures, in order, and the exit status. A file of an
/// earlier report is kept unless `--renew`.
pub fn gather(args: &ReportArgs, folder: &Path) -> Result<(Vec<PathBuf>, u8)> {
    let arches = args.machines.arch.arches();
    install::ensure_qemu(arches, args.install.no_install)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    end_children_with_us();
    let mut files = Vec::new();
    let mut ended = 0;
    let steps = steps(arches);
    for (at, step) in steps.iter().enumerate() {
        let file = folder.join(&step.file);
        if (args.renew || !file.exists()) && ended != INTERRUPTED {
            eprintln!(
                "run.sh: {} of {}: ./run.sh {}",
                at + 1,
                steps.len(),
                step.words.join(" ")
            );
            let status = measure(step, &file)?;
            if OVER.load(Ordering::Relaxed) {
                ended = INTERRUPTED;
            } else if !status.success() {
                eprintln!(
                    "run.sh: {} ended with {status}; the next report tries again",
                    step.words[0]
                );
                ended = 1;
            }
        }
        let unfinished = part(&file);
        files.extend(
            [file, unfinished]
                .into_iter()
                .filter(|file| has_lines(file))
                .take(1),
        );
    }
    Ok((files, ended))
}

/// Runs the command; only a whole measurement gets the file's name.
fn measure(step: &Step, file: &Path) -> Result<ExitStatus> {
    let part = part(file);
    let mut command = Command::new(std::env::current_exe()?);
    command.args(&step.words).stdin(Stdio::null());
    match step.option {
        None => command.stdout(File::create(&part)?),
        Some(option) => command.arg(option).arg(&part).stdout(Stdio::null()),
    };
    // A group of its own: ctrl-c comes once, from this program.
    let mut child = command
        .process_group(0)
        .spawn()
        .context("cannot start this program again")?;
    CHILD.store(child.id() as i32, Ordering::Relaxed);
    if OVER.load(Ordering::Relaxed) {
        end_child();
    }
    let status = child.wait()?;
    CHILD.store(0, Ordering::Relaxed);
    if status.success() {
        fs::rename(&part, file).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(status)
}

/// The file of a measurement that is not whole.
fn part(file: &Path) -> PathBuf {
    file.with_extension("part")
}

/// Whether there is anything to read: a measurement that ended at once leaves none.
fn has_lines(file: &Path) -> bool {
    let text = fs::read(file).unwrap_or_default();
    text.split(|byte| *byte == b'\n')
        .any(|line| line.starts_with(b"{") || line.starts_with(reclaim::BEGINS.as_bytes()))
}

/// Whether a signal came.
static OVER: AtomicBool = AtomicBool::new(false);
/// The process that measures, or 0.
static CHILD: AtomicI32 = AtomicI32::new(0);

fn end_child() {
    if let Some(child) = Pid::from_raw(CHILD.load(Ordering::Relaxed)) {
        // It may have ended by itself.
        let _ = kill_process_group(child, Signal::INT);
    }
}

fn end_children_with_us() {
    let handler = || {
        OVER.store(true, Ordering::Relaxed);
        end_child();
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        eprintln!("run.sh: cannot catch signals: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::collections::BTreeSet;
    use tools::args::{Cli, Command as Parsed};

    #[test]
    fn each_step_is_a_command_with_a_file_of_its_own() {
        let steps = steps(&Arch::ALL);
        for step in &steps {
            let mut words = vec!["run.sh".to_owned()];
            words.extend(step.words.iter().cloned());
            let option = step.option.map(|option| [option, "f"].map(str::to_owned));
            words.extend(option.into_iter().flatten());
            let cli = Cli::try_parse_from(words);
            let cli = cli.unwrap_or_else(|error| panic!("{step:?}: {error}"));
            let runs = matches!(cli.command, Some(Parsed::Run(_)));
            assert_eq!(runs, step.option.is_none(), "{step:?}");
        }
        let files: BTreeSet<&str> = steps.iter().map(|step| step.file.as_str()).collect();
        assert_eq!(files.len(), steps.len());
        assert!(
            self::steps(&[Arch::X86_64])
                .iter()
                .all(|step| !step.file.contains("aarch64"))
        );
    }
}
