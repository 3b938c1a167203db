//! `./run.sh compare`: the same program on Quire and on Linux, in turn, on the same machines, and
//! what both cost in guest instructions.
mod counted;
mod driver;
mod header;
mod list;
mod listener;
mod plan;
mod record;
mod results;
mod table;
mod time;

use crate::bench::{self, of_quire};
use anyhow::{Context, Result, bail, ensure};
use counted::Counting;
use record::{Job, Record};
pub use results::{counted, is_blind};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;
use tools::args::{Choice, CompareArgs, Set, Side};
use tools::host::arch::Arch;
use tools::host::progress::Bar;
use tools::host::{install, workspace};
use tools::machine::build::{self, Built};
use tools::machine::console;
use tools::machine::guest;
use tools::machine::linux::{self, Kernel};
use tools::machine::qemu::Machine;

/// Limit for one boot; a hang is noticed by its silence before.
const LIMIT: Duration = Duration::from_secs(3600);
/// Linux boots quietly, and on a busy host that takes minutes.
const SILENCE: Duration = Duration::from_secs(600);

/// Both kernels, for each machine.
struct Kernels {
    built: BTreeMap<Arch, Built>,
    linux: Vec<Kernel>,
    counting: Option<Counting>,
    /// More words for Quire's command line.
    words: String,
}

impl Kernels {
    /// A program's words, with its marks where they are looked at.
    fn program(&self, line: &str) -> String {
        match self.counting {
            Some(_) => format!("{line} --marks yes"),
            None => line.to_owned(),
        }
    }

    /// The machine for such a program: the same for both kernels but for the kernel and its words.
    fn machine(&self, arch: Arch, side: Side, mib: u64, cpus: u32, line: &str) -> Result<Machine> {
        let built = self.built.get(&arch).context("both kernels are built")?;
        let mut machine = of_quire(arch, built, &format!("{mib}M"), &self.words, line);
        machine.initramfs = Some(built.initramfs.clone());
        machine.smp = cpus;
        if side == Side::Linux {
            let kernel = self.linux.iter().find(|kernel| kernel.arch == arch);
            machine
                .image
                .clone_from(&kernel.context("a Linux for each machine")?.image);
            machine.command_line = linux::words(arch, line);
        }
        Ok(machine)
    }
}

/// Measures and prints; the exit status is 1 when a boot failed, and 130 after ctrl-c, which prints
/// what was measured until then.
pub fn compare(args: &CompareArgs) -> Result<u8> {
    let arches = args.machines.arch.arches();
    bench::plan::check(&[], &args.choice.size)?;
    let json = args.json.as_deref();
    let json = json
        .map(|path| workspace::writable("--json", path))
        .transpose()?;
    install::ensure_qemu(arches, args.install.no_install)?;
    let sides: Vec<Side> = Side::ALL
        .into_iter()
        .filter(|side| args.only.is_none_or(|only| only == *side))
        .collect();
    let kernels = Kernels {
        linux: match sides.contains(&Side::Linux) {
            true => linux_kernels(args, arches)?,
            false => Vec::new(),
        },
        built: built(arches)?,
        counting: Counting::of(args, arches)?,
        words: args.append.clone().unwrap_or_default(),
    };
    if let Some(program) = &args.time {
        let smp = match args.choice.smp.as_slice() {
            [] => &[1],
            some => some,
        };
        return time::compare(&kernels, arches, smp, program, args.runs).map(|()| 0);
    }
    let ops = list::parse(&listing(&kernels, arches[0])?)?;
    let groups = plan::groups(&ops, &args.choice)?;
    let jobs = jobs(&groups, arches, &sides);
    let steps = jobs.iter().map(|job| job.group.steps).sum();
    let programs = header::programs(&kernels)?;
    let header = header::line(&kernels, &jobs, &programs)?;
    let file = json.map(File::create).transpose().context("--json")?;
    let order = ops.into_iter().map(|op| op.name).collect();
    let record = Arc::new(Record::new(
        order,
        programs,
        file,
        &header,
        Bar::new("measuring", steps),
    ));
    let last = Arc::clone(&record);
    guest::before_the_end(move || print!("{}", last.interrupt()));
    driver::run(&kernels, &jobs, args.jobs, &record)?;
    let (table, failures) = record.finish()?;
    print!("{table}");
    for failure in &failures {
        eprintln!("run.sh: {failure}");
    }
    Ok(u8::from(!failures.is_empty()))
}

fn linux_kernels(args: &CompareArgs, arches: &[Arch]) -> Result<Vec<Kernel>> {
    let kernels = linux::kernels(&args.linux, arches, args.renew)?;
    for kernel in &kernels {
        eprintln!("run.sh: Linux on {} is {}", kernel.arch, kernel.origin);
    }
    Ok(kernels)
}

fn built(arches: &[Arch]) -> Result<BTreeMap<Arch, Built>> {
    let built = |arch: &Arch| Ok((*arch, build::build(*arch, false)?));
    arches.iter().map(built).collect()
}

/// What the program says that it can measure: asked in a machine, since the host may not run it.
fn listing(kernels: &Kernels, arch: Arch) -> Result<String> {
    let machine = kernels.machine(arch, Side::Quire, 1024, 1, "bench --list")?;
    Ok(console::boot(&machine, console::SILENCE)?.text)
}

/// Both kernels on both machines for each group before the next one.
fn jobs<'a>(groups: &'a [plan::Group], arches: &[Arch], sides: &[Side]) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for group in groups {
        for arch in arches.iter().copied() {
            jobs.extend(sides.iter().map(|side| Job {
                group,
                side: *side,
                arch,
            }));
        }
    }
    jobs
}

/// For the tests: the figures of Quire and of a Linux that was downloaded before, for one operation
/// at one size; none when no such Linux is there.
pub fn with_downloaded(arch: Arch, built: &Built, op: &str, kb: u32) -> Result<Option<[f64; 2]>> {
    let Some(linux) = linux::downloaded(arch)? else {
        return Ok(None);
    };
    let kernels = Kernels {
        built: [(arch, built.clone())].into(),
        linux: vec![linux],
        counting: None,
        words: String::new(),
    };
    let choice = Choice {
        set: Set::Quick,
        op: vec![op.to_owned()],
        size: vec![kb],
        smp: vec![1],
    };
    let groups = plan::groups(&list::parse(&listing(&kernels, arch)?)?, &choice)?;
    let jobs = jobs(&groups, &[arch], &Side::ALL);
    let programs = header::programs(&kernels)?;
    let header = header::line(&kernels, &jobs, &programs)?;
    let record = Record::new(Vec::new(), programs, None, &header, Bar::hidden(0));
    driver::run(&kernels, &jobs, Some(1), &record)?;
    let (table, failures) = record.finish()?;
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    let pair = record.only_pair().with_context(|| table.clone())?;
    match pair.figures {
        [Some(quire), Some(linux)] => Ok(Some([quire, linux])),
        _ => bail!("a kernel has no figure\n{table}"),
    }
}
