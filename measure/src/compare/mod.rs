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

use crate::bench;
use crate::kernels::{self, Kernels};
use crate::store::Store;
use anyhow::{Context, Result, bail, ensure};
use plan::Group;
use record::{Job, Record};
use results::Results;
pub use results::{counted, is_blind};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use tools::args::{Choice, CompareArgs, Set, Side};
use tools::host::arch::Arch;
use tools::host::progress::Bar;
use tools::host::{install, workspace};
use tools::machine::build::Built;
use tools::machine::console;
use tools::machine::linux::{self, Kernel};

/// A program's words, with its marks where they are looked at.
fn program(kernels: &Kernels, line: &str) -> String {
    match kernels.counting {
        Some(_) => format!("{line} --marks yes"),
        None => line.to_owned(),
    }
}

/// Measures and prints; the exit status is 1 when a boot failed, and 130 after ctrl-c, which prints
/// what was measured until then.
pub fn compare(args: &CompareArgs) -> Result<u8> {
    let arches = args.machines.arch.arches();
    bench::plan::check(&[], &args.choice.size)?;
    let json = workspace::writable("--json", args.json.as_deref())?;
    install::ensure_qemu(arches, args.install.no_install)?;
    let sides: Vec<Side> = Side::ALL
        .into_iter()
        .filter(|side| args.only.is_none_or(|only| only == *side))
        .collect();
    let mut kernels = Kernels {
        linux: match sides.contains(&Side::Linux) {
            true => linux_kernels(args, arches)?,
            false => Vec::new(),
        },
        built: kernels::built(arches)?,
        counting: counted::counting(args, arches)?,
        words: args.append.clone().unwrap_or_default(),
        swap: BTreeMap::new(),
    };
    if let Some(program) = &args.time {
        let smp = match args.choice.smp.as_slice() {
            [] => &[1],
            some => some,
        };
        return time::compare(&kernels, arches, smp, program, args.runs).map(|()| 0);
    }
    let bar = |steps| Bar::new("measuring", steps);
    let (groups, record) = planned(&mut kernels, &args.choice, arches, &sides, json, bar)?;
    record.store.print_on_a_signal(table::render);
    driver::run(&kernels, &jobs(&groups, arches, &sides), args.jobs, &record)?;
    print!("{}", record.store.finish(table::render)?);
    let failures = record
        .store
        .with(|results| std::mem::take(&mut results.failures));
    for failure in &failures {
        eprintln!("run.sh: {failure}");
    }
    Ok(u8::from(!failures.is_empty()))
}

/// The boots for what was chosen, and the record of them, whose file begins with what is measured
/// with what.
fn planned(
    kernels: &mut Kernels,
    choice: &Choice,
    arches: &[Arch],
    sides: &[Side],
    json: Option<PathBuf>,
    bar: impl FnOnce(u64) -> Bar,
) -> Result<(Vec<Group>, Record)> {
    let ops = list::parse(&listing(kernels, arches[0])?)?;
    let groups = plan::groups(&ops, choice)?;
    if groups.iter().any(|group| group.swaps) {
        kernels.swap = kernels::all_with_zram(kernels);
    }
    let jobs = jobs(&groups, arches, sides);
    let steps = jobs.iter().map(|job| job.group.steps).sum();
    let programs = header::programs(kernels)?;
    let header = header::line(kernels, &jobs, &programs)?;
    let file = json.map(File::create).transpose().context("--json")?;
    let store = Store::new(Results::default(), file, bar(steps));
    store.add(&header, |_| {});
    let record = Record {
        order: ops.into_iter().map(|op| op.name).collect(),
        programs,
        store: Arc::new(store),
    };
    Ok((groups, record))
}

fn linux_kernels(args: &CompareArgs, arches: &[Arch]) -> Result<Vec<Kernel>> {
    let kernels = linux::kernels(&args.linux, arches, args.renew)?;
    for kernel in &kernels {
        eprintln!("run.sh: Linux on {} is {}", kernel.arch, kernel.origin);
    }
    Ok(kernels)
}

/// What the program says that it can measure: asked in a machine, since the host may not run it.
fn listing(kernels: &Kernels, arch: Arch) -> Result<String> {
    let machine = kernels.machine(arch, Side::Quire, 1024, 1, "bench --list")?;
    Ok(console::boot(&machine, console::SILENCE)?.text)
}

/// Both kernels on both machines for each group before the next one.
fn jobs<'a>(groups: &'a [Group], arches: &[Arch], sides: &[Side]) -> Vec<Job<'a>> {
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
    let mut kernels = Kernels {
        built: [(arch, built.clone())].into(),
        linux: vec![linux],
        counting: None,
        words: String::new(),
        swap: BTreeMap::new(),
    };
    let choice = Choice {
        set: Set::Quick,
        op: vec![op.to_owned()],
        size: vec![kb],
        smp: vec![1],
    };
    let (groups, record) = planned(
        &mut kernels,
        &choice,
        &[arch],
        &Side::ALL,
        None,
        Bar::hidden,
    )?;
    driver::run(
        &kernels,
        &jobs(&groups, &[arch], &Side::ALL),
        Some(1),
        &record,
    )?;
    let table = record.store.finish(table::render)?;
    let (failures, pair) = record.store.with(|results| {
        let mut pairs = results.pairs.values();
        let pair = pairs.next().copied().filter(|_| pairs.next().is_none());
        (results.failures.join("\n"), pair)
    });
    ensure!(failures.is_empty(), "{failures}");
    let pair = pair.with_context(|| table.clone())?;
    match pair.figures {
        [Some(quire), Some(linux)] => Ok(Some([quire, linux])),
        _ => bail!("a kernel has no figure\n{table}"),
    }
}
