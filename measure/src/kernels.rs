//! Both kernels, and the machines that they are booted on.
use crate::bench::of_quire;
use crate::counting::Counting;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
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
}

/// Quire for these machines.
pub fn built(arches: &[Arch]) -> Result<BTreeMap<Arch, Built>> {
    let built = |arch: &Arch| Ok((*arch, build::build(*arch, false)?));
    arches.iter().map(built).collect()
}
