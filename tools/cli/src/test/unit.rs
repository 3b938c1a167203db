//! A part of what runs in QEMU: each has one machine at a time, and they are run side by side.
use anyhow::Result;
use tools::host::arch::Arch;

/// A part of a run.
pub struct Unit<'a> {
    /// What the names of its tests begin with, with a full stop.
    pub names: Vec<String>,
    /// Runs it.
    pub run: Box<dyn FnOnce() -> Result<()> + Send + 'a>,
}

impl<'a> Unit<'a> {
    /// One whose tests' names begin so.
    pub fn new(names: Vec<String>, run: impl FnOnce() -> Result<()> + Send + 'a) -> Unit<'a> {
        let run = Box::new(run);
        Unit { names, run }
    }
}

/// What the names of a level's tests begin with, on an architecture with so many CPUs.
pub fn name(level: &str, arch: Arch, cpus: u32) -> String {
    match cpus {
        1 => format!("{level}.{arch}"),
        cpus => format!("{level}.{arch}.smp{cpus}"),
    }
}
