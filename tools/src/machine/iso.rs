//! Disks that Limine boots from: one hybrid ISO for CD and USB stick, BIOS and UEFI, both
//! architectures.
use crate::host::arch::Arch;
use crate::host::workspace::Temporary;
use crate::machine::limine;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The contents of a disk.
pub struct Content<'a> {
    /// Kernels as ELF files.
    pub kernels: &'a [(Arch, PathBuf)],
    /// A newc archive, plain, gzip or zstd, that replaces the built-in one.
    pub initramfs: Option<&'a Path>,
    /// The kernel's: one line, without `${`.
    pub command_line: &'a str,
    /// Timeout of the boot menu in seconds.
    pub timeout: u32,
}

/// Writes the image to `path`, in the layout of Limine's USAGE.md. Errors: no Limine, a command
/// line that it cannot pass on, no xorriso, or one that fails.
pub fn write(path: &Path, content: &Content<'_>) -> Result<()> {
    let binaries = limine::folder()?;
    let root = Temporary::folder("iso")?;
    let folder = |name: &str| -> Result<PathBuf> {
        let folder = root.path().join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    };
    let (boot, limine, efi) = (folder("boot")?, folder("boot/limine")?, folder("EFI/BOOT")?);
    for name in limine::names() {
        let home = if name.ends_with(".EFI") {
            &efi
        } else {
            &limine
        };
        copy(&binaries.join(name), &home.join(name))?;
    }
    for (arch, kernel) in content.kernels {
        copy(kernel, &boot.join(kernel_name(*arch)))?;
    }
    if let Some(initramfs) = content.initramfs {
        copy(initramfs, &boot.join("initramfs"))?;
    }
    fs::write(limine.join("limine.conf"), configuration(content)?)?;
    xorriso(root.path(), path)
}

/// Limine's name of an architecture, as `${ARCH}` in its configuration.
fn kernel_name(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "quire-x86-64.elf",
        Arch::Aarch64 => "quire-aarch64.elf",
    }
}

/// `limine.conf`.
fn configuration(content: &Content<'_>) -> Result<String> {
    let words = content.command_line;
    ensure!(!words.contains('\n'), "a command line is one line");
    // Limine would take it for a macro, and has no way to quote it.
    ensure!(
        !words.contains("${"),
        "Limine cannot pass \"${{\" on in a command line"
    );
    // Without a screen: quiet, but for errors.
    let quiet = if content.timeout == 0 {
        "quiet: yes\nserial: yes\n"
    } else {
        ""
    };
    let module = content
        .initramfs
        .map_or("", |_| "    module_path: boot():/boot/initramfs\n");
    Ok(format!(
        "timeout: {}\n{quiet}\n/Quire\n    protocol: limine\n    kernel_path: boot():/boot/quire-${{ARCH}}.elf\n{module}    cmdline: {words}\n",
        content.timeout
    ))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = fs::copy(from, to);
    copied
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// The options are those of Limine's USAGE.md: El Torito entries for BIOS and UEFI, and both as
/// partitions.
fn xorriso(root: &Path, path: &Path) -> Result<()> {
    let mut command = Command::new("xorriso");
    command.args("-report_about WARNING -as mkisofs -quiet -R -J -V QUIRE".split(' '));
    command.args(
        "-b boot/limine/limine-bios-cd.bin -no-emul-boot -boot-load-size 4 -boot-info-table"
            .split(' '),
    );
    command.args(
        "--efi-boot boot/limine/limine-uefi-cd.bin -efi-boot-part --efi-boot-image".split(' '),
    );
    command
        .arg("--protective-msdos-label")
        .arg(root)
        .arg("-o")
        .arg(path);
    let output = command.stdin(Stdio::null()).output();
    let output = output.context("cannot start xorriso; ./run.sh doctor says how to install it")?;
    if !output.status.success() {
        bail!(
            "xorriso failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations() {
        let mut content = Content {
            kernels: &[],
            initramfs: None,
            command_line: "quiet -- sh",
            timeout: 0,
        };
        let text = configuration(&content).unwrap();
        assert!(text.starts_with("timeout: 0\nquiet: yes\n"), "{text}");
        assert!(
            text.ends_with(
                "    kernel_path: boot():/boot/quire-${ARCH}.elf\n    cmdline: quiet -- sh\n"
            ),
            "{text}"
        );
        content.initramfs = Some(Path::new("x"));
        content.timeout = 3;
        let text = configuration(&content).unwrap();
        assert!(
            text.contains("module_path") && !text.contains("quiet: yes"),
            "{text}"
        );
        content.command_line = "a\nb";
        assert!(configuration(&content).is_err());
        content.command_line = "${ARCH}";
        assert!(configuration(&content).is_err());
    }
}
