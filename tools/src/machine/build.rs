//! cargo builds the kernel and the user programs; the result is one bootable file.
use crate::host::arch::Arch;
use crate::host::{progress, symbols, workspace};
use crate::machine::{image, initramfs};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files that a run needs.
#[derive(Clone, Debug)]
pub struct Built {
    /// The file for QEMU's `-kernel`: kernel, symbols and default initramfs in one.
    pub image: PathBuf,
    /// The same as one ELF file, which Limine loads.
    pub limine: PathBuf,
    /// The default initramfs that is in both.
    pub initramfs: PathBuf,
    /// The kernel with debug information, for gdb.
    pub elf: PathBuf,
    /// The user programs that are in the initramfs.
    pub programs: Vec<PathBuf>,
}

/// Builds everything for one architecture.
pub fn build(arch: Arch, debug: bool) -> Result<Built> {
    let profile = if debug { "dev" } else { "release" };
    let kernel = Cargo::new(arch.kernel_target(), "kernel", profile, arch);
    let suffix = if debug { "-debug" } else { "" };
    whole(arch, kernel, &workspace::images(arch), suffix)
}

/// What a kernel with labs is built from.
pub struct WithLabs<'a> {
    /// The copy of this checkout that has their seams.
    pub checkout: &'a Path,
    /// Where what is built goes.
    pub target: &'a Path,
    /// Which labs.
    pub features: &'a str,
    /// The folder of the student's files.
    pub from: &'a Path,
    /// Closes the command in.
    pub close: &'a dyn Fn(Command) -> Command,
}

/// Builds one; its files go to `folder`.
pub fn with_labs(arch: Arch, with: &WithLabs<'_>, folder: &Path) -> Result<Built> {
    let mut kernel = Cargo::new(arch.kernel_target(), "kernel", "release", arch);
    kernel.elsewhere(with.checkout, with.target);
    kernel.command.arg(format!("--features={}", with.features));
    kernel.command.env("LAB_FROM", with.from);
    kernel.command = (with.close)(kernel.command);
    whole(arch, kernel, folder, "")
}

/// Builds the kernel of another checkout, of which what is built goes to `target`; the programs are
/// ours.
pub fn elsewhere(arch: Arch, checkout: &Path, target: &Path) -> Result<Built> {
    let mut kernel = Cargo::new(arch.kernel_target(), "kernel", "release", arch);
    kernel.elsewhere(checkout, target);
    whole(arch, kernel, &target.join("images"), "")
}

/// The files around a kernel, in `folder`.
fn whole(arch: Arch, kernel: Cargo, folder: &Path, suffix: &str) -> Result<Built> {
    let _alone = alone(arch)?;
    let programs = programs(arch)?;
    let kernel = kernel.run()?;
    let elf = kernel
        .into_iter()
        .find(|path| path.file_name().is_some_and(|name| name == "quire"));
    let elf = elf.context("cargo built no program called quire")?;

    let archive = initramfs::default_archive(&programs)?.finish()?;
    let bytes = fs::read(&elf).with_context(|| format!("cannot read {}", elf.display()))?;
    let payload = image::payload(&symbols::table(&bytes)?, &archive);

    fs::create_dir_all(folder)?;
    let limine = folder.join(format!("quire{suffix}.elf"));
    replace(&limine, &image::one_elf(&bytes, &payload)?)?;
    let image = match arch {
        Arch::X86_64 => limine.clone(),
        Arch::Aarch64 => folder.join(format!("Image{suffix}")),
    };
    replace(&image, &image::direct(arch, &bytes, &payload)?)?;
    let initramfs = folder.join("initramfs.cpio");
    replace(&initramfs, &archive)?;
    Ok(Built {
        image,
        limine,
        initramfs,
        elf,
        programs,
    })
}

/// Kept while a build for an architecture runs and what it made is read: the next build, by
/// whichever process, puts its own there.
fn alone(arch: Arch) -> Result<File> {
    workspace::lock(&workspace::target().join(format!("{arch}.lock")))
}

/// Builds the user programs of one architecture.
pub fn programs(arch: Arch) -> Result<Vec<PathBuf>> {
    let mut userland = Cargo::new(arch.user_target(), "userland", "user", arch);
    userland.command.arg("--bins");
    userland.run()
}

