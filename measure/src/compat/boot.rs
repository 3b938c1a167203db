//! One program on one kernel.
use super::results::{ENDED, Ran};
use super::suite::{Program, Suite};
use crate::kernels::{ZRAM, add_zram};
use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;
use tools::args::Side;
use tools::host::arch::Arch;
use tools::host::workspace::Temporary;
use tools::machine::build::Built;
use tools::machine::console;
use tools::machine::initramfs::default_archive;
use tools::machine::linux::{self, Kernel};
use tools::machine::qemu::Machine;

/// How long a kernel may take to the program's start: Linux's is slow on a busy host.
const START: Duration = Duration::from_secs(120);
/// The memory and the CPUs of a machine.
const MEMORY: &str = "2G";
const CPUS: u32 = 2;
/// What PID 1 runs.
const SCRIPT: &str = "sh /mm/script";

/// Both kernels of one machine, and the tests for it.
pub struct Kernels {
    /// Quire.
    pub quire: Built,
    /// Linux.
    pub linux: Kernel,
    /// The tests.
    pub tests: Suite,
}

impl Kernels {
    /// Runs a program for at most so long.
    pub fn run(&self, side: Side, program: &Program, limit: Duration) -> Result<Ran> {
        match side {
            Side::Quire => on_quire(&self.quire, self.linux.arch, program, limit),
            Side::Linux => {
                let mut machine = Machine::new(self.linux.arch, self.linux.image.clone());
                machine.command_line = linux::words(self.linux.arch, SCRIPT);
                run(machine, &self.quire, program, limit, Some(&self.linux))
            }
        }
    }
}

/// The same on Quire alone.
pub fn on_quire(built: &Built, arch: Arch, program: &Program, limit: Duration) -> Result<Ran> {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.command_line = format!("{ZRAM} quiet quire.noinput -- {SCRIPT}");
    run(machine, built, program, limit, None)
}

/// Boots with a program and the [`script`] beside those of `built`, and so that this Linux swaps,
/// if it is of a package.
fn run(
    mut machine: Machine,
    built: &Built,
    program: &Program,
    limit: Duration,
    linux: Option<&Kernel>,
) -> Result<Ran> {
    let mut archive = default_archive(&built.programs)?;
    archive.directory("mm")?;
    for path in &program.files {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        let name = path.file_name().unwrap_or_default().display();
        archive.file(&format!("mm/{name}"), 0o755, &bytes)?;
    }
    archive.file("mm/script", 0o644, script(program).as_bytes())?;
    let mut archive = archive.finish()?;
    if let Some(linux) = linux.filter(|linux| linux.has_modules()) {
        add_zram(linux, &mut archive)?;
    }
    let archive = Temporary::file("cpio", &archive)?;
    machine.mem = MEMORY.to_owned();
    machine.extra = ["-cpu", cpu(machine.arch)].map(str::to_owned).to_vec();
    machine.smp = CPUS;
    machine.initramfs = Some(archive.path().to_owned());
    let limit = limit + START;
    let boot = console::boot_patiently(&machine, limit)?;
    Ok(Ran::of(&boot))
}

/// A CPU whose page tables have four levels: Quire's have no more, and Linux takes five where there
/// are.
const fn cpu(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "max,la57=off",
        Arch::Aarch64 => "max,pauth-impdef=on,lpa2=off",
    }
}

/// What the tests' own script prepares, as far as a kernel has it, and swap, which `bench` turns
/// on; then the program.
fn script(program: &Program) -> String {
    format!(
        "mkdir /dev/shm\n\
         mount tmpfs /dev/shm\n\
         mount debugfs /sys/kernel/debug\n\
         echo 256 > /proc/sys/vm/nr_hugepages\n\
         bench --op pageout --size 4 --pages 16 > /dev/null\n\
         cd /mm\n\
         {}\n\
         echo {ENDED}$?\n",
        program.lines
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_ends_with_the_status() {
        let script = script(&Program {
            name: "cow".to_owned(),
            files: Vec::new(),
            lines: "./cow".to_owned(),
        });
        assert!(
            script.ends_with("./cow\necho compat: it ended with $?\n"),
            "{script}"
        );
    }
}
