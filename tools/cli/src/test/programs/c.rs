//! C programs of the project's own, built by the host's compilers for glibc and for musl.
use super::{LIMIT, skipped};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tools::host::arch::Arch;
use tools::host::managers::starts;
use tools::host::outcome::Outcome;
use tools::host::workspace::{self, Temporary};
use tools::machine::guest::End;
use tools::machine::qemu::Machine;
use tools::machine::{console, inputs};

/// A program in `proof/c`.
pub struct Source {
    name: &'static str,
    /// Its exit status when all is well.
    ends: u8,
    /// User-mode emulation runs it as a kernel would.
    emulated: bool,
}

pub const LINUX: Source = Source {
    name: "linux",
    ends: 5,
    emulated: true,
};

/// QEMU's user-mode emulation has no robust lists. What the program prints is the same for every
/// machine.
pub const THREADS: Source = Source {
    name: "threads",
    ends: 6,
    emulated: false,
};

impl Source {
    /// Compiles it for the compiler's machine; the program is kept beside the images for `arch`,
    /// whose tests alone use it.
    fn compile(&self, arch: Arch, compiler: &str) -> Result<PathBuf> {
        let source = workspace::root().join(format!("proof/c/{}.c", self.name));
        let program = workspace::images(arch).join(format!("{}-{compiler}", self.name));
        let compiled = Command::new(compiler)
            .args(["-static", "-O1", "-Wall", "-Werror", "-pthread", "-o"])
            .args([&program, &source])
            .output()
            .with_context(|| format!("cannot start {compiler}"))?;
        ensure!(
            compiled.status.success(),
            "{compiler}: {}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        Ok(program)
    }

    /// What it prints on this host's Linux, and its exit status; `program` is the one for `arch`.
    fn on_linux(&self, arch: Arch, program: &Path) -> Result<Option<(String, u8)>> {
        if self.emulated || std::env::consts::ARCH == arch.name() {
            return on_linux(arch, program);
        }
        let host = Arch::ALL
            .into_iter()
            .find(|arch| arch.name() == std::env::consts::ARCH);
        match host.filter(|_| starts("gcc")) {
            Some(host) => on_linux(host, &self.compile(arch, "gcc")?),
            None => Ok(None),
        }
    }
}

/// The program as /init prints the same as on Linux, and ends with the same status.
pub fn check(mut machine: Machine, compiler: &str, source: &Source) -> Result<Outcome> {
    let arch = machine.arch;
    if !starts(compiler) {
        return skipped(&format!("{compiler} is not installed"));
    }
    let program = source.compile(arch, compiler)?;
    let Some((expected, status)) = source.on_linux(arch, &program)? else {
        return skipped("no Linux here that runs the program, to compare with");
    };
    let bytes = std::fs::read(&program)?;
    let archive = Temporary::file("cpio", &inputs::with_init(&bytes)?)?;
    machine.initramfs = Some(archive.path().to_owned());
    machine.command_line = "quiet".to_owned();
    let boot = console::boot(&machine, LIMIT)?;
    ensure!(
        expected.lines().count() > 5 && status == source.ends,
        "the program fails on Linux, with status {status}:\n{expected}"
    );
    if boot.text.contains(&expected) && boot.end == End::Status(status) {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!(
        "ended with {:?}; Linux prints, and ends with {status}:\n{expected}\nQuire prints:\n{}",
        boot.end, boot.text
    )))
}

/// What the program prints on this host's Linux, by user-mode emulation when it is for another
/// machine.
fn on_linux(arch: Arch, program: &Path) -> Result<Option<(String, u8)>> {
    let mut command = if std::env::consts::OS != "linux" {
        return Ok(None);
    } else if std::env::consts::ARCH == arch.name() {
        Command::new(program)
    } else {
        let emulators = [format!("qemu-{arch}-static"), format!("qemu-{arch}")];
        let Some(emulator) = emulators.iter().find(|name| starts(name)) else {
            return Ok(None);
        };
        let mut command = Command::new(emulator);
        command.arg(program);
        command
    };
    let output = command.stdin(Stdio::null()).output()?;
    let status = output
        .status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .context("the program died on Linux")?;
    Ok(Some((String::from_utf8(output.stdout)?, status)))
}
