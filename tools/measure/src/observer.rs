//! What a model is told of: each access, each fetch of a line of code, and what changes how
//! addresses are translated. A model that needs more is given more here, not in the plugin.
use crate::counts::Mode;
use crate::insn::{Flush, Root};

/// One access to memory that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its virtual address.
    pub address: u64,
    /// Its physical address.
    pub physical: u64,
    /// Its size in bytes, at most 64.
    pub bytes: u32,
    /// Whether it wrote.
    pub is_store: bool,
    /// Whether it is part of an atomic update.
    pub is_atomic: bool,
    /// The mode of the instruction.
    pub mode: Mode,
}

/// A model of the hardware. Accesses and fetches arrive from the first mark on, also between
/// measurements, so that caches are as warm as they would be; roots and flushes from the start of
/// the machine.
pub trait Observer: Send {
    /// An access of a CPU, after it was done.
    fn access(&mut self, cpu: usize, access: &Access);
    /// The first instruction of a line of code begins, or of a block of code; `bytes` is its size.
    fn fetch(&mut self, cpu: usize, address: u64, bytes: u32);
    /// A register that page tables depend on gets a value.
    fn root(&mut self, cpu: usize, root: Root, value: u64);
    /// A CPU flushes translations.
    fn flush(&mut self, cpu: usize, flush: &Flush);
    /// A measurement begins: figures start at zero, and what is cached stays.
    fn begin(&mut self);
    /// What a CPU did since then: names and numbers, in an order that is always the same.
    fn figures(&self, cpu: usize) -> Vec<(String, u64)>;
}
