//! The first line of a result: what was measured with what.
use super::driver;
use super::record::{Job, Programs};
use crate::counting::Counting;
use crate::kernels::Kernels;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use tools::args::Side;
use tools::host::workspace;
use tools::machine::linux::sha256;
use tools::machine::qemu::{Console, Files};

/// The hash of each program in the one archive that both kernels of a machine get.
pub fn programs(kernels: &Kernels) -> Result<Programs> {
    let mut programs = Programs::new();
    for (arch, built) in &kernels.built {
        for path in &built.programs {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let bytes = fs::read(path).with_context(|| path.display().to_string())?;
            programs.insert((*arch, name.into_owned()), sha256(&bytes));
        }
    }
    Ok(programs)
}

/// The line: kernels, QEMU and programs of each machine, and each boot's program.
pub fn line(kernels: &Kernels, jobs: &[Job<'_>], programs: &Programs) -> Result<Value> {
    let mut machines = Vec::new();
    for (arch, built) in &kernels.built {
        let mut machine = json!({
            "arch": arch.name(),
            "qemu": qemu_version(arch.qemu()),
            "initramfs_sha256": sha256(&fs::read(&built.initramfs)?),
        });
        let used = jobs
            .iter()
            .map(|job| job.group.line.split(' ').next().unwrap_or_default());
        for name in used.collect::<BTreeSet<_>>() {
            let hash = programs.get(&(*arch, name.to_owned()));
            machine["programs"][name] = hash.map(String::as_str).into();
        }
        for side in Side::ALL {
            if let Some(first) = jobs
                .iter()
                .find(|job| job.arch == *arch && job.side == side)
            {
                machine[side.name()] = kernel(kernels, first)?;
            }
        }
        machines.push(machine);
    }
    let boots = jobs.iter().map(|job| job.group);
    let mut boots: Vec<Value> = boots
        .map(|group| json!({"program": group.line, "mem_mib": group.mib, "cpus": group.cpus, "swaps": group.swaps}))
        .collect();
    boots.dedup();
    let counting = kernels.counting.as_ref().map(Counting::to_value);
    let words = kernels.words.as_str();
    Ok(json!({
        "compare": {"machines": machines, "boots": boots, "counting": counting, "words": words}
    }))
}

/// One kernel, with the command line of its first boot.
fn kernel(kernels: &Kernels, job: &Job<'_>) -> Result<Value> {
    let machine = driver::machine(kernels, job)?;
    let arguments = machine.arguments(Console::Pipes, &Files::default());
    let arguments = arguments.iter().map(|word| word.to_string_lossy());
    let mut line = json!({
        "image_sha256": sha256(&fs::read(&machine.image)?),
        "command_line": machine.command_line,
        "qemu": arguments.collect::<Vec<_>>(),
    });
    if let Some(initramfs) = kernels
        .swap
        .get(&job.arch)
        .filter(|_| job.side == Side::Linux)
    {
        line["swap_initramfs_sha256"] = sha256(&fs::read(initramfs)?).into();
    }
    line["from"] = match (job.side, kernels.linux(job.arch)) {
        (Side::Linux, Some(kernel)) => kernel.origin.as_str().into(),
        _ => commit().into(),
    };
    Ok(line)
}

/// The first line of what the emulator says about itself.
fn qemu_version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::to_owned)
}

/// The commit of this checkout, where git knows it.
fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.current_dir(workspace::root())
        .args(["describe", "--always", "--dirty"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
