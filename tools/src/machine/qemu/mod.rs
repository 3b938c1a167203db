//! A machine in QEMU: what it is ([`Machine`]); its command line is in `line`, what
//! counts in it in [`plugin`].
use crate::host::arch::Arch;
use crate::host::errors::UsageError;
use crate::host::words;
use crate::machine::firmware::Uefi;
use crate::machine::raspi::Board;
use clap::ValueEnum;
use std::path::PathBuf;
use std::time::Duration;

mod line;
pub mod plugin;

pub use plugin::Plugin;

/// Where the guest's console goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// An interactive terminal: keys go to the guest, ctrl-a is QEMU's.
    Terminal,
    /// Pipes: what comes in is the guest's, byte for byte.
    Pipes,
}

/// What loads the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Loader {
    /// QEMU itself: PVH, or an arm64 Image.
    #[default]
    Direct,
    /// Limine, started by this firmware from a disk.
    Limine(Firmware),
}

/// What a machine starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Firmware {
    /// The PC's.
    Bios,
    /// UEFI.
    Uefi,
}

/// Files made when a machine starts.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Where an x86_64 guest leaves its exit status.
    pub status: String,
    /// The disk that Limine is on.
    pub disk: Option<PathBuf>,
    /// UEFI's flash images.
    pub uefi: Option<Uefi>,
    /// The device tree of a board for which QEMU brings none.
    pub tree: Option<PathBuf>,
}

/// One machine to start.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Which QEMU.
    pub arch: Arch,
    /// `-machine`; the architecture's default when `None`.
    pub machine: Option<String>,
    /// `-m`.
    pub mem: String,
    /// `-smp`; a board has the CPUs it has.
    pub smp: u32,
    /// What loads the kernel.
    pub loader: Loader,
    /// The bootable file: an arm64 Image for the direct way, else an ELF file.
    pub image: PathBuf,
    /// `-initrd`.
    pub initramfs: Option<PathBuf>,
    /// The kernel's command line.
    pub command_line: String,
    /// The loader's disk is a USB stick, not a CD.
    pub stick: bool,
    /// Has a serial port.
    pub serial: bool,
    /// Takes an exit status from the guest, as no real machine does.
    pub exit: bool,
    /// A board gets its device tree, as from its firmware.
    pub device_tree: bool,
    /// The console is the board's second serial port, its mini UART.
    pub mini_uart: bool,
    /// The kernel begins as behind a firmware that does nothing (at EL3, where there is one) but
    /// pass this as where the device tree is, a multiple of 64 KiB: no command line, no initramfs.
    pub raw: Option<u32>,
    /// Virtual time counts instructions.
    pub icount: bool,
    /// What counts between marks.
    pub plugin: Option<Plugin>,
    /// Wait for gdb on this port of the loopback.
    pub gdb: Option<u16>,
    /// No other machine of this program runs meanwhile: its time is measured.
    pub alone: bool,
    /// It is stopped when it has had so much time of the host's CPUs: what else the host does then
    /// does not count.
    pub cpu_time: Option<Duration>,
    /// At the end of the command line.
    pub extra: Vec<String>,
}

impl Machine {
    /// The default machine with 1 GiB.
    pub fn new(arch: Arch, image: PathBuf) -> Self {
        Machine {
            arch,
            machine: None,
            mem: "1G".to_owned(),
            smp: 1,
            loader: Loader::Direct,
            image,
            initramfs: None,
            command_line: String::new(),
            stick: false,
            serial: true,
            exit: true,
            device_tree: true,
            mini_uart: false,
            raw: None,
            icount: false,
            plugin: None,
            gdb: None,
            alone: false,
            cpu_time: None,
            extra: Vec::new(),
        }
    }

    /// The machine and its options, as they were given.
    fn machine_words(&self) -> &str {
        self.machine.as_deref().unwrap_or(self.arch.machines()[0])
    }

    /// The board that it is, when that brings its own CPU and memory.
    pub fn board(&self) -> Option<Board> {
        Board::of(name(self.machine_words()))
    }
}

/// A machine without its options.
pub fn name(machine: &str) -> &str {
    machine.split(',').next().unwrap_or_default()
}

/// Checks that `machine` is one that Quire runs on.
pub fn check_machine(arch: Arch, machine: &str) -> Result<(), UsageError> {
    let name = name(machine);
    if let Some(other) = Arch::of_machine(name).filter(|other| *other != arch) {
        return Err(UsageError(format!(
            "--machine {name} is one of {other}, not of {arch}, which has {}",
            arch.machines().join(", ")
        )));
    }
    let known = Arch::ALL.map(Arch::machines).concat();
    words::check("--machine", [name], &known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines() {
        assert!(check_machine(Arch::Aarch64, "virt,gic-version=3").is_ok());
        assert!(check_machine(Arch::Aarch64, "q35").is_err());
        assert!(check_machine(Arch::X86_64, "virt").is_err());
    }
}
