//! `./run.sh bench`: what memory operations cost on Quire, in guest instructions, beside what they
//! cost on Linux.
mod ablation;
mod baseline;
pub mod cells;
mod column;
pub mod floor;
pub mod golden;
mod latency;
mod means;
mod moves;
pub mod plan;
mod snapshot;
mod table;
mod target;

use anyhow::{Context, Result, bail};
use cells::Cells;
use column::Column;
use std::fmt::Write;
use std::fs;
use std::time::Duration;
use tools::args::BenchArgs;
use tools::host::arch::Arch;
use tools::host::errors::UsageError;
use tools::host::{install, workspace};
use tools::machine::build::{self, Built};
use tools::machine::console;
use tools::machine::linux::{self, Kernel};
use tools::machine::qemu::Machine;

pub use ablation::stage;
pub use table::differences;

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
    if args.linux.is_some() && arches.len() != 1 {
        return Err(UsageError("--linux goes with one --arch".to_owned()).into());
    }
    plan::check(&args.op, &args.size)?;
    if args.check || args.bless {
        install::ensure_qemu(arches, args.install.no_install)?;
        return golden::run(args);
    }
    let settings = plan::settings(args.set.as_deref())?;
    let image = match &args.linux {
        Some(file) => linux::named(std::slice::from_ref(file), arches)?.pop(),
        None => None,
    };
    let json = args
        .json
        .as_deref()
        .map(|path| workspace::writable("--json", path))
        .transpose()?;
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
        let columns = columns(arch, &built, args, &settings, image.as_ref())?;
        for column in &columns {
            lines += &json_lines(arch, &column.label, None, &column.cells);
        }
        let text = table::render(arch, &baseline::table(arch)?, &columns);
        println!("{text}{}\n", table::summary(&text));
        missed += table::missed(&text);
    }
    if let Some(path) = &json {
        fs::write(path, lines).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(u8::from(missed > 0))
}

/// One run for each value of the switch, and one of Linux where asked for: that first, as it may
/// refuse.
fn columns(
    arch: Arch,
    built: &Built,
    args: &BenchArgs,
    settings: &[String],
    image: Option<&Kernel>,
) -> Result<Vec<Column>> {
    let linux = image.map(|image| on_linux(arch, args, image)).transpose()?;
    let mut columns = Vec::new();
    for words in settings {
        eprintln!("run.sh: measuring Quire on {arch} {words}");
        let label = if words.is_empty() { "Quire" } else { words };
        columns.push(Column {
            label: label.to_owned(),
            linux: false,
            cells: both_boots(args, |mem, program| {
                let mut machine = of_quire(arch, built, mem, words, program);
                machine.smp = args.smp;
                parse(&boot_and_read(&machine)?)
            })?,
        });
    }
    columns.extend(linux);
    if columns.iter().all(|column| column.cells.is_empty()) {
        bail!("none of these operations is measured at any of these sizes");
    }
    Ok(columns)
}

fn on_linux(arch: Arch, args: &BenchArgs, kernel: &Kernel) -> Result<Column> {
    eprintln!("run.sh: measuring Linux on {arch}");
    let boot = |mem: &str, program: &str| {
        let mut machine = counted(arch, mem);
        machine.smp = args.smp;
        machine.image.clone_from(&kernel.image);
        machine.initramfs = Some(workspace::images(arch).join("initramfs.cpio"));
        machine.command_line = linux::words(arch, program);
        let text = boot_and_read(&machine)?;
        if !cells::has_size_controls(&text) {
            bail!(
                "{} has no controls per folio size (/sys/kernel/mm/transparent_hugepage/hugepages-*kB, \
                 Linux 6.8 and later): its figures would be those of its one setting for all sizes",
                kernel.origin
            );
        }
        parse(&text)
    };
    Ok(Column {
        label: "Linux".to_owned(),
        linux: true,
        cells: both_boots(args, boot)?,
    })
}

/// The operations that were asked for, in a machine of 1 GiB, and the one that touches as much in
/// another.
fn both_boots(args: &BenchArgs, boot: impl Fn(&str, &str) -> Result<Cells>) -> Result<Cells> {
    let (large, small): (Vec<&str>, Vec<&str>) = args
        .op
        .iter()
        .map(String::as_str)
        .filter(|op| !plan::PROGRAMS.contains(op))
        .partition(|op| LARGE.contains(op));
    let sizes = |sizes: &[u32]| -> String {
        let words: Vec<String> = sizes.iter().map(u32::to_string).collect();
        format!(" --size {}", words.join(","))
    };
    let mut program = "bench".to_owned();
    if !small.is_empty() {
        let _ = write!(program, " --op {}", small.join(","));
    }
    if !args.size.is_empty() {
        program += &sizes(&args.size);
    }
    let mut cells = Cells::new();
    if args.op.is_empty() || !small.is_empty() {
        cells.extend(boot("1G", &program)?);
    }
    let wanted: &[u32] = if args.size.is_empty() {
        &TOUCH_SIZES
    } else {
        &args.size
    };
    if args.op.is_empty() || !large.is_empty() {
        let ops = if large.is_empty() {
            TOUCH.to_owned()
        } else {
            large.join(",")
        };
        cells.extend(boot("2G", &format!("bench --op {ops}{}", sizes(wanted)))?);
    }
    for (mem, program) in moves::programs(&args.op) {
        cells.extend(boot(mem, program)?);
    }
    let programs = [snapshot::program(&args.op), latency::program(&args.op)];
    for (mem, mut program) in programs.into_iter().flatten() {
        if !args.size.is_empty() {
            program += &sizes(&args.size);
        }
        cells.extend(boot(mem, &program)?);
    }
    Ok(cells)
}

/// Runs the program on Quire, with these words on the kernel's command line.
pub fn quire(arch: Arch, built: &Built, mem: &str, words: &str, program: &str) -> Result<Cells> {
    parse(&quire_says(arch, built, mem, words, program)?)
}

/// The console of such a run.
pub fn quire_says(
    arch: Arch,
    built: &Built,
    mem: &str,
    words: &str,
    program: &str,
) -> Result<String> {
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

/// Boots; the console, with how the machine ended as its last line.
fn boot_and_read(machine: &Machine) -> Result<String> {
    let boot = console::watch_patiently(machine, LIMIT, SILENCE, |_| {})?;
    Ok(format!("{}\nended with {:?}", boot.text, boot.end))
}

fn parse(text: &str) -> Result<Cells> {
    cells::parse(text).with_context(|| text.to_owned())
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
            let args = options::<BenchArgs>(line);
            let seen = std::cell::RefCell::new(Vec::new());
            both_boots(&args, |mem, program| {
                seen.borrow_mut().push(format!("{mem} {program}"));
                Ok(Cells::new())
            })
            .unwrap();
            seen.into_inner()
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
    }
}
