//! The first line of a result: what was measured with what.
use super::Kernels;
use super::counted::Counting;
use super::record::{Job, Programs};
use anyhow::{Context, Result};
use cpio::newc::Reader;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::process::Command;
use tools::args::Side;
use tools::host::workspace;
use tools::machine::linux::sha256;
use tools::machine::qemu::{Console, Files};

/// The hash of each program in the one archive that both kernels of a machine get.
pub fn programs(kernels: &Kernels) -> Result<Programs> {
    let mut programs = Programs::new();
    for (arch, built) in &kernels.built {
        let archive = fs::read(&built.initramfs)
            .with_context(|| format!("cannot read {}", built.initramfs.display()))?;
        for (path, content) in files(&archive)? {
            if let Some(name) = path.strip_prefix("bin/") {
                programs.insert((*arch, name.to_owned()), sha256(&content));
            }
        }
    }
    Ok(programs)
}

/// The regular files of a newc archive.
fn files(mut archive: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
    const KIND: u32 = 0o170_000;
    const REGULAR: u32 = 0o100_000;
    let mut files = Vec::new();
    loop {
        let mut reader = Reader::new(archive)?;
        if reader.entry().is_trailer() {
            return Ok(files);
        }
        let mut content = Vec::new();
        reader.read_to_end(&mut content)?;
        if reader.entry().mode() & KIND == REGULAR {
            files.push((reader.entry().name().to_owned(), content));
        }
        archive = reader.finish()?;
    }
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
        .map(|group| json!({"program": group.line, "mem_mib": group.mib, "cpus": group.cpus}))
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
    let group = job.group;
    let line = kernels.program(&group.line);
    let machine = kernels.machine(job.arch, job.side, group.mib, group.cpus, &line)?;
    let arguments = machine.arguments(Console::Pipes, &Files::default());
    let arguments = arguments.iter().map(|word| word.to_string_lossy());
    let mut line = json!({
        "image_sha256": sha256(&fs::read(&machine.image)?),
        "command_line": machine.command_line,
        "qemu": arguments.collect::<Vec<_>>(),
    });
    let linux = kernels.linux.iter().find(|kernel| kernel.arch == job.arch);
    line["from"] = match (job.side, linux) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use tools::machine::initramfs::Archive;

    #[test]
    fn regular_files_of_an_archive() {
        let mut archive = Archive::default();
        archive.directory("bin").unwrap();
        archive.file("bin/bench", 0o755, b"abc").unwrap();
        archive.link("bin/ls", "sh").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(
            files(&bytes).unwrap(),
            [("bin/bench".to_owned(), b"abc".to_vec())]
        );
        assert!(files(b"0707").is_err());
    }
}
