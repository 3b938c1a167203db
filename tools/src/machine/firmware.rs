//! UEFI for QEMU: the two flash images, code and variables, where distributions put them.
use crate::host::arch::Arch;
use crate::host::packages::{self, Package};
use anyhow::{Result, anyhow};
use std::path::{Path, PathBuf};

/// Flash images of one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uefi {
    /// The firmware.
    pub code: PathBuf,
    /// Its settings, as delivered; nothing is written there.
    pub variables: PathBuf,
}

/// Folder, code, variables: Debian and Ubuntu, Fedora, Arch, Alpine, then what QEMU itself brings
/// (macOS).
const X86_64: &[(&str, &str, &str)] = &[
    ("/usr/share/OVMF", "OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"),
    ("/usr/share/OVMF", "OVMF_CODE.fd", "OVMF_VARS.fd"),
    ("/usr/share/edk2/ovmf", "OVMF_CODE.fd", "OVMF_VARS.fd"),
    ("/usr/share/edk2/x64", "OVMF_CODE.4m.fd", "OVMF_VARS.4m.fd"),
    (
        "/usr/share/qemu",
        "edk2-x86_64-code.fd",
        "edk2-i386-vars.fd",
    ),
    (
        "/opt/homebrew/share/qemu",
        "edk2-x86_64-code.fd",
        "edk2-i386-vars.fd",
    ),
    (
        "/usr/local/share/qemu",
        "edk2-x86_64-code.fd",
        "edk2-i386-vars.fd",
    ),
];
const AARCH64: &[(&str, &str, &str)] = &[
    ("/usr/share/AAVMF", "AAVMF_CODE.fd", "AAVMF_VARS.fd"),
    (
        "/usr/share/edk2/aarch64",
        "QEMU_EFI-pflash.raw",
        "vars-template-pflash.raw",
    ),
    ("/usr/share/edk2/aarch64", "QEMU_CODE.fd", "QEMU_VARS.fd"),
    (
        "/usr/share/qemu",
        "edk2-aarch64-code.fd",
        "edk2-arm-vars.fd",
    ),
    (
        "/opt/homebrew/share/qemu",
        "edk2-aarch64-code.fd",
        "edk2-arm-vars.fd",
    ),
    (
        "/usr/local/share/qemu",
        "edk2-aarch64-code.fd",
        "edk2-arm-vars.fd",
    ),
];

/// The flash images, when they are installed.
pub fn find(arch: Arch) -> Option<Uefi> {
    let known = match arch {
        Arch::X86_64 => X86_64,
        Arch::Aarch64 => AARCH64,
    };
    let images = known.iter().map(|(folder, code, variables)| Uefi {
        code: Path::new(folder).join(code),
        variables: Path::new(folder).join(variables),
    });
    images
        .into_iter()
        .find(|uefi| uefi.code.is_file() && uefi.variables.is_file())
}

/// The flash images; installs them, or only says how.
pub fn ensure(arch: Arch, no_install: bool) -> Result<()> {
    packages::ensure(package(arch), find(arch).is_some(), no_install)
}

/// The flash images, or how to get them.
pub fn get(arch: Arch) -> Result<Uefi> {
    find(arch).ok_or_else(|| {
        anyhow!(
            "UEFI for {} is missing: {}",
            arch.qemu(),
            package(arch).how()
        )
    })
}

/// The package with them.
pub fn package(arch: Arch) -> &'static Package {
    match arch {
        Arch::X86_64 => &packages::OVMF,
        Arch::Aarch64 => &packages::AAVMF,
    }
}
