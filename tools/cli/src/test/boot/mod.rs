//! Boots with wrong input, or input at a limit; each prints the error on the console and ends with
//! the right status. User mode never panics the kernel, and neither does an archive.
use super::job::Job;
use anyhow::Result;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::build::Built;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

mod cases;
mod figures;
mod frames;
mod sweep;

const LIMIT: Duration = Duration::from_secs(120);

/// One boot and what it must do.
struct Case {
    name: &'static str,
    archive: Option<Vec<u8>>,
    words: &'static str,
    mem: &'static str,
    /// More arguments for QEMU.
    qemu: &'static [&'static str],
    /// All of these are on the console.
    says: Vec<&'static str>,
    status: u8,
}

impl Case {
    fn new(
        name: &'static str,
        archive: Option<Vec<u8>>,
        says: &[&'static str],
        status: u8,
    ) -> Self {
        Case {
            name,
            archive,
            words: "",
            mem: "256M",
            qemu: &[],
            says: says.to_vec(),
            status,
        }
    }
}

/// Runs the boot cases of one architecture.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) {
    match cases::all(arch) {
        Ok(cases) => {
            for case in cases {
                job.case(format!("user.{arch}.boot.{}", case.name), || {
                    check(arch, built, &case)
                });
            }
        }
        Err(error) => job.report.add(
            format!("user.{arch}.boot"),
            Outcome::Failed(format!("{error:#}")),
            None,
        ),
    }
    figures::run(job, arch, built);
    job.case(format!("user.{arch}.boot.frames"), || {
        frames::check(arch, built)
    });
    job.case(format!("user.{arch}.boot.sweep"), || {
        sweep::check(arch, built)
    });
    job.case(format!("user.{arch}.boot.sweep_interrupted"), || {
        sweep::interrupted(arch)
    });
}

fn check(arch: Arch, built: &Built, case: &Case) -> Result<Outcome> {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.mem = case.mem.to_owned();
    machine.command_line = case.words.to_owned();
    machine.extra = case.qemu.iter().map(|&word| word.to_owned()).collect();
    let file = case
        .archive
        .as_ref()
        .map(|bytes| Temporary::file("cpio", bytes))
        .transpose()?;
    machine.initramfs = file.as_ref().map(|file| file.path().to_owned());
    let boot = console::boot(&machine, LIMIT)?;
    if boot.end != End::Status(case.status) {
        let wanted = End::Status(case.status);
        return Ok(Outcome::Failed(format!(
            "ended with {:?}, not with {wanted:?}\n{}",
            boot.end, boot.text
        )));
    }
    match case.says.iter().find(|words| !boot.text.contains(**words)) {
        Some(missing) => Ok(Outcome::Failed(format!(
            "the console does not say {missing:?}\n{}",
            boot.text
        ))),
        None => Ok(Outcome::Passed),
    }
}
