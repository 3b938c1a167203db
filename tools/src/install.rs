//! What the host lacks, and the commands that get it from the system's package manager.
use crate::arch::Arch;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// QEMU before this knows neither the microvm nor the CPU features that the kernel wants.
pub const OLDEST_QEMU: u32 = 7;
/// raspi4b begins here; also what Debian's backports are asked for.
pub const GOOD_QEMU: u32 = 9;

/// The package managers that this program can speak to, by their command.
pub const MANAGERS: [&str; 5] = ["apt-get", "dnf", "pacman", "apk", "brew"];

/// Makes sure that the emulators are there; installs them, or only says how.
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

/// Makes sure that the proof assistant is there; installs it, or only says how.
pub fn ensure_coq(no_install: bool) -> Result<()> {
    if coq_version().is_some() {
        return Ok(());
    }
    let commands = manager()
        .map(coq_commands)
        .filter(|commands| !commands.is_empty())
        .context("coqc is missing; https://rocq-prover.org tells how to install Coq (now Rocq)")?;
    run("Coq", &commands, no_install)?;
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

/// The commands that install Coq; none where the package manager has no such package.
fn coq_commands(manager: &str) -> Vec<Vec<String>> {
    match manager {
        "apt-get" | "dnf" | "pacman" | "brew" => commands_for(manager, &["coq"]),
        _ => Vec::new(),
    }
}

/// The commands that install `packages`, with sudo when that is needed.
pub fn commands_for(manager: &str, packages: &[&str]) -> Vec<Vec<String>> {
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
        install.extend(packages.iter().map(|&name| name.to_owned()));
    }
    match manager {
        "brew" => commands,
        _ => commands.into_iter().map(as_root).collect(),
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

/// Whether a program is here; asks it for its version.
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
    let packages = arches
        .iter()
        .flat_map(|arch| packages(manager, *arch))
        .copied();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut commands = Vec::new();
    let mut install = match manager {
        "apt-get" => {
            let suite = backports();
            if let Some((suite, file, Some(entry))) = &suite {
                // sh -c: the entry goes through tee, because only tee runs as root.
                let write = format!(
                    "printf '%s' '{entry}' | {}tee {file}",
                    if is_root() { "" } else { "sudo " }
                );
                commands.push(vec!["sh".to_owned(), "-c".to_owned(), write]);
                eprintln!("run.sh: this Debian's QEMU is old; taking it from {suite}");
            }
            commands.push(as_root(words("apt-get update")));
            let mut install = words("apt-get install -y --no-install-recommends");
            if let Some((suite, ..)) = suite {
                install.extend(["-t".to_owned(), suite]);
            }
            install
        }
        "dnf" => words("dnf install -y"),
        "pacman" => words("pacman -S --needed --noconfirm"),
        "apk" => words("apk add"),
        _ => words("brew install"),
    };
    install.extend(packages.map(str::to_owned));
    // A package may serve both machines.
    let mut seen = std::collections::BTreeSet::new();
    install.retain(|word| word == "-t" || seen.insert(word.clone()));
    commands.push(if manager == "brew" {
        install
    } else {
        as_root(install)
    });
    commands
}

fn packages(manager: &str, arch: Arch) -> &'static [&'static str] {
    match (manager, arch) {
        ("apt-get", Arch::X86_64) => &["qemu-system-x86"],
        ("apt-get", Arch::Aarch64) => &["qemu-system-arm"],
        ("dnf", Arch::X86_64) => &["qemu-system-x86-core"],
        ("dnf", Arch::Aarch64) => &["qemu-system-aarch64-core"],
        ("pacman", Arch::X86_64) => &["qemu-system-x86"],
        ("pacman", Arch::Aarch64) => &["qemu-system-aarch64"],
        ("apk", Arch::X86_64) => &["qemu-system-x86_64"],
        ("apk", Arch::Aarch64) => &["qemu-system-aarch64"],
        _ => &["qemu"],
    }
}

fn as_root(command: Vec<String>) -> Vec<String> {
    if is_root() {
        command
    } else {
        [vec!["sudo".to_owned()], command].concat()
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// On a Debian whose own QEMU is old: its backports suite, the file to put its entry in, and the entry when no source names
/// the suite yet. The entry is made from the one that is already there, so it points to the same server.
fn backports() -> Option<(String, &'static str, Option<String>)> {
    let release = fs::read_to_string("/etc/os-release").ok()?;
    let field = |name: &str| {
        let line = release
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    if field("ID")? != "debian" || field("VERSION_ID")?.parse::<u32>().ok()? > 12 {
        return None;
    }
    let codename = field("VERSION_CODENAME")?;
    let suite = format!("{codename}-backports");
    let sources = source_texts();
    let file = "/etc/apt/sources.list.d/quire-backports.sources";
    let has = sources.iter().any(|text| {
        text.lines()
            .any(|line| !line.starts_with('#') && line.contains(&suite))
    });
    if has {
        return Some((suite, file, None));
    }
    let entry = sources
        .iter()
        .find_map(|text| backports_entry(text, &codename))?;
    Some((suite, file, Some(entry)))
}

/// All of apt's source files.
fn source_texts() -> Vec<String> {
    let mut files = vec![Path::new("/etc/apt/sources.list").to_owned()];
    if let Ok(folder) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(folder.filter_map(|entry| Some(entry.ok()?.path())));
    }
    let known = |path: &Path| {
        path.extension()
            .is_some_and(|kind| kind == "list" || kind == "sources")
    };
    files
        .iter()
        .filter(|path| known(path))
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect()
}

/// A deb822 entry for the backports of `codename`, from an entry (of either form) for `codename` itself.
fn backports_entry(sources: &str, codename: &str) -> Option<String> {
    for stanza in sources.split("\n\n") {
        let field = |name: &str| {
            stanza
                .lines()
                .find_map(|line| line.strip_prefix(name).map(str::trim))
        };
        let (Some(uris), Some(suites)) = (field("URIs:"), field("Suites:")) else {
            continue;
        };
        if suites.split_whitespace().any(|suite| suite == codename) {
            let key = field("Signed-By:")
                .map(|key| format!("Signed-By: {key}\n"))
                .unwrap_or_default();
            return Some(format!(
                "Types: deb\nURIs: {uris}\nSuites: {codename}-backports\nComponents: main\n{key}"
            ));
        }
    }
    for line in sources.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("deb") {
            continue;
        }
        let mut words = words.skip_while(|word| word.starts_with('[') || word.ends_with(']'));
        if let (Some(uri), Some(suite)) = (words.next(), words.next())
            && suite == codename
        {
            return Some(format!(
                "Types: deb\nURIs: {uri}\nSuites: {codename}-backports\nComponents: main\n"
            ));
        }
    }
    None
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

    #[test]
    fn backports_from_either_form() {
        let modern = "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: /k\n";
        let entry = backports_entry(modern, "bookworm").unwrap();
        assert_eq!(
            entry,
            "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm-backports\nComponents: main\nSigned-By: /k\n"
        );
        let old = "# deb x\ndeb [arch=amd64] http://mirror/debian bookworm main\n";
        assert!(
            backports_entry(old, "bookworm")
                .unwrap()
                .contains("URIs: http://mirror/debian\n")
        );
        assert_eq!(backports_entry(old, "trixie"), None);
    }
}
