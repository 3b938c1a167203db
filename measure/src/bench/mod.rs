//! `./run.sh bench`: what memory operations cost on Quire, in guest instructions, beside what they
//! cost on Linux.
mod ablation;
pub mod cells;
pub mod floor;
pub mod golden;
pub mod plan;
mod table;
mod target;

use anyhow::{Context, Result, bail};
use cells::{Cells, Column};
use std::fmt::Write;
use std::fs;
use std::time::Duration;
use tools::args::BenchArgs;
use tools::host::arch::Arch;
use tools::host::{install, words, workspace};
use tools::machine::build::{self, Built};
use tools::machine::console::{self, Boot};
use tools::machine::qemu::Machine;

pub use ablation::{SETTINGS, STAGES};
pub use table::{differences, geometric, missed_targets};

/// Limit for one boot; a hang is noticed by its silence before.
const LIMIT: Duration = Duration::from_secs(3600);
/// Linux boots quietly, and on a busy host that takes minutes.
const SILENCE: Duration = Duration::from_secs(600);
/// Needs more memory than the others, and so a machine of its own.
const TOUCH: &str = "touch1g";
/// The same.
const LARGE: [&str; 3] = [TOUCH, "fork1g", "reach1g"];
/// The sizes for which it was promised.
const TOUCH_SIZES: [u32; 2] = [64, 2048];
/// Measures and prints; the exit status is 0 when everything ran and no target was missed.
pub fn bench(args: &BenchArgs) -> Result<u8> {
    let arches = args.machines.arch.arches();
    plan::check(&args.op, &args.size)?;
    if args.check || args.bless {
        install::ensure_qemu(arches, args.install.no_install)?;
        return golden::run(args);
    }
    let settings = plan::settings(args.set.as_deref())?;
    let json = workspace::writable("--json", args.json.as_deref())?;
    install::ensure_qemu(arches, args.install.no_install)?;
    let mut lines = String::new();
    let mut missed = 0;
    for &arch in arches {
        let built = build::build(arch, false)?;
        if args.ablation {
            let (table, cells) = ablation::run(arch, &built, args)?;
            print!("{table}");
            lines += &cells;
            continue;
        }
        let columns = columns(arch, &built, args, &settings)?;
        for column in &columns {
            lines += &json_lines(arch, &column.label, None, &column.cells);
        }
        let text = table::render(arch, &golden::linux(arch)?, &columns);
        println!("{text}{}\n", table::summary(&text));
        missed += table::missed(&text);
    }
    if let Some(path) = &json {
        fs::write(path, lines).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(u8::from(missed > 0))
}

/// One run for each value of the switch.
fn columns(
    arch: Arch,
    built: &Built,
    args: &BenchArgs,
    settings: &[String],
) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    for words in settings {
        eprintln!("run.sh: measuring Quire on {arch} {words}");
        let label = if words.is_empty() { "Quire" } else { words };
        let mut cells = Cells::new();
        for (mem, program) in boots(args) {
            let mut machine = of_quire(arch, built, mem, words, &program);
            machine.smp = args.smp;
            cells.extend(boot_and_read(&machine)?);
        }
        let label = label.to_owned();
        columns.push(Column { label, cells });
    }
    if columns.iter().all(|column| column.cells.is_empty()) {
        bail!("none of these operations is measured at any of these sizes");
    }
    Ok(columns)
}

/// The programs that measure what was asked for, each with the memory of its machine: the
/// operations in 1 GiB, those that touch as much in another one, and the programs beside the bench.
fn boots(args: &BenchArgs) -> Vec<(&'static str, String)> {
    let ops = args.op.iter().map(String::as_str);
    let ops = ops.filter(|op| plan::OPS.contains(op));
    let (large, small): (Vec<&str>, Vec<&str>) = ops.partition(|op| LARGE.contains(op));
    let size = |default: &[u32]| match (args.size.as_slice(), default) {
        ([], []) => String::new(),
        ([], sizes) | (sizes, _) => format!(" --size {}", words::list(sizes)),
    };
    let mut boots = Vec::new();
    if args.op.is_empty() {
        boots.push(("1G", format!("bench{}", size(&[]))));
    } else if !small.is_empty() {
        boots.push(("1G", format!("bench --op {}{}", small.join(","), size(&[]))));
    }
    if args.op.is_empty() || !large.is_empty() {
        let ops = match large.as_slice() {
            [] => TOUCH.to_owned(),
            ops => ops.join(","),
        };
        boots.push(("2G", format!("bench --op {ops}{}", size(&TOUCH_SIZES))));
    }
    for (op, name, mem, by_size) in plan::PROGRAMS {
        let size = if by_size { size(&[]) } else { String::new() };
        if args.op.iter().any(|asked| asked == op) {
            boots.push((mem, name.to_owned() + &size));
        }
    }
    boots
}

