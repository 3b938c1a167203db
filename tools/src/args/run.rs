//! Options of `run`.
use super::shared::{Install, command_line};
use crate::host::arch::Arch;
use crate::machine::qemu::{self, Firmware};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// What loads the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BootWay {
    /// QEMU.
    Direct,
    /// Limine, from a disk.
    Limine,
}

/// Options of `run`.
#[derive(Args, Debug, Clone)]
pub struct RunArgs {
    /// Machine architecture: that of --machine, or x86_64
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "x86_64|aarch64"
    )]
    pub arch: Option<Arch>,
    /// QEMU machine: q35 or microvm for x86_64, the others for aarch64; QEMU's options may follow
    /// ("virt,gic-version=3")
    #[arg(long, value_name = "q35|microvm|virt|raspi3b|raspi4b")]
    pub machine: Option<String>,
    /// What loads the kernel: QEMU itself, or Limine from a disk, as on a PC
    #[arg(
        long,
        value_enum,
        default_value = "direct",
        hide_possible_values = true,
        value_name = "direct|limine"
    )]
    pub boot: BootWay,
    /// What starts Limine; bios is for x86_64 only
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "bios|uefi"
    )]
    pub firmware: Option<Firmware>,
    /// Guest memory
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = memory)]
    pub mem: String,
    /// Private memory that the guest may keep compressed, counted as it was before
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub swap: Option<String>,
    /// CPUs of the guest
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=255))]
    pub smp: u32,
    /// Boot this newc archive (plain, gzip or zstd) and run its /init instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub initramfs: Option<PathBuf>,
    /// Boot a root file system, with its own init or shell: a folder (of debootstrap) or a tar
    /// archive (a container's export), plain or gzip
    #[arg(long, value_name = "DIR|TAR", conflicts_with_all = ["initramfs", "add"])]
    pub rootfs: Option<PathBuf>,
    /// Put this file beside the built-in programs: in /bin, or at PATH; may be repeated
    #[arg(long, value_name = "FILE[=PATH]", conflicts_with = "initramfs")]
    pub add: Vec<OsString>,
    /// More words for the kernel's command line; after " -- " they are init's arguments
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true, value_parser = command_line)]
    pub append: Option<String>,
    /// Count instructions instead of time: two runs print the same figures
    #[arg(long)]
    pub icount: bool,
    /// Wait for a debugger and print the command that attaches one
    #[arg(long)]
    pub gdb: bool,
    /// End the machine after this long, with exit status 124
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// Build the kernel optimised (the default)
    #[arg(long, conflicts_with = "debug")]
    pub release: bool,
    /// Build the kernel with all checks
    #[arg(long)]
    pub debug: bool,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
    /// More arguments for QEMU
    #[arg(last = true, value_name = "QEMU ARGUMENTS")]
    pub qemu: Vec<String>,
}

impl RunArgs {
    /// The architecture asked for.
    pub fn arch(&self) -> Arch {
        let of_machine = || Arch::of_machine(qemu::name(self.machine.as_deref()?));
        self.arch.or_else(of_machine).unwrap_or(Arch::X86_64)
    }
}

/// The least memory in bytes: with 2 MiB, a PC's firmware hangs.
const LEAST: u64 = 4 << 20;

/// QEMU's way to write a size: digits and K, M or G (none means MiB).
pub(super) fn memory(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !number || text.len() - digits.len() > 1 {
        return Err("a size is a number with K, M or G behind it, like 512M".to_owned());
    }
    if bytes(text) < LEAST {
        return Err("no machine starts with less than 4M".to_owned());
    }
    Ok(text.to_owned())
}

/// How many bytes `--mem` means: K, M or G behind the digits, MiB without.
pub fn bytes(size: &str) -> u64 {
    let digits = size.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let shift = match size.as_bytes().last() {
        Some(b'k' | b'K') => 10,
        Some(b'g' | b'G') => 30,
        _ => 20,
    };
    let number: u64 = digits.parse().unwrap_or(u64::MAX);
    number.saturating_mul(1 << shift)
}
