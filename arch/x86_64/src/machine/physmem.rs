//! Physical memory through the direct map: page-table entries, one or a run of them, and the
//! contents of frames.

use super::direct_map;
use super::tlb::Hardware;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use mm::addr::{Order, Pfn, PhysAddr};
use mm::arch::{Level, PhysMem, Place, TABLE_ENTRIES, agreeing, all_zero, copying};

#[inline]
fn entries(table: Pfn) -> &'static [AtomicU64; TABLE_ENTRIES] {
    // SAFETY: a frame that the memory manager owns as a table, through the direct map; its entries
    // are only used as atomics.
    unsafe { &*direct_map::pointer::<[AtomicU64; TABLE_ENTRIES]>(table.start().0) }
}

#[inline]
fn entry(table: Pfn, index: usize) -> &'static AtomicU64 {
    &entries(table)[index]
}

impl PhysMem for Hardware {
    #[inline]
    fn load(&self, table: Pfn, index: usize) -> u64 {
        entry(table, index).load(Ordering::Acquire)
    }
    #[inline]
    fn store(&self, table: Pfn, index: usize, raw: u64) {
        // Release pairs with `load`; the walker is coherent, and the way to user mode serialises.
        entry(table, index).store(raw, Ordering::Release);
    }
    #[inline]
    fn store_run(&self, table: Pfn, index: usize, n: usize, raw: u64, step: u64) {
        let mut next = raw;
        for entry in &entries(table)[index..index + n] {
            // As in `store`.
            entry.store(next, Ordering::Release);
            next = next.wrapping_add(step);
        }
    }
    #[inline]
    fn agree(&self, table: Pfn, index: usize, n: usize, raw: u64, step: u64, mask: u64) -> usize {
        // Relaxed: nothing is done with what the entries point to.
        let load = |entry: &AtomicU64| entry.load(Ordering::Relaxed);
        agreeing(&entries(table)[index..index + n], load, (raw, step, mask))
    }
    #[inline]
    fn copy_run(
        &self,
        (from, to): (Pfn, Pfn),
        index: usize,
        n: usize,
        raw: u64,
        new: u64,
        step: u64,
    ) -> usize {
        let (from, to) = (
            &entries(from)[index..index + n],
            &entries(to)[index..index + n],
        );
        // Stores are not reordered on x86; as in `store`.
        compiler_fence(Ordering::Release);
        copying(
            (from, to),
            (
                |entry: &AtomicU64| entry.load(Ordering::Relaxed),
                |entry: &AtomicU64, raw| entry.store(raw, Ordering::Relaxed),
            ),
            (raw, new, step),
        )
    }
    #[inline]
    fn is_zero(&self, table: Pfn, index: usize, n: usize) -> bool {
        all_zero(&entries(table)[index..index + n], |entry| {
            entry.load(Ordering::Relaxed)
        })
    }
    #[inline]
    fn freeze_run(&self, table: Pfn, index: usize, n: usize, _: Level, valid: u64) -> u32 {
        let mut found = 0;
        for entry in &entries(table)[index..index + n] {
            // What is absent stays so while the space is locked: no write is needed.
            if entry.load(Ordering::Relaxed) != 0 {
                entry.fetch_and(!valid, Ordering::AcqRel);
                found += 1;
            }
        }
        found
    }
    #[inline]
    fn move_run(&self, from: Place, to: Place, n: usize, f: impl Fn(u64) -> u64) -> u32 {
        let mut found = 0;
        let (from, to) = (&entries(from.0)[from.1..][..n], &entries(to.0)[to.1..][..n]);
        let mut one = |from: &AtomicU64, to: &AtomicU64| {
            let raw = from.load(Ordering::Relaxed);
            if raw != 0 {
                // As in `store`.
                to.store(f(raw), Ordering::Release);
                from.store(0, Ordering::Relaxed);
                found += 1;
            }
        };
        // By eight: counting the rounds costs as much as an entry.
        let ((from, from_rest), (to, to_rest)) = (from.as_chunks::<8>(), to.as_chunks::<8>());
        for (from, to) in from.iter().zip(to) {
            (0..8).for_each(|i| one(&from[i], &to[i]));
        }
        for (from, to) in from_rest.iter().zip(to_rest) {
            one(from, to);
        }
        found
    }
    #[inline]
    fn swap(&self, table: Pfn, index: usize, raw: u64) -> u64 {
        entry(table, index).swap(raw, Ordering::AcqRel)
    }
    #[inline]
    fn compare_exchange(&self, table: Pfn, index: usize, old: u64, new: u64) -> Result<(), u64> {
        entry(table, index)
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
