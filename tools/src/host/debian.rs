//! Debian's packages by name, downloaded with all that they depend on and unpacked under `target`:
//! nothing is installed, and the host's apt stays as it is.
use crate::host::arch::Arch;
use crate::host::managers::starts;
use crate::host::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The folder with the files of these packages for `arch`, kept under `name` for the next run. The
/// error is why they cannot be had.
pub fn root(arch: Arch, name: &str, packages: &[&str]) -> Result<PathBuf> {
    // Cases run beside each other.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = workspace::target().join(format!("{name}-{arch}"));
    let root = folder.join("root");
    let mark = folder.join("packages");
    let list = packages.join(" ");
    if fs::read_to_string(&mark).is_ok_and(|of| of == list) {
        return Ok(root);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    ensure!(
        ["apt-get", "dpkg-deb"].iter().all(|tool| starts(tool)),
        "no apt-get to download {name}"
    );
    download(arch, packages, &folder, &root)
        .with_context(|| format!("{name} cannot be downloaded"))?;
    // At last: what has it is complete.
    fs::write(mark, list)?;
    Ok(root)
}

/// Downloads the packages by the host's sources, but with lists of its own, in which nothing is
/// installed, and for `arch`; unpacks them to `root`.
fn download(arch: Arch, packages: &[&str], folder: &Path, root: &Path) -> Result<()> {
    eprintln!(
        "run.sh: downloading {} and what they need for {arch}",
        packages.join(", ")
    );
    for needed in ["state/lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(needed))?;
    }
    fs::write(folder.join("state/status"), "")?;
    let debians = match arch {
        Arch::X86_64 => "amd64",
        Arch::Aarch64 => "arm64",
    };
    let place = folder.display();
    let options = [
        format!("Dir::State={place}/state"),
        format!("Dir::State::status={place}/state/status"),
        format!("Dir::Cache={place}/cache"),
        format!("APT::Architecture={debians}"),
        format!("APT::Architectures::={debians}"),
    ];
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-y"]);
        options.iter().for_each(|it| _ = command.args(["-o", it]));
        step(command.args(words))
    };
    apt(&["update", "--error-on=any"])?;
    let install = ["install", "-d", "--no-install-recommends"];
    apt(&[&install, packages].concat())?;
    for entry in fs::read_dir(folder.join("cache/archives"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "deb") {
            step(Command::new("dpkg-deb").arg("-x").arg(&path).arg(root))?;
        }
    }
    Ok(())
}

fn step(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let program = command.get_program().display().to_string();
    bail!("{program}: {}", errors.lines().next().unwrap_or("failed"))
}
