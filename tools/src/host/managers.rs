//! The system's package manager, and its commands.
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// Those that are supported, by their command.
pub const ALL: [&str; 5] = ["apt-get", "dnf", "pacman", "apk", "brew"];

/// This system's package manager.
pub fn installed() -> Option<&'static str> {
    ALL.iter().copied().find(|name| starts(name))
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
