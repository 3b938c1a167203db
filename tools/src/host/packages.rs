//! Packages that some commands need, by their names in each distribution.
use crate::host::arch::Arch;
use crate::host::managers;
use anyhow::{Result, bail};

/// A package, by its names in each distribution.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// Its description.
    pub what: &'static str,
    /// Its names for apt-get, dnf, pacman, apk and brew, spaces between several; empty where there
    /// is none.
    names: [&'static str; 5],
}

const fn package(what: &'static str, names: [&'static str; 5]) -> Package {
    Package { what, names }
}

/// A linker and C's own files, which every Rust program for the host needs; macOS has them in
/// Xcode's tools.
pub const CC: Package = package("cc", ["gcc libc6-dev", "gcc", "gcc", "build-base", ""]);
/// Downloads, and this repository.
pub const CURL: Package = package(
    "curl and git",
    [
        "curl git ca-certificates",
        "curl git",
        "curl git",
        "curl git",
        "curl git",
    ],
);
/// QEMU for PCs.
pub const QEMU_X86_64: Package = package(
    "qemu-system-x86_64",
    [
        "qemu-system-x86",
        "qemu-system-x86-core",
        "qemu-system-x86",
        "qemu-system-x86_64",
        "qemu",
    ],
);
/// QEMU for 64-bit Arm.
pub const QEMU_AARCH64: Package = package(
    "qemu-system-aarch64",
    [
        "qemu-system-arm",
        "qemu-system-aarch64-core",
        "qemu-system-aarch64",
        "qemu-system-aarch64",
        "qemu",
    ],
);
/// The PC's BIOS, what enters a kernel by PVH, and the graphics cards' ROMs.
pub const SEABIOS: Package = package(
    "QEMU's firmware",
    [
        "seabios qemu-system-data",
        "seabios-bin seavgabios-bin qemu-common",
        "seabios qemu-common",
        "seabios",
        "qemu",
    ],
);
/// Writes ISO images.
pub const XORRISO: Package = package(
    "xorriso",
    ["xorriso", "xorriso", "libisoburn", "xorriso", "xorriso"],
);
/// UEFI for PCs; brew's QEMU brings it.
pub const OVMF: Package = package(
    "UEFI for x86_64 (OVMF)",
    ["ovmf", "edk2-ovmf", "edk2-ovmf", "ovmf", "qemu"],
);
/// UEFI for 64-bit Arm; brew's QEMU brings it.
pub const AAVMF: Package = package(
    "UEFI for aarch64 (AAVMF)",
    [
        "qemu-efi-aarch64",
        "edk2-aarch64",
        "edk2-aarch64",
        "aavmf",
        "qemu",
    ],
);
/// A debugger for both architectures.
pub const GDB: Package = package(
    "gdb",
    ["gdb-multiarch", "gdb", "gdb", "gdb-multiarch", "gdb"],
);
/// C programs with musl; on Alpine that is what cc makes.
pub const MUSL: Package = package("musl-gcc", ["musl-tools", "musl-gcc", "musl", "", ""]);
/// C programs for the other architecture, with glibc.
pub const CROSS_AARCH64: Package = package(
    "aarch64-linux-gnu-gcc",
    [
        "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
        "",
        "aarch64-linux-gnu-gcc",
        "",
        "",
    ],
);
/// The same on a host that is aarch64.
pub const CROSS_X86_64: Package = package(
    "x86_64-linux-gnu-gcc",
    ["gcc-x86-64-linux-gnu libc6-dev-amd64-cross", "", "", "", ""],
);
/// Linux programs of the other architecture.
pub const QEMU_USER: Package = package(
    "qemu-user",
    [
        "qemu-user-static",
        "qemu-user-static",
        "qemu-user-static",
        "qemu-aarch64 qemu-x86_64",
        "",
    ],
);
/// A static one.
pub const BUSYBOX: Package = package(
    "busybox",
    ["busybox-static", "busybox", "busybox", "busybox-static", ""],
);
/// The proof assistant.
pub const COQ: Package = package("coqc", ["coq", "coq", "coq", "", "coq"]);

/// The emulator of `arch`.
pub fn qemu(arch: Arch) -> &'static Package {
    match arch {
        Arch::X86_64 => &QEMU_X86_64,
        Arch::Aarch64 => &QEMU_AARCH64,
    }
}

impl Package {
    /// Its names for this manager; none when the manager has no such package.
    pub fn names(&self, manager: &str) -> Vec<&'static str> {
        let at = managers::ALL.iter().position(|name| *name == manager);
        at.map_or(Vec::new(), |at| self.names[at].split_whitespace().collect())
    }

    /// The commands that install it; none when the manager has no such package.
    fn commands(&self, manager: &str) -> Vec<Vec<String>> {
        match self.names(manager) {
            names if names.is_empty() => Vec::new(),
            names => managers::commands_for(manager, &names),
        }
    }

    /// How to install it, in one line.
    pub fn how(&self) -> String {
        let commands = managers::installed()
            .map(|manager| self.commands(manager))
            .unwrap_or_default();
        match commands.is_empty() {
            true => format!("install {} (Debian's package {})", self.what, self.names[0]),
            false => managers::line(&commands),
        }
    }
}

/// Installs `package` unless it is `there`, or prints how.
pub fn ensure(package: &Package, there: bool, no_install: bool) -> Result<()> {
    if there {
        return Ok(());
    }
    let commands = managers::installed()
        .map(|manager| package.commands(manager))
        .unwrap_or_default();
    if commands.is_empty() {
        bail!("{} is missing: {}", package.what, package.how());
    }
    managers::run(package.what, &commands, no_install)
}

/// Makes sure that xorriso is there.
pub fn ensure_xorriso(no_install: bool) -> Result<()> {
    ensure(&XORRISO, has_xorriso(), no_install)
}

/// Whether ISO images can be written.
pub fn has_xorriso() -> bool {
    managers::starts("xorriso")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_by_manager() {
        let line = |package: &Package, manager| package.commands(manager).pop().unwrap().join(" ");
        assert!(line(&XORRISO, "pacman").ends_with("pacman -S --needed --noconfirm libisoburn"));
        assert!(line(&AAVMF, "apt-get").ends_with("--no-install-recommends qemu-efi-aarch64"));
        assert!(line(&SEABIOS, "apt-get").ends_with(" seabios qemu-system-data"));
        assert_eq!(line(&OVMF, "brew"), "brew install qemu");
        assert!(OVMF.commands("vi").is_empty() && COQ.commands("apk").is_empty());
    }
}
