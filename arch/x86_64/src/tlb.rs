//! SKELETON: the machine behind `mm::arch::Machine`.
use mm::addr::*;
use mm::arch::*;
/// This machine. A unit value: the state is in hardware.
pub struct Hardware;
impl Machine for Hardware {
    type Pte = super::pte::Format;
    type Mem = Self; type Tlb = Self; type Cpu = Self;
    fn mem(&self) -> &Self { self }
    fn tlb(&self) -> &Self { self }
    fn cpu(&self) -> &Self { self }
    fn prepare_root(&self, _root: Pfn) { todo!() }
}
impl PhysMem for Hardware {
    fn load(&self, _table: Pfn, _index: usize) -> u64 { todo!() }
    fn store(&self, _table: Pfn, _index: usize, _raw: u64) { todo!() }
    fn swap(&self, _table: Pfn, _index: usize, _raw: u64) -> u64 { todo!() }
    fn compare_exchange(&self, _table: Pfn, _index: usize, _old: u64, _new: u64) -> Result<(), u64> { todo!() }
    fn zero(&self, _first: Pfn, _order: Order) { todo!() }
    fn copy(&self, _from: Pfn, _to: Pfn, _order: Order) { todo!() }
    fn read(&self, _from: PhysAddr, _into: &mut [u8]) { todo!() }
    fn write(&self, _to: PhysAddr, _from: &[u8]) { todo!() }
}
impl Tlb for Hardware {
    fn flush_range(&self, _asid: Asid, _range: VirtRange, _stride: Level, _tables: bool) { todo!() }
    fn flush_asid(&self, _asid: Asid) { todo!() }
    fn flush_kernel(&self, _range: VirtRange) { todo!() }
}
impl Cpu for Hardware {
    fn id(&self) -> usize { 0 }
    fn count(&self) -> usize { 1 }
    fn asids(&self) -> usize { 1 }
    fn activate(&self, _root: Pfn, _asid: Asid) { todo!() }
}
