//! `./run.sh doctor`: what is here, what is not, and the one command that gets it.
use crate::arch::Arch;
use crate::install::{self, GOOD_QEMU, OLDEST_QEMU};
use crate::{firmware, limine, packages, sdcard, workspace};
use anyhow::Result;
use std::process::Command;

/// One thing that was looked at.
enum Finding {
    /// It is as it should be.
    Good(String),
    /// Everything works without it, but something would be nicer with it: what, and how to get it.
    Nice(String, String),
    /// It must be there: what is wrong, and how to get it.
    Bad(String, String),
}

/// Looks at everything; exit status 1 when something that must be there is not.
pub fn doctor() -> Result<u8> {
    let mut findings = vec![toolchain()];
    findings.extend(targets());
    findings.extend(Arch::ALL.map(qemu));
    findings.push(firmware());
    findings.extend(disks());
    findings.push(debugger());
    findings.extend(optional());
    let mut status = 0;
    for finding in &findings {
        match finding {
            Finding::Good(what) => println!("ok       {what}"),
            Finding::Nice(what, how) => println!("note     {what}\n         {how}"),
            Finding::Bad(what, how) => {
                println!("MISSING  {what}\n         {how}");
                status = 1;
            }
        }
    }
    Ok(status)
}

/// A program's output, when it runs and succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(workspace::root())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn toolchain() -> Finding {
    match output("rustc", &["--version"]) {
        Some(version) => Finding::Good(version.trim().to_owned()),
        None => Finding::Bad(
            "the pinned Rust toolchain".to_owned(),
            "rustup toolchain install".to_owned(),
        ),
    }
}

fn targets() -> Vec<Finding> {
    let installed = output("rustup", &["target", "list", "--installed"]).unwrap_or_default();
    let wanted = Arch::ALL
        .iter()
        .flat_map(|arch| [arch.kernel_target(), arch.user_target()]);
    wanted
        .map(
            |target| match installed.lines().any(|line| line == target) {
                true => Finding::Good(format!("target {target}")),
                false => Finding::Bad(
                    format!("target {target}"),
                    format!("rustup target add {target}"),
                ),
            },
        )
        .collect()
}

/// How to install the emulator of `arch`, in one line.
fn how(arch: Arch) -> String {
    match install::manager() {
        Some(manager) => {
            let commands = install::commands(manager, &[arch]);
            commands
                .iter()
                .map(|command| command.join(" "))
                .collect::<Vec<_>>()
                .join(" && ")
        }
        None => format!("install {} from https://www.qemu.org/download", arch.qemu()),
    }
}

fn qemu(arch: Arch) -> Finding {
    let name = arch.qemu();
    match install::qemu_version(arch) {
        None => Finding::Bad(name.to_owned(), how(arch)),
        Some((major, minor)) if (major, minor) < (OLDEST_QEMU, 2) => Finding::Bad(
            format!("{name} {major}.{minor} is older than {OLDEST_QEMU}.2"),
            how(arch),
        ),
        Some((major, minor)) if arch == Arch::Aarch64 && major < GOOD_QEMU => Finding::Nice(
            format!("{name} {major}.{minor}: the machine raspi4b needs {GOOD_QEMU}.0"),
            how(arch),
        ),
        Some((major, minor)) => Finding::Good(format!("{name} {major}.{minor}")),
    }
}

/// q35 needs its BIOS and the option ROM that enters a kernel by PVH; some systems package them apart.
fn firmware() -> Finding {
    let listing = output(Arch::X86_64.qemu(), &["-L", "help"]).unwrap_or_default();
    let there = |file: &str| {
        listing
            .lines()
            .any(|folder| std::path::Path::new(folder).join(file).exists())
    };
    let missing: Vec<&str> = ["bios-256k.bin", "bios-microvm.bin", "pvh.bin"]
        .into_iter()
        .filter(|file| !there(file))
        .collect();
    if missing.is_empty() {
        Finding::Good("QEMU's firmware for q35 and microvm".to_owned())
    } else {
        let how = match install::manager() {
            Some("apt-get") => "apt-get install seabios qemu-system-data".to_owned(),
            Some("dnf") => "dnf install seabios-bin qemu-common".to_owned(),
            Some("pacman") => "pacman -S seabios qemu-common".to_owned(),
            _ => how(Arch::X86_64),
        };
        Finding::Bad(format!("QEMU's firmware: {}", missing.join(", ")), how)
    }
}

/// What `--boot limine` and `image iso` need.
fn disks() -> Vec<Finding> {
    let mut findings = vec![match limine::find() {
        Some(folder) => Finding::Good(format!("Limine in {}", folder.display())),
        None => Finding::Nice(
            "no Limine: --boot limine and image iso download it".to_owned(),
            "or name a folder that has it in LIMINE_DIR".to_owned(),
        ),
    }];
    let uefi = |arch| (firmware::package(arch), firmware::find(arch).is_some());
    let packages = [
        (&packages::XORRISO, packages::has_xorriso()),
        uefi(Arch::X86_64),
        uefi(Arch::Aarch64),
    ];
    findings.extend(packages.map(|(package, there)| match there {
        true => Finding::Good(package.what.to_owned()),
        false => Finding::Nice(
            format!("no {}: --boot limine may need it", package.what),
            package.how(),
        ),
    }));
    findings.push(match sdcard::firmware(None) {
        Ok(folder) => Finding::Good(format!(
            "the Raspberry Pi's firmware in {}",
            folder.display()
        )),
        Err(error) => Finding::Nice("no firmware for image rpi".to_owned(), error.to_string()),
    });
    findings
}

fn debugger() -> Finding {
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let how = match install::manager() {
        Some("apt-get") => "apt-get install gdb-multiarch",
        Some("dnf") => "dnf install gdb",
        Some("pacman") => "pacman -S gdb",
        Some("apk") => "apk add gdb-multiarch",
        _ => "brew install gdb",
    };
    match (
        output("gdb-multiarch", &["--version"]),
        output("gdb", &["--version"]),
    ) {
        (Some(version), _) => Finding::Good(first(version)),
        (None, Some(version)) => Finding::Nice(
            format!("{}, for this host's machine only", first(version)),
            how.to_owned(),
        ),
        (None, None) => Finding::Nice(
            "no gdb: --gdb has nothing to attach".to_owned(),
            how.to_owned(),
        ),
    }
}

/// What some tests need and skip without.
fn optional() -> Vec<Finding> {
    let wanted = [
        ("gcc", "gcc"),
        ("musl-gcc", "musl-tools"),
        ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        ("qemu-aarch64-static", "qemu-user-static"),
        ("busybox", "busybox-static"),
        ("coqc", "coq"),
    ];
    let missing: Vec<_> = wanted
        .iter()
        .filter(|(program, _)| output_of_any_status(program).is_none())
        .collect();
    if missing.is_empty() {
        return vec![Finding::Good(
            "the C compilers, busybox and Coq that some tests use".to_owned(),
        )];
    }
    let finding = |(program, package): &&(&str, &str)| {
        Finding::Nice(
            format!("no {program}: the tests that use it are skipped"),
            format!("apt-get install {package} (Debian's name)"),
        )
    };
    missing.iter().map(finding).collect()
}

fn output_of_any_status(program: &str) -> Option<()> {
    Command::new(program)
        .arg("--version")
        .output()
        .ok()
        .map(|_| ())
}
