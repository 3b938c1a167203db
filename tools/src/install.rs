//! Installation of missing programs by the system's package manager.
use crate::arch::Arch;
use crate::{backports, packages};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// Older QEMUs have neither the microvm nor the CPU features that the kernel uses.
pub const OLDEST_QEMU: u32 = 7;
/// The first QEMU with raspi4b, also the version installed from Debian's backports.
pub const GOOD_QEMU: u32 = 9;

/// The supported package managers, by their command.
pub const MANAGERS: [&str; 5] = ["apt-get", "dnf", "pacman", "apk", "brew"];

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
    let manager =
        manager().context("QEMU is missing, and no package manager that run.sh knows is here")?;
    run("QEMU", &commands(manager, &missing), no_install)
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

/// The commands that install `packages`, with sudo when that is needed; duplicates are left out.
pub fn commands_for(manager: &str, packages: &[&str]) -> Vec<Vec<String>> {
    commands_as(manager, packages, is_root())
}

/// [`commands_for`] with or without sudo.
pub fn commands_as(manager: &str, packages: &[&str], root: bool) -> Vec<Vec<String>> {
    let lines: &[&str] = match manager {
        "apt-get" => &[
            "apt-get update",
            "apt-get install -y --no-install-recommends",
        ],
        "dnf" => &["dnf install -y"],
        "pacman" => &["pacman -S --needed --noconfirm"],
        "apk" => &["apk add"],
        _ => &["brew install"],
    };
    let words = |line: &&str| line.split(' ').map(str::to_owned).collect();
    let mut commands: Vec<Vec<String>> = lines.iter().map(words).collect();
    if let Some(install) = commands.last_mut() {
        let mut seen = BTreeSet::new();
        let new = packages.iter().filter(|name| seen.insert(**name));
        install.extend(new.map(|&name| name.to_owned()));
    }
    match manager {
        "brew" => commands,
        _ if root => commands,
        _ => commands.into_iter().map(with_sudo).collect(),
    }
}

/// Prints the commands and, unless `no_install`, runs them.
pub fn run(what: &str, commands: &[Vec<String>], no_install: bool) -> Result<()> {
    for command in commands {
        eprintln!("run.sh: {}", command.join(" "));
        if no_install {
            continue;
        }
        let status = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::inherit())
            .stdout(std::io::stderr())
            .status();
        if !status
            .with_context(|| format!("cannot start {}", command[0]))?
            .success()
        {
            bail!("{} failed", command.join(" "));
        }
    }
    if no_install {
        bail!(
            "{what} is missing; the commands above install it (not run, because of --no-install)"
        );
    }
    Ok(())
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

/// This system's package manager.
pub fn manager() -> Option<&'static str> {
    MANAGERS.iter().copied().find(|name| starts(name))
}

/// Whether a program is installed: runs it with `--version`.
pub fn starts(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// The commands that install the emulators, with sudo when that is needed.
pub fn commands(manager: &str, arches: &[Arch]) -> Vec<Vec<String>> {
    let names = arches
        .iter()
        .flat_map(|arch| packages::qemu(*arch).names(manager));
    let names: Vec<&str> = names.collect();
    match manager {
        "apt-get" => backports::commands(&names, is_root()),
        _ => commands_for(manager, &names),
    }
}

/// Commands as one line for a shell.
pub fn line(commands: &[Vec<String>]) -> String {
    let lines: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
    lines.join(" && ")
}

/// The same by sudo.
pub fn with_sudo(command: Vec<String>) -> Vec<String> {
    [vec!["sudo".to_owned()], command].concat()
}

/// Whether this user may install.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
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
