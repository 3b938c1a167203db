//! `./run.sh test --machine`: the suite in the kernel, a shell and bad input on every way to boot.
//! `way.WAY.boot.CASE`, `way.WAY.kernel.TEST`, `way.WAY.selftests.TEST`.
mod board;
mod cases;
mod cpus;
mod expect;
mod screen;

use super::job::Job;
use super::unit::Unit;
use super::{kernel, suite};
use anyhow::Result;
use std::sync::Arc;
use tools::args::{Level, TestArgs};
use tools::host::arch::Arch;
use tools::host::install::{self, GOOD_QEMU};
use tools::host::outcome::Outcome;
use tools::host::{packages, words};
use tools::machine::build::Built;
use tools::machine::qemu::{Firmware, Loader, Machine};
use tools::machine::{firmware, limine};

/// A way to boot: its name, QEMU's machine, what loads the kernel.
#[derive(Clone, Copy)]
pub struct Way {
    pub name: &'static str,
    pub arch: Arch,
    machine: &'static str,
    loader: Loader,
}

const fn way(name: &'static str, arch: Arch, machine: &'static str, loader: Loader) -> Way {
    Way {
        name,
        arch,
        machine,
        loader,
    }
}

const BIOS: Loader = Loader::Limine(Firmware::Bios);
const UEFI: Loader = Loader::Limine(Firmware::Uefi);

/// All ways.
pub const WAYS: [Way; 7] = [
    way("q35", Arch::X86_64, "q35", Loader::Direct),
    way("q35-bios", Arch::X86_64, "q35", BIOS),
    way("q35-uefi", Arch::X86_64, "q35", UEFI),
    way("virt", Arch::Aarch64, "virt", Loader::Direct),
    way("virt-uefi", Arch::Aarch64, "virt", UEFI),
    way("raspi3b", Arch::Aarch64, "raspi3b", Loader::Direct),
    way("raspi4b", Arch::Aarch64, "raspi4b", Loader::Direct),
];

/// The ways that `names` (commas between them, or "all") asks for.
pub fn named(names: &str) -> Result<Vec<Way>> {
    let known: Vec<&str> = WAYS.iter().map(|way| way.name).chain(["all"]).collect();
    words::check("--machine", names.split(','), &known)?;
    let asked = |way: &Way| {
        names
            .split(',')
            .any(|name| name == "all" || name == way.name)
    };
    Ok(WAYS.into_iter().filter(asked).collect())
}

/// A unit for each of `ways` that is one of this architecture.
pub fn units<'a>(
    job: &'a Job<'a>,
    ways: &'a [Way],
    arch: Arch,
    built: &Arc<Built>,
    args: &'a TestArgs,
) -> Vec<Unit<'a>> {
    let ours = ways
        .iter()
        .filter(|way| way.arch == arch && args.only != Some(Level::Host));
    let unit = |way: &'a Way| {
        let built = built.clone();
        Unit::new(vec![format!("way.{}.", way.name)], move || {
            run_way(job, way, &built, args)
        })
    };
    ours.map(unit).collect()
}

fn run_way(job: &Job<'_>, way: &Way, built: &Built, args: &TestArgs) -> Result<()> {
    let name = format!("way.{}", way.name);
    if let Some(why) = missing(way) {
        job.report.add(name, Outcome::Skipped(why), None);
        return Ok(());
    }
    let machine = way.machine(built);
    if args.only != Some(Level::User) {
        cases::run(job, way, &machine)?;
        if job.may_want(&format!("{name}.kernel.")) {
            kernel::run_on(job, &format!("{name}.kernel"), machine.clone())?;
        }
    }
    if args.only != Some(Level::Kernel) && job.may_want(&format!("{name}.selftests.")) {
        suite::run_on(job, format!("{name}.selftests"), machine)?;
    }
    Ok(())
}

/// Why a way cannot be tried here.
fn missing(way: &Way) -> Option<String> {
    let (major, _) = install::qemu_version(way.arch)?;
    if way.machine == "raspi4b" && major < GOOD_QEMU {
        return Some(format!("QEMU {major} has no raspi4b"));
    }
    let Loader::Limine(by) = way.loader else {
        return None;
    };
    if !packages::has_xorriso() {
        return Some(format!("no xorriso: {}", packages::XORRISO.how()));
    }
    if by == Firmware::Uefi && firmware::find(way.arch).is_none() {
        return firmware::get(way.arch).err().map(|error| error.to_string());
    }
    limine::folder().err().map(|error| format!("{error:#}"))
}

impl Way {
    fn machine(&self, built: &Built) -> Machine {
        let image = match self.loader {
            Loader::Direct => &built.image,
            Loader::Limine(_) => &built.limine,
        };
        let mut machine = Machine::new(self.arch, image.clone());
        machine.machine = Some(self.machine.to_owned());
        machine.loader = self.loader;
        machine
    }
}