/// Builds the plugin for this host's QEMU, optimised: it runs at each access of a guest.
pub fn plugin() -> Result<PathBuf> {
    let mut command = Command::new("cargo");
    command.current_dir(workspace::root()).args([
        "build",
        "--message-format=json-render-diagnostics",
        "--package=quire-plugin",
        "--release",
    ]);
    let output = progress::step("building the plugin for QEMU", &mut command)?;
    let mut files = artifacts(&output)
        .filter(|message| message["target"]["name"] == "quire_plugin")
        .filter_map(|message| Some(PathBuf::from(message["filenames"][0].as_str()?)));
    files.next().context("cargo built no plugin for QEMU")
}

/// A build of one package for one target.
struct Cargo {
    command: Command,
    label: String,
    target: &'static str,
    profile: &'static str,
    /// What removes what is kept of our crates, for [`start_over`].
    clean: Command,
}

impl Cargo {
    fn new(target: &'static str, package: &str, profile: &'static str, arch: Arch) -> Cargo {
        let cargo = || {
            let mut command = Command::new("cargo");
            command.current_dir(workspace::root());
            command
        };
        let mut command = cargo();
        // As the profiles have it, whatever a build server sets: the code that comes out differs,
        // and counts of instructions with it.
        command.env("CARGO_INCREMENTAL", "1");
        command.args([
            "build",
            "--message-format=json-render-diagnostics",
            "--package",
            package,
            "--target",
            target,
            "--profile",
            profile,
        ]);
        Cargo {
            command,
            label: format!("building {package} for {arch}"),
            target,
            profile,
            clean: cargo(),
        }
    }

    /// Has it build another checkout, of which what is built goes to `target`.
    fn elsewhere(&mut self, checkout: &Path, target: &Path) {
        for command in [&mut self.command, &mut self.clean] {
            command
                .current_dir(checkout)
                .env("CARGO_TARGET_DIR", target);
        }
    }

    /// Returns the programs that cargo reports.
    fn run(mut self) -> Result<Vec<PathBuf>> {
        let output = progress::step_or(&self.label, &mut self.command, |errors| {
            start_over(errors, self.clean, self.target, self.profile)
        })?;
        Ok(executables(&output))
    }
}

/// Incremental builds with link-time optimisation inside a crate now and then name symbols that are
/// no longer there (rustc 1.95, often after an interrupted build), until what is kept of the crates
/// is gone. Removes it when `errors` says so.
fn start_over(errors: &str, mut clean: Command, target: &str, profile: &str) -> Result<bool> {
    if !errors.contains("undefined hidden symbol") && !errors.contains("undefined symbol") {
        return Ok(false);
    }
    eprintln!("run.sh: the compiler's memory of the last build is wrong; starting over");
    let packages = [
        "kernel",
        "mm",
        "parts",
        "ktest",
        "arch-boot",
        "arch-x86_64",
        "arch-aarch64",
        "userland",
    ];
    clean.args(["clean", "--target", target, "--profile", profile]);
    clean.args(packages.iter().flat_map(|name| ["--package", name]));
    progress::step("cleaning", &mut clean).map(|_| true)
}

/// The programs named in cargo's JSON messages.
fn executables(messages: &[u8]) -> Vec<PathBuf> {
    artifacts(messages)
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect()
}

/// cargo's JSON messages.
fn artifacts(messages: &[u8]) -> impl Iterator<Item = Value> {
    messages
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
}

/// Writes a file only when its content changes, and never half: another run may be reading it.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let new = path.with_extension(format!("new-{}", std::process::id()));
    fs::write(&new, content).with_context(|| format!("cannot write {}", new.display()))?;
    fs::rename(&new, path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_in_cargo_messages() {
        let messages = br#"{"reason":"compiler-artifact","executable":null}
{"reason":"compiler-artifact","executable":"/t/quire"}
not json
{"reason":"build-finished","success":true}"#;
        assert_eq!(executables(messages), [Path::new("/t/quire")]);
    }

    #[test]
    fn replace_keeps_equal_files() {
        let path = std::env::temp_dir().join(format!("quire-replace-{}", std::process::id()));
        replace(&path, b"one").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        replace(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        fs::remove_file(&path).unwrap();
    }
}
