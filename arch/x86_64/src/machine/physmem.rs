//! Physical memory through the direct map: page-table entries, one or a run of them, and the
//! contents of frames.

use super::direct_map;
use super::tlb::Hardware;
use arch_boot::rows;
use core::arch::asm;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use mm::addr::{Order, Pfn, PhysAddr};
use mm::arch::{Blank, Level, Live, PhysMem, Row, Series, Settled, TABLE_ENTRIES, Unwalked};

#[inline]
fn table(frame: Pfn) -> &'static [AtomicU64; TABLE_ENTRIES] {
    // SAFETY: a frame that the memory manager owns as a table, through the direct map; its entries
    // are only used as atomics.
    unsafe { &*direct_map::pointer::<[AtomicU64; TABLE_ENTRIES]>(frame.start().0) }
}

#[inline(always)]
fn entries(row: Row) -> &'static [AtomicU64] {
    &table(row.table)[row.index..row.index + row.n]
}

/// Precedes relaxed stores of entries, which pair with `load`: x86 does not reorder stores.
#[inline]
fn publish() {
    compiler_fence(Ordering::Release);
}

impl PhysMem for Hardware {
    #[inline]
    fn load(&self, table: Pfn, index: usize) -> u64 {
        self::table(table)[index].load(Ordering::Acquire)
    }
    #[inline]
    fn store(&self, table: Pfn, index: usize, raw: u64) {
        // Release pairs with `load`; the walker is coherent, and the way to user mode serialises.
        self::table(table)[index].store(raw, Ordering::Release);
    }
    #[inline(always)]
    fn agree(&self, row: Row, like: Series, mask: u64) -> usize {
        rows::agree(entries(row), like, mask)
    }
    #[inline(always)]
    fn is_zero(&self, row: Row) -> bool {
        rows::is_zero(entries(row))
    }
    #[inline(always)]
    fn store_run(&self, Blank(row): Blank, mut new: Series) {
        for entry in entries(row) {
            // As in `store`.
            entry.store(new.raw, Ordering::Release);
            new = new.after(1);
        }
    }
    #[inline(always)]
    fn replace_run(&self, Settled(row): Settled, old: Series, new: u64) -> usize {
        publish();
        rows::replace(entries(row), old, new)
    }
    #[inline(always)]
    fn copy_run(&self, Settled(row): Settled, to: Pfn, old: Series, new: u64) -> usize {
        publish();
        rows::copy(entries(row), entries(Row { table: to, ..row }), old, new)
    }
    #[inline(always)]
    fn freeze_run(&self, Live(row): Live, _: Level, valid: u64) -> u32 {
        let mut found = 0;
        for entry in entries(row) {
            // What is absent stays so while the space is locked: no write is needed.
            if entry.load(Ordering::Relaxed) != 0 {
                entry.fetch_and(!valid, Ordering::AcqRel);
                found += 1;
            }
        }
        found
    }
    #[inline(always)]
    fn move_run(&self, from: Unwalked, to: Blank, f: impl Fn(u64) -> u64) -> u32 {
        publish();
        rows::carry(entries(from.0), entries(to.0), f)
    }
    #[inline]
    fn swap(&self, table: Pfn, index: usize, raw: u64) -> u64 {
        self::table(table)[index].swap(raw, Ordering::AcqRel)
    }
    #[inline]
    fn compare_exchange(&self, table: Pfn, index: usize, old: u64, new: u64) -> Result<(), u64> {
        self::table(table)[index]
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
    }
    #[inline]
    fn zero(&self, first: Pfn, order: Order) {
        // SAFETY: the caller owns these frames.
        unsafe {
            asm!("rep stosq", inout("rcx") order.bytes() / 8 => _, inout("rdi") direct_map::pointer::<u64>(first.start().0) => _,
                in("rax") 0, options(nostack, preserves_flags))
        }
    }
    #[inline]
    fn copy(&self, from: Pfn, to: Pfn, order: Order) {
        // SAFETY: the caller owns the target, may read the source, and they are different folios.
        unsafe {
            asm!("rep movsq", inout("rcx") order.bytes() / 8 => _, inout("rsi") direct_map::pointer::<u64>(from.start().0) => _,
                inout("rdi") direct_map::pointer::<u64>(to.start().0) => _, options(nostack, preserves_flags))
        }
    }
    fn read(&self, from: PhysAddr, into: &mut [u8]) {
        // SAFETY: the caller owns the frames; user mode may write them meanwhile, so the bytes are
        // copied without a reference.
        unsafe { copy_bytes(into.as_mut_ptr(), direct_map::pointer(from.0), into.len()) }
    }
    fn write(&self, to: PhysAddr, from: &[u8]) {
        // SAFETY: the caller owns the frames.
        unsafe { copy_bytes(direct_map::pointer(to.0), from.as_ptr(), from.len()) }
    }
    fn in_place(&self, at: PhysAddr, len: u64, f: &mut dyn FnMut(&mut [u8])) {
        // SAFETY: the caller owns the bytes, and nobody else can reach them meanwhile.
        f(unsafe { slice::from_raw_parts_mut(direct_map::pointer(at.0), len as usize) });
    }
}

/// # Safety
/// `len` bytes may be read at `from` and written at `to`, without overlap.
unsafe fn copy_bytes(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's promise; whole words first.
    unsafe {
        asm!("rep movsq", "mov rcx, {rest}", "rep movsb", rest = in(reg) len & 7, inout("rcx") len / 8 => _,
            inout("rsi") from => _, inout("rdi") to => _, options(nostack, preserves_flags))
    }
}
