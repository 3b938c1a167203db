#![allow(missing_docs)]
//! SKELETON: one memory manager as a value.
use crate::addr::*;
use crate::arch::Machine;
use alloc::sync::Arc;
use alloc::boxed::Box;

/// Metadata of one 4 KiB frame: at most 32 bytes.
#[derive(Default)]
pub struct FrameMeta(pub [u32; 4]);

/// The memory manager: machine, frame table, allocator, zero page, counters.
pub struct Mm<M: Machine> { machine: M }

/// Frames by use (for /proc/meminfo, leak checks).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts { pub total: u64, pub free: u64, pub anon: u64, pub object: u64, pub page_tables: u64, pub kernel: u64 }

impl<M: Machine> Mm<M> {
    /// `frames` describes frames `first ..`; `free` lists what the allocator may hand out.
    pub fn new(machine: M, first: Pfn, frames: &'static mut [FrameMeta], free: &[PfnRange]) -> Arc<Self> { let _ = (first, frames, free); Arc::new(Mm { machine }) }
    pub fn machine(&self) -> &M { &self.machine }
    /// 2^order frames for the kernel itself (heap, stacks); not zeroed. May use the reserve that user allocations may not.
    pub fn alloc_kernel(&self, order: Order) -> Option<Pfn> { let _ = order; todo!() }
    pub fn free_kernel(&self, pfn: Pfn, order: Order) { let _ = (pfn, order); todo!() }
    pub fn counts(&self) -> FrameCounts { todo!() }
    /// Event counters, named as in /proc/vmstat where Linux has a name: calls `f(name, value)` for each.
    pub fn for_each_event(&self, f: &mut dyn FnMut(&'static str, u64)) { let _ = f; todo!() }
    /// One event counter by its /proc/vmstat name.
    pub fn event(&self, name: &str) -> Option<u64> { let _ = name; todo!() }
}

/// The kernel's own half: maps direct map, image, device windows, stacks with the largest entries that fit.
pub struct KernelSpace<M: Machine>(Arc<Mm<M>>);
impl<M: Machine> KernelSpace<M> {
    /// Takes over `root` as the kernel's table (the tables under it are allocated from `mm`).
    pub fn new(mm: Arc<Mm<M>>, root: Pfn) -> Self { let _ = root; KernelSpace(mm) }
    /// Maps `va ..` to `pa ..` with the largest entries that fit. Was absent before.
    pub fn map(&self, va: VirtRange, pa: PhysAddr, attrs: crate::arch::Attrs) -> Result<(), OutOfMemory> { let _ = (va, pa, attrs); todo!() }
    /// Unmaps and flushes.
    pub fn unmap(&self, va: VirtRange) { let _ = va; todo!() }
    pub fn mm(&self) -> &Arc<Mm<M>> { &self.0 }
}

/// No frame could be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;
