//! Installation of missing programs by the system's package manager.
use crate::host::arch::Arch;
use crate::host::{backports, managers, packages};
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// Older QEMUs have neither the microvm nor the CPU features that the kernel uses.
pub const OLDEST_QEMU: u32 = 7;
/// The first QEMU with raspi4b, also the version installed from Debian's backports.
pub const GOOD_QEMU: u32 = 9;

/// Makes sure that the emulators are there; installs them, or prints how.
pub fn ensure_qemu(arches: &[Arch], no_install: bool) -> Result<()> {
    let missing: Vec<Arch> = arches
        .iter()
        .copied()
        .filter(|arch| qemu_version(*arch).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let manager = managers::installed()
        .context("QEMU is missing, and no package manager that run.sh knows is here")?;
    managers::run("QEMU", &commands(manager, &missing), no_install)
}

/// Makes sure that the proof assistant is there; installs it, or prints how.
pub fn ensure_coq(no_install: bool) -> Result<()> {
    if coq_version().is_some() {
        return Ok(());
    }
    packages::ensure(&packages::COQ, false, no_install)?;
    ensure!(coq_version().is_some(), "coqc is still missing");
    Ok(())
}

/// Coq's version, like 8.16.1, when it is installed.
pub fn coq_version() -> Option<String> {
    let output = Command::new("coqc").arg("--version").output().ok()?;
    coq_number(&String::from_utf8_lossy(&output.stdout))
}

/// The number in the first line that has the word "version".
fn coq_number(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("version ")?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    Some(rest[..end].to_owned())
}

/// Major and minor version of the emulator, when it is installed.
pub fn qemu_version(arch: Arch) -> Option<(u32, u32)> {
    let output = Command::new(arch.qemu()).arg("--version").output().ok()?;
    version(&String::from_utf8_lossy(&output.stdout))
}

/// The first `N.M` behind the word "version".
fn version(text: &str) -> Option<(u32, u32)> {
    let (_, rest) = text.split_once("version ")?;
    let mut numbers = rest.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The commands that install the emulators, with sudo when that is needed.
pub fn commands(manager: &str, arches: &[Arch]) -> Vec<Vec<String>> {
    let names = arches
        .iter()
        .flat_map(|arch| packages::qemu(*arch).names(manager));
    let names: Vec<&str> = names.collect();
    match manager {
        "apt-get" => backports::commands(&names, managers::is_root()),
        _ => managers::commands_for(manager, &names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(
            version("QEMU emulator version 10.0.2 (Debian 1:10)"),
            Some((10, 0))
        );
        assert_eq!(version("nothing"), None);
    }

    #[test]
    fn install_commands() {
        let line = |manager| commands(manager, &Arch::ALL).pop().unwrap().join(" ");
        assert!(
            line("dnf").ends_with("dnf install -y qemu-system-x86-core qemu-system-aarch64-core")
        );
        assert_eq!(line("brew"), "brew install qemu");
        assert!(line("apt-get").ends_with("qemu-system-x86 qemu-system-arm"));
    }
}