/// Runs the program on Quire, with these words on the kernel's command line.
pub fn quire(arch: Arch, built: &Built, mem: &str, words: &str, program: &str) -> Result<Cells> {
    boot_and_read(&of_quire(arch, built, mem, words, program))
}

/// The machine of such a run.
pub fn of_quire(arch: Arch, built: &Built, mem: &str, words: &str, program: &str) -> Machine {
    let mut machine = counted(arch, mem);
    machine.image.clone_from(&built.image);
    machine.command_line = format!("quiet quire.noinput {words} -- {program}");
    machine
}

/// For tests: the same measurement as `bench --op OPS --size SIZES`, with a switch set where
/// `words` says so.
pub fn measure(arch: Arch, built: &Built, words: &str, program: &str) -> Result<Cells> {
    quire(arch, built, "1G", words, program)
}

/// The machine of the baseline.
pub fn counted(arch: Arch, mem: &str) -> Machine {
    let mut machine = Machine::new(arch, Default::default());
    machine.mem = mem.to_owned();
    machine.icount = true;
    let cpu = match arch {
        Arch::X86_64 => "max,erms=off,fsrm=off,vendor=GenuineIntel,family=6,model=85",
        Arch::Aarch64 => "max,pauth=off",
    };
    machine.extra = ["-cpu", cpu].map(str::to_owned).to_vec();
    machine
}

/// Boots until the machine ends; `hear` gets the console as it comes.
pub fn watch(machine: &Machine, hear: impl FnMut(&[u8])) -> Result<Boot> {
    console::watch_patiently(machine, LIMIT, SILENCE, hear)
}

/// Boots, and reads the console; the error has it, and how the machine ended.
fn boot_and_read(machine: &Machine) -> Result<Cells> {
    let boot = watch(machine, |_| {})?;
    cells::parse(&boot.text).with_context(|| format!("{}\nended with {:?}", boot.text, boot.end))
}

/// The lines of a run, each with where it comes from, and the kernel's words where the label does
/// not say them.
fn json_lines(arch: Arch, label: &str, words: Option<&str>, cells: &Cells) -> String {
    let mut text = String::new();
    for (key, cell) in cells {
        let mut line = cell.line.clone();
        line["arch"] = arch.name().into();
        line["run"] = label.into();
        if let Some(floor) = floor::floor(arch, key) {
            line["floor"] = floor.into();
        }
        if let Some(words) = words {
            line["words"] = words.into();
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tools::args::options;

    #[test]
    fn what_needs_more_memory_gets_a_machine_of_its_own() {
        let boots = |line: &str| {
            let boots = boots(&options::<BenchArgs>(line));
            let line = |(mem, program): &(&str, String)| format!("{mem} {program}");
            boots.iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(
            boots("run.sh bench"),
            ["1G bench", "2G bench --op touch1g --size 64,2048"]
        );
        assert_eq!(
            boots("run.sh bench --op fault,munmap --size 4,64"),
            ["1G bench --op fault,munmap --size 4,64"]
        );
        assert_eq!(
            boots("run.sh bench --op touch1g"),
            ["2G bench --op touch1g --size 64,2048"]
        );
        assert_eq!(
            boots("run.sh bench --op snapshot --size 4,64"),
            ["1G snapshot --size 4,64"]
        );
        assert_eq!(
            boots("run.sh bench --op latency,fork --size 64"),
            ["1G bench --op fork --size 64", "1G latency --size 64"]
        );
        assert_eq!(
            boots("run.sh bench --op mremap"),
            ["1G bench --op mremap", "6G moves", "6G gcflip"]
        );
    }
}
