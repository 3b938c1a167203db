//! What a run takes from the network, brought before anything is built, with a time of its own.
//! What cannot be had is said again by the test that lacks it.
use super::job::Job;
use super::programs::foreign;
use super::unit;
use anyhow::Result;
use std::process::Command;
use std::time::Instant;
use tools::host::arch::Arch;
use tools::host::{debian, install, progress, workspace};
use tools::machine::limine;

/// Brings what the wanted tests of these machines need.
pub fn bring(job: &Job<'_>, arches: &[Arch], no_install: bool) -> Result<()> {
    let started = Instant::now();
    install::ensure_qemu(arches, no_install)?;
    let mut crates = Command::new("cargo");
    crates
        .current_dir(workspace::root())
        .args(["fetch", "--quiet", "--locked"]);
    let mut lacking = Vec::new();
    lacking.extend(progress::step("fetching crates", &mut crates).err());
    for &arch in arches {
        let each = |words: &str| {
            let names = [1, 4].map(|cpus| unit::name("user", arch, cpus));
            names.map(|name| format!("{name}.{words}"))
        };
        if each("foreign.").iter().any(|names| job.may_want(names)) {
            lacking.extend(foreign::bring(arch).err());
        }
        if each("programs.stress_ng")
            .iter()
            .any(|names| job.may_want(names))
        {
            lacking.extend(debian::root(arch, "stress-ng", &["stress-ng"]).err());
        }
    }
    if ["way.q35-", "way.virt-"]
        .iter()
        .any(|names| job.may_want(names))
    {
        lacking.extend(limine::folder().err());
    }
    for why in lacking {
        eprintln!("run.sh: {why:#}");
    }
    let seconds = started.elapsed().as_secs();
    if seconds > 1 {
        eprintln!("run.sh: downloads took {seconds} s");
    }
    Ok(())
}
