//! Packages that some commands need, by their names in each distribution.
use crate::install;
use anyhow::{Result, bail};

/// Something that a package manager can install.
pub struct Package {
    /// What it is for people.
    pub what: &'static str,
    /// Its name for apt-get, dnf, pacman, apk and brew; empty where there is none.
    names: [&'static str; 5],
}

/// Writes ISO images.
pub const XORRISO: Package = Package {
    what: "xorriso",
    names: ["xorriso", "xorriso", "libisoburn", "xorriso", "xorriso"],
};
/// UEFI for PCs; brew's QEMU brings it.
pub const OVMF: Package = Package {
    what: "UEFI for x86_64 (OVMF)",
    names: ["ovmf", "edk2-ovmf", "edk2-ovmf", "ovmf", "qemu"],
};
/// UEFI for 64-bit Arm; brew's QEMU brings it.
pub const AAVMF: Package = Package {
    what: "UEFI for aarch64 (AAVMF)",
    names: [
        "qemu-efi-aarch64",
        "edk2-aarch64",
        "edk2-aarch64",
        "aavmf",
        "qemu",
    ],
};

impl Package {
    /// The commands that install it; none when the manager has no such package.
    fn commands(&self, manager: &str) -> Vec<Vec<String>> {
        let at = install::MANAGERS.iter().position(|name| *name == manager);
        match at.map(|at| self.names[at]) {
            None | Some("") => Vec::new(),
            Some(name) => install::commands_for(manager, &[name]),
        }
    }

    /// How to install it, in one line.
    pub fn how(&self) -> String {
        let commands = install::manager()
            .map(|manager| self.commands(manager))
            .unwrap_or_default();
        let lines: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
        match lines.is_empty() {
            true => format!("install {} (Debian's package {})", self.what, self.names[0]),
            false => lines.join(" && "),
        }
    }
}

/// Installs `package` unless it is `there`, or only says how.
pub fn ensure(package: &Package, there: bool, no_install: bool) -> Result<()> {
    if there {
        return Ok(());
    }
    let commands = install::manager()
        .map(|manager| package.commands(manager))
        .unwrap_or_default();
    if commands.is_empty() {
        bail!("{} is missing: {}", package.what, package.how());
    }
    install::run(package.what, &commands, no_install)
}

/// Makes sure that xorriso is there.
pub fn ensure_xorriso(no_install: bool) -> Result<()> {
    ensure(&XORRISO, has_xorriso(), no_install)
}

/// Whether ISO images can be written.
pub fn has_xorriso() -> bool {
    install::starts("xorriso")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_by_manager() {
        let line = |package: &Package, manager| package.commands(manager).pop().unwrap().join(" ");
        assert!(line(&XORRISO, "pacman").ends_with("pacman -S --needed --noconfirm libisoburn"));
        assert!(line(&AAVMF, "apt-get").ends_with("--no-install-recommends qemu-efi-aarch64"));
        assert_eq!(line(&OVMF, "brew"), "brew install qemu");
        assert!(OVMF.commands("vi").is_empty());
    }
}
