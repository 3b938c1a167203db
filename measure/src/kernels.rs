//! Both kernels, and the machines that they are booted on.
use crate::bench::of_quire;
use crate::counting::Counting;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use tools::args::Side;
use tools::host::arch::Arch;
use tools::machine::build::{self, Built};
use tools::machine::linux::{self, Kernel};
use tools::machine::qemu::Machine;

/// Quire, and Linux where it is asked for, on each machine.
pub struct Kernels {
    /// Quire.
    pub built: BTreeMap<Arch, Built>,
    /// Linux.
    pub linux: Vec<Kernel>,
    /// What the plugin for QEMU counts in each boot.
    pub counting: Option<Counting>,
    /// More words for Quire's command line.
    pub words: String,
    /// By machine, an initramfs with which Linux swaps.
    pub swap: BTreeMap<Arch, PathBuf>,
}

impl Kernels {
    /// The Linux of a machine.
    pub fn linux(&self, arch: Arch) -> Option<&Kernel> {
        self.linux.iter().find(|kernel| kernel.arch == arch)
    }

    /// The machine for such a program: the same for both kernels but for the kernel and its words.
    pub fn machine(
        &self,
        arch: Arch,
        side: Side,
        mib: u64,
        cpus: u32,
        line: &str,
    ) -> Result<Machine> {
        let built = self.built.get(&arch).context("both kernels are built")?;
        let mut machine = of_quire(arch, built, &format!("{mib}M"), &self.words, line);
        machine.initramfs = Some(built.initramfs.clone());
        machine.smp = cpus;
        if side == Side::Linux {
            let kernel = self.linux(arch).context("a Linux for each machine")?;
            machine.image.clone_from(&kernel.image);
            machine.command_line = linux::words(arch, line);
        }
        Ok(machine)
    }

    /// Gives the kernel of a machine a swap area of the same size on both sides.
    pub fn swap(&self, machine: &mut Machine, side: Side) {
        match side {
            Side::Quire => machine.command_line = format!("{ZRAM} {}", machine.command_line),
            Side::Linux => {
                if let Some(initramfs) = self.swap.get(&machine.arch) {
                    machine.initramfs = Some(initramfs.clone());
                }
            }
        }
    }
}

/// How Quire is told to swap. The size is what `bench` gives Linux's device.
pub const ZRAM: &str = "zram=256M";

/// For each machine the initramfs with which a Linux swaps; none, and a line that says so, where
/// its modules cannot be had.
pub fn all_with_zram(kernels: &Kernels) -> BTreeMap<Arch, PathBuf> {
    let mut found = BTreeMap::new();
    for kernel in &kernels.linux {
        match with_zram(kernel, &kernels.built[&kernel.arch]) {
            Ok(path) => _ = found.insert(kernel.arch, path),
            Err(why) => eprintln!("run.sh: Linux on {} does not swap: {why:#}", kernel.arch),
        }
    }
    found
}

/// The initramfs with a Linux's module zram behind it.
pub fn with_zram(kernel: &Kernel, built: &Built) -> Result<PathBuf> {
    let mut archive = fs::read(&built.initramfs)?;
    add_zram(kernel, &mut archive)?;
    let path = built.initramfs.with_extension("zram.cpio");
    build::replace(&path, &archive)?;
    Ok(path)
}

/// Adds a Linux's module zram to an initramfs.
pub fn add_zram(kernel: &Kernel, archive: &mut Vec<u8>) -> Result<()> {
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend(linux::zram(kernel)?);
    Ok(())
}

/// Quire for these machines.
pub fn built(arches: &[Arch]) -> Result<BTreeMap<Arch, Built>> {
    let built = |arch: &Arch| Ok((*arch, build::build(*arch, false)?));
    arches.iter().map(built).collect()
}
