//! A solution in the simulated machine, and in a kernel on QEMU: whether nothing is wrong there,
//! and what it costs.
use super::host::{self, Place, Program};
use super::list::Lab;
use super::points;
use super::sandbox::Sandbox;
use super::seams;
use anyhow::{Context, Result};
use measure::bench::{self, cells::Cells, floor};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::workspace::Temporary;
use tools::machine::build::{self, Built};
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

/// For the walks in the simulated machine, of a CPU.
const WALKS: Duration = Duration::from_secs(200);

/// The simulated machine and the kernels with the code of one lab or several, of which each runs
/// one at a time. They are built when they are asked for first.
pub struct Machines<'a> {
    labs: &'a [&'a Lab],
    /// The folder of a student's files, or `answer`: in the folder of each lab.
    from: &'a Path,
    sandbox: Sandbox,
    /// Whose simulated machine is used, if not one of these labs alone.
    others: Option<&'a Machines<'a>>,
    walks: OnceCell<Result<Program, String>>,
    kernels: [OnceCell<Kernel>; 2],
}

impl<'a> Machines<'a> {
    /// With the files of a folder, or with `answer` those of each lab.
    pub fn new(labs: &'a [&'a Lab], from: &'a Path, sandbox: Sandbox) -> Self {
        let (walks, kernels) = Default::default();
        Machines {
            labs,
            from,
            sandbox,
            others: None,
            walks,
            kernels,
        }
    }

    /// Kernels with the code of these labs, and the simulated machine of others, which has it, too.
    pub fn beside(others: &'a Machines<'a>, labs: &'a [&'a Lab]) -> Self {
        Machines {
            others: Some(others),
            ..Machines::new(labs, others.from, others.sandbox)
        }
    }

    /// Random walks of the model with a lab's code, on one format of page tables; the first wrong
    /// step in words, and the shortest way to it. There are `cases` of each kind, or as many as the
    /// model has.
    pub fn walks(&self, lab: &Lab, arch: Arch, cases: Option<u32>) -> Result<Option<String>> {
        if let Some(others) = self.others {
            return others.walks(lab, arch, cases);
        }
        let features = format!("--features={}", self.features());
        let build = [
            "test",
            "--no-run",
            "--package=arch-sim",
            "--test=model",
            &features,
        ];
        let program = match once(&self.walks, || {
            host::program(self.from, self.sandbox, &build)
        })? {
            Ok(program) => program,
            Err(error) => return Ok(Some(error.clone())),
        };
        let test = format!("play::lab::{arch}");
        let cases = cases.map(|cases| cases.to_string());
        let mut variables = vec![("LAB", self.word(lab))];
        variables.extend(cases.as_deref().map(|cases| ("LAB_CASES", cases)));
        let done = program.run_with(&variables, &[&test, "--exact"], WALKS)?;
        Ok(match done.success {
            Some(true) => None,
            Some(false) => Some(shortest(&done.lines)),
            None => Some(format!("it had not ended after {} s", WALKS.as_secs())),
        })
    }

    /// What the switch `lab` is set to for a lab: `on`, as students do, where it is the only one.
    pub fn word(&self, lab: &Lab) -> &'static str {
        match self.labs {
            [_] => "on",
            _ => lab.feature,
        }
    }

    /// The kernel of a machine.
    pub fn kernel(&self, arch: Arch) -> Result<&Kernel> {
        once(&self.kernels[arch as usize], || {
            Kernel::build(&self.features(), self.from, self.sandbox, arch)
        })
    }

    fn features(&self) -> String {
        let features = self.labs.iter().map(|lab| format!("lab-{}", lab.feature));
        features.collect::<Vec<_>>().join(",")
    }
}

/// What a cell has, or gets now.
fn once<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    match cell.get() {
        Some(made) => Ok(made),
        None => make().map(|made| cell.get_or_init(|| made)),
    }
}

/// What the test says of its shortest failing case.
fn shortest(lines: &[String]) -> String {
    let from = lines
        .iter()
        .position(|line| line.contains("the shortest case"));
    let lines = from.map_or(lines, |at| &lines[at..]);
    let lines = lines
        .iter()
        .take_while(|line| !line.starts_with("note:"))
        .take(40);
    let lines = lines.map(|line| format!("{}\n", line.trim_end()));
    host::named(&lines.collect::<String>())
}

/// A kernel with solutions.
pub struct Kernel {
    arch: Arch,
    built: Built,
    /// Where its files are.
    _folder: Temporary,
}

impl Kernel {
    fn build(features: &str, from: &Path, sandbox: Sandbox, arch: Arch) -> Result<Kernel> {
        let folder = Temporary::folder("lab")?;
        let place = Place::with(from)?;
        let close = |command| sandbox.build(command, folder.path(), host::OF_BUILD);
        let with = build::WithLabs {
            checkout: &seams::copy()?,
            target: &seams::builds(),
            features,
            from: place.from(),
            close: &close,
        };
        let built = build::with_labs(arch, &with, folder.path())?;
        Ok(Kernel {
            arch,
            built,
            _folder: folder,
        })
    }

