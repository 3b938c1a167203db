//! The installed programs and their versions.
use super::{Finding, Get};
use course::lab::Sandbox;
use packages::Package;
use std::path::Path;
use std::process::Command;
use tools::host::arch::Arch;
use tools::host::install::{self, GOOD_QEMU, OLDEST_QEMU};
use tools::host::managers;
use tools::host::{packages, workspace};
use tools::machine::{firmware, limine, sdcard};

/// To build and to boot.
pub fn basics() -> Vec<Finding> {
    let mut findings = vec![toolchain(), targets(), linker()];
    findings.extend(Arch::ALL.map(qemu));
    findings.push(roms());
    findings
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

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn toolchain() -> Finding {
    match output("rustc", &["--version"]) {
        Some(version) => Finding::good(first_line(&version)),
        None => Finding::bad(
            "the pinned Rust toolchain",
            Get::Command("rustup toolchain install".to_owned()),
        ),
    }
}

fn targets() -> Finding {
    let installed = output("rustup", &["target", "list", "--installed"]).unwrap_or_default();
    let wanted = Arch::ALL
        .iter()
        .flat_map(|arch| [arch.kernel_target(), arch.user_target()]);
    let missing: Vec<&str> = wanted
        .filter(|target| !installed.lines().any(|line| line == *target))
        .collect();
    match missing.is_empty() {
        true => Finding::good("Rust's targets for kernels and programs"),
        false => Finding::bad(
            format!("Rust's targets {}", missing.join(", ")),
            Get::Command(format!("rustup target add {}", missing.join(" "))),
        ),
    }
}

/// This program was built with a toolchain, but perhaps on another machine.
fn linker() -> Finding {
    let get = match std::env::consts::OS {
        "macos" => Get::Command("xcode-select --install".to_owned()),
        _ => Get::Package(&packages::CC),
    };
    match output("cc", &["--version"]) {
        Some(version) => Finding::good(format!("cc: {}", first_line(&version))),
        None => Finding::bad("cc, which links programs for this host", get),
    }
}

fn qemu(arch: Arch) -> Finding {
    let name = arch.qemu();
    let get = Get::Package(packages::qemu(arch));
    match install::qemu_version(arch) {
        None => Finding::bad(name, get),
        Some((major, minor)) if (major, minor) < (OLDEST_QEMU, 2) => Finding::bad(
            format!("{name} {major}.{minor} is older than {OLDEST_QEMU}.2"),
            get,
        ),
        Some((major, minor)) if arch == Arch::Aarch64 && major < GOOD_QEMU => Finding::nice(
            format!("{name} {major}.{minor} has no raspi4b, {GOOD_QEMU}.0 has"),
            get,
        ),
        Some((major, minor)) => Finding::good(format!("{name} {major}.{minor}")),
    }
}

/// q35 needs its BIOS and the option ROM that enters a kernel by PVH, Limine's ways a graphics card
/// with its own; some systems package them apart.
fn roms() -> Finding {
    let missing: Vec<&str> = [
        "bios-256k.bin",
        "bios-microvm.bin",
        "pvh.bin",
        "vgabios-stdvga.bin",
        "vgabios-ramfb.bin",
    ]
    .into_iter()
    .filter(|file| !has_rom(file))
    .collect();
    match missing.is_empty() {
        true => Finding::good("QEMU's firmware: BIOS, PVH, graphics"),
        false => Finding::bad(
            format!("QEMU's firmware: {}", missing.join(", ")),
            Get::Package(&packages::SEABIOS),
        ),
    }
}

/// Whether QEMU finds a file of its firmware.
fn has_rom(file: &str) -> bool {
    let listing = output(Arch::X86_64.qemu(), &["-L", "help"]).unwrap_or_default();
    listing
        .lines()
        .any(|folder| Path::new(folder).join(file).exists())
}

/// What `--boot limine`, `image iso` and `image rpi` need.
pub fn disks() -> Vec<Finding> {
    let xorriso = match output("xorriso", &["--version"]) {
        Some(version) => Finding::good(first_line(&version)),
        None => Finding::nice(
            "no xorriso: no image iso, no --boot limine",
            Get::Package(&packages::XORRISO),
        ),
    };
    let mut findings = vec![limine(), xorriso];
    findings.extend(Arch::ALL.map(uefi));
    findings.push(match sdcard::firmware(None) {
        Ok(folder) => Finding::good(format!(
            "the Raspberry Pi's firmware in {}",
            folder.display()
        )),
        Err(_) => Finding::nice("no Raspberry Pi's firmware: no image rpi", Get::PiFirmware),
    });
    findings
}

fn limine() -> Finding {
    let version = limine::VERSION;
    match limine::folder_here() {
        Err(error) => Finding::bad(
            format!("Limine: {error:#}"),
            Get::Command("unset LIMINE_DIR".to_owned()),
        ),
        Ok(Some(folder)) if limine::is_pinned(&folder) => {
            Finding::good(format!("Limine {version} in {}", folder.display()))
        }
        Ok(Some(folder)) => Finding::good(limine::not_pinned(&folder)),
        Ok(None) if managers::starts("curl") || managers::starts("wget") => Finding::good(format!(
            "no Limine, but curl or wget: {version} is downloaded when it is needed"
        )),
        Ok(None) => Finding::nice(
            "no Limine, nor curl or wget to download it: no image iso, no --boot limine",
            Get::Package(&packages::CURL),
        ),
    }
}

fn uefi(arch: Arch) -> Finding {
    let package = firmware::package(arch);
    match firmware::find(arch) {
        Some(uefi) => Finding::good(format!("{} in {}", package.what, uefi.code.display())),
        None => Finding::nice(
            format!("no {}: no --firmware uefi for {arch}", package.what),
            Get::Package(package),
        ),
    }
}

/// The debugger, and what some tests need and skip without.
pub fn extras() -> Vec<Finding> {
    let mut findings = vec![debugger()];
    let (cross, package) = match std::env::consts::ARCH {
        "aarch64" => ("x86_64-linux-gnu-gcc", &packages::CROSS_X86_64),
        _ => ("aarch64-linux-gnu-gcc", &packages::CROSS_AARCH64),
    };
    let other = match std::env::consts::ARCH {
        "aarch64" => ["qemu-x86_64-static", "qemu-x86_64"],
        _ => ["qemu-aarch64-static", "qemu-aarch64"],
    };
    let wanted: [(&[&str], &'static Package); 5] = [
        (&["musl-gcc"], &packages::MUSL),
        (&[cross], package),
        (&other, &packages::QEMU_USER),
        (&["busybox"], &packages::BUSYBOX),
        (&["coqc"], &packages::COQ),
    ];
    findings.extend(wanted.map(|(programs, package)| {
        match programs.iter().find(|name| managers::starts(name)) {
            Some(name) => Finding::good(*name),
            None => Finding::nice(
                format!("no {}: the tests that use it are skipped", programs[0]),
                Get::Package(package),
            ),
        }
    }));
    findings.push(sandbox());
    findings
}

/// Of `lab grade`.
fn sandbox() -> Finding {
    match Sandbox::of(false) {
        Ok(_) => Finding::good("a sandbox for others' code (user namespaces, Landlock)"),
        Err(_) => Finding::nice(
            "no sandbox for others' code: lab grade says why, and refuses without --trust",
            Get::Command(
                "# for the sandbox: Linux 5.13 with Landlock, util-linux; on Ubuntu \
                 sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
                    .to_owned(),
            ),
        ),
    }
}

fn debugger() -> Finding {
    let get = Get::Package(&packages::GDB);
    let version = |program| output(program, &["--version"]).map(|text| first_line(&text));
    match (version("gdb-multiarch"), version("gdb")) {
        (Some(version), _) => Finding::good(version),
        (None, Some(version)) if knows_both() => Finding::good(version),
        (None, Some(version)) => {
            Finding::nice(format!("{version}: for this host's machine only"), get)
        }
        (None, None) => Finding::nice("no gdb: nothing to attach by --gdb", get),
    }
}

/// Whether the plain gdb was built for both architectures, as Fedora's and Arch's are.
fn knows_both() -> bool {
    ["i386:x86-64", "aarch64"].iter().all(|name| {
        let set = format!("set architecture {name}");
        let arguments = ["-nx", "-batch", "-ex", &set];
        let asked = Command::new("gdb").args(arguments).output();
        asked.is_ok_and(|output| output.status.success() && output.stderr.is_empty())
    })
}
