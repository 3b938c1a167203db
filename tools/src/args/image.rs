//! Options of `image`.
use super::shared::{Install, Machines, command_line};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of `image`.
#[derive(Args, Debug, Clone)]
#[command(mut_arg("arch", |arg| arg.help("iso: machines that it can start")))]
pub struct ImageArgs {
    /// iso: one hybrid image for BIOS and UEFI PCs and 64-bit Arm with UEFI; rpi: an SD card for a
    /// Raspberry Pi 3 or 4
    #[arg(value_enum, hide_possible_values = true, value_name = "iso|rpi")]
    pub medium: Medium,
    /// rpi: the folder with the Pi's firmware (bootcode.bin, start*.elf, fixup*.dat, *.dtb,
    /// overlays)
    #[arg(long, value_name = "FOLDER")]
    pub firmware: Option<PathBuf>,
    /// Where it goes
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// For which.
    #[command(flatten)]
    pub machines: Machines,
    /// Put this newc archive (plain, gzip or zstd) on it and run its /init instead of the built-in
    /// one
    #[arg(long, value_name = "FILE")]
    pub initramfs: Option<PathBuf>,
    /// Words for the kernel's command line
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true, value_parser = command_line)]
    pub append: Option<String>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}

/// What an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Medium {
    /// CD or USB stick.
    Iso,
    /// SD card.
    Rpi,
}
