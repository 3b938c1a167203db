//! What runs in QEMU on the usual machine: the suites, in units.
use super::job::Job;
use super::unit::{Unit, name};
use super::{
    abuse, boot, checked, conflicts, debugger, kernel, labs, plugin, programs, scene, settings,
    shell, stretch, suite,
};
use anyhow::Result;
use std::sync::Arc;
use tools::args::{Level, TestArgs};
use tools::host::arch::Arch;
use tools::machine::build::Built;

/// With how many CPUs a suite runs.
enum With {
    /// With each number of them: a unit for each.
    Each,
    /// The same in one unit: it builds files that are the same for all.
    EachInTurn,
    /// With several.
    Several,
    /// With one: it chooses them itself, or is the same with any number.
    One,
}
use With::{Each, EachInTurn, One, Several};

type Run = fn(&Job<'_>, Arch, &Built, u32) -> Result<()>;

/// A suite of programs on the kernel: the words of its names behind the machine, its CPUs.
type Suite = (&'static [&'static str], With, Run);

const SUITES: [Suite; 13] = [
    (&["selftests"], Each, suite::run),
    (&["abuse"], Each, |job, arch, built, cpus| {
        abuse::run(job, arch, built, cpus);
        Ok(())
    }),
    (&["debug"], Several, |job, arch, _, cpus| {
        checked::run(job, arch, cpus)
    }),
    (
        &["programs", "foreign"],
        EachInTurn,
        |job, arch, built, cpus| {
            programs::run(job, arch, built, cpus);
            Ok(())
        },
    ),
    (&["plugin"], EachInTurn, |job, arch, built, cpus| {
        plugin::run(job, arch, built, cpus);
        Ok(())
    }),
    (&["settings"], One, |job, arch, built, _| {
        settings::run(job, arch, built);
        Ok(())
    }),
    (&["scene"], One, |job, arch, built, _| {
        scene::run(job, arch, built);
        Ok(())
    }),
    (&["boot", "golden"], One, |job, arch, built, _| {
        boot::run(job, arch, built);
        Ok(())
    }),
    (&["stretch"], One, |job, arch, built, _| {
        stretch::run(job, arch, built);
        Ok(())
    }),
    (&["gdb"], One, |job, arch, built, _| {
        debugger::run(job, arch, built);
        Ok(())
    }),
    (&["conflicts"], One, |job, arch, built, _| {
        conflicts::run(job, arch, built);
        Ok(())
    }),
    (&["labs"], One, |job, arch, _, _| {
        labs::run(job, arch);
        Ok(())
    }),
    (&["shell"], One, |job, arch, built, _| {
        shell::run(job, arch, built);
        Ok(())
    }),
];

/// With how many CPUs the suites run if nothing is said.
const CPUS: [u32; 2] = [1, 4];

/// What runs on the usual machine of an architecture.
pub fn of<'a>(job: &'a Job<'a>, arch: Arch, built: &Arc<Built>, args: &TestArgs) -> Vec<Unit<'a>> {
    let wants = |level| args.only.is_none_or(|only| only == level);
    let all = args.smp.map_or(CPUS.to_vec(), |cpus| vec![cpus]);
    let unit = |names: Vec<String>, cpus: Vec<u32>, run: Run| {
        let built = built.clone();
        Unit::new(names, move || {
            let mut cpus = cpus.into_iter();
            cpus.try_for_each(|cpus| run(job, arch, &built, cpus))
        })
    };
    let mut units = Vec::new();
    for &cpus in all.iter().filter(|_| wants(Level::Kernel)) {
        let names = vec![name("kernel", arch, cpus) + "."];
        units.push(unit(names, vec![cpus], kernel::run));
    }
    for (suites, with, run) in SUITES.iter().filter(|_| wants(Level::User)) {
        let named = |cpus: &u32| {
            let named = |suite: &&str| format!("{}.{suite}.", name("user", arch, *cpus));
            suites.iter().map(named).collect::<Vec<_>>()
        };
        let fits = |cpus: &&u32| match with {
            Each | EachInTurn => true,
            Several => **cpus > 1,
            One => **cpus == 1,
        };
        let cpus: Vec<u32> = all.iter().filter(fits).copied().collect();
        match with {
            EachInTurn => units.push(unit(cpus.iter().flat_map(named).collect(), cpus, *run)),
            _ => units.extend(cpus.iter().map(|one| unit(named(one), vec![*one], *run))),
        }
    }
    units
}