    /// Runs the lab's program, with the switch `lab` set to a word, for `limit` of a CPU's time at
    /// most; what went wrong.
    pub fn check(&self, lab: &Lab, word: &str, limit: Duration) -> Result<Option<String>> {
        // With all folio sizes: else there is nothing to choose.
        let words = format!("lab={word}{} thp_anon=16K-2M:always", lab.words);
        let mut machine = bench::of_quire(self.arch, &self.built, "1G", &words, lab.program);
        machine.smp = lab.cpus;
        let boot = boot(machine, limit)?;
        Ok(match boot.end {
            End::Status(0) => None,
            end => Some(why(&boot.text, end)),
        })
    }

    /// Instructions and counters of the lab's operations, of which each may take `limit` of a CPU's
    /// time, or why there are none.
    pub fn cost(&self, lab: &Lab, word: &str, limit: Duration) -> Result<Result<Cells, String>> {
        let mut cells = Cells::new();
        let words = format!("lab={word}{}", lab.words);
        for (op, sizes) in lab.cost {
            for kb in *sizes {
                let program = format!("bench --op {op} --size {kb}");
                let machine = bench::of_quire(self.arch, &self.built, "1G", &words, &program);
                let boot = boot(machine, limit)?;
                match bench::cells::parse(&boot.text) {
                    Ok(some) => cells.extend(some),
                    Err(_) => return Ok(Err(why(&boot.text, boot.end))),
                }
            }
        }
        Ok(Ok(cells))
    }
}

/// Boots, and waits for the end, for `limit` of a CPU's time: what else the computer does meanwhile
/// is not the student's fault.
fn boot(mut machine: Machine, limit: Duration) -> Result<console::Boot> {
    machine.cpu_time = Some(limit);
    let silence = console::SILENCE * 10;
    console::watch_patiently(&machine, limit * host::PATIENCE, silence, |_| {})
}

/// The kernel's own words for an end, or how it ended.
fn why(console: &str, end: End) -> String {
    let console = host::named(console);
    let panic = console
        .lines()
        .find_map(|line| line.strip_prefix("quire: kernel panic: "));
    let last = || console.lines().rev().find(|line| !line.trim().is_empty());
    match (panic, end) {
        (Some(words), _) => format!("the kernel panicked: {words}"),
        (None, End::Timeout) => {
            let last = last().unwrap_or_default();
            format!("the machine did not end; its last line: {last}")
        }
        (None, end) => format!(
            "the program ended with {end:?}: {}",
            last().unwrap_or_default()
        ),
    }
}

/// What the answer costs, by operation and size.
pub type Costs = BTreeMap<(String, u64), f64>;

/// Reads the answer's costs.
pub fn costs(lab: &Lab, arch: Arch) -> Result<Costs> {
    let path = lab.costs(arch);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let cost = |line: &str| {
        let mut words = line.split(' ');
        let key = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        Some((key, words.next()?.parse().ok()?))
    };
    lines
        .map(|line| cost(line).with_context(|| format!("{}: {line}", path.display())))
        .collect()
}

/// Writes them.
pub fn bless(lab: &Lab, arch: Arch, cells: &Cells) -> Result<()> {
    let mut text =
        "# Guest instructions of the answer, per page or for the call: operation, folio size in kB, \
         count.\n"
            .to_owned();
    for (key, cell) in cells {
        add_line(
            &mut text,
            &format!("{} {} {:.3}\n", key.op, key.kb, cell.figure),
        );
    }
    let path = lab.costs(arch);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Adds a line: of several samples that are alike, one.
fn add_line(text: &mut String, line: &str) {
    if !text.contains(line) {
        *text += line;
    }
}

/// The points that the worst cell leaves of `most`, as what is slow anywhere is slow; and a line
/// for each: its cost, the answer's, the floor, what was counted, and the points where it costs
/// some.
pub fn compared(arch: Arch, cells: &Cells, costs: &Costs, most: f64) -> (f64, String) {
    let (mut worst, mut text) = (most, String::new());
    for (key, cell) in cells {
        let answer = costs.get(&(key.op.clone(), key.kb));
        let got = answer.map_or(0.0, |answer| points::of_cost(most, cell.figure, *answer));
        worst = worst.min(got);
        let left = match got < most {
            true => format!(", which leaves {got:.1} of {most:.1} points"),
            false => String::new(),
        };
        let answer = answer.map_or_else(|| "-".to_owned(), |cost| format!("{cost:.1}"));
        let floor = floor::of(arch, &key.op, key.kb).map_or_else(|| "-".to_owned(), floor::shown);
        let line = format!(
            "{} {} kB: {:.1} instructions {}{left}; the answer {answer}, the floor {floor}; \
             {} faults, {} entry writes, {} account updates\n",
            key.op,
            key.kb,
            cell.figure,
            unit(&key.op),
            cell.counter("pgfault"),
            cell.counter("entry_writes"),
            cell.counter("account_updates"),
        );
        add_line(&mut text, &line);
    }
    (worst, text)
}

/// What the figure of an operation is of.
fn unit(op: &str) -> &'static str {
    match op {
        "mremap" => "for the call",
        _ => "per page",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_speaks_for_itself() {
        let console =
            "boot\n\nquire: kernel panic: lab: order 9 at 0x1000: too far at x.rs:3\nCPU 0";
        assert_eq!(
            why(console, End::Status(101)),
            "the kernel panicked: lab: order 9 at 0x1000: too far at x.rs:3"
        );
        assert!(why("a\nb\n\n", End::Timeout).ends_with("its last line: b"));
        assert!(why("torture: word 3\n", End::Status(1)).ends_with("Status(1): torture: word 3"));
    }
}
