//! Physical memory through the direct map: page-table entries, one or a run of them, and the
//! contents of frames.

use super::tlb::Hardware;
use super::{features, icache, pairs, regs};
use crate::pte::bits;
use arch_boot::{DIRECT_MAP, rows};
use core::arch::asm;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use mm::addr::*;
use mm::arch::*;

/// The address of a frame in the direct map.
#[inline]
fn mapped(frame: Pfn) -> *mut u8 {
    (DIRECT_MAP + frame.start().0) as *mut u8
}

#[inline]
fn table(frame: Pfn) -> &'static [AtomicU64; TABLE_ENTRIES] {
    // SAFETY: the memory manager owns the frame as a table; all its entries are only used through
    // atomics.
    unsafe { &*mapped(frame).cast() }
}

#[inline(always)]
fn slots(row: Row) -> &'static [AtomicU64] {
    &table(row.table)[row.index..row.index + row.n]
}

/// Makes a written entry visible to the walker. Kernel entries and tables may be used by the very
/// next instruction; for user entries the return to user mode synchronises.
#[inline]
fn written(raw: u64) {
    // SAFETY: barriers.
    unsafe {
        asm!("dsb ishst", options(nostack, preserves_flags));
        if raw & bits::NOT_GLOBAL == 0 {
            asm!("isb", options(nostack, preserves_flags));
        }
    }
}

/// [`PhysMem::store_run`], perhaps called.
#[inline]
fn store_row(row: &[AtomicU64], new: Series) {
    if new.step == 0 || row.len() == 1 {
        icache::before_mapping(new.raw);
    } else {
        (0..row.len()).for_each(|i| icache::before_mapping(new.at(i)));
    }
    // The stores below pair with `load`, as in `store`.
    fence(Ordering::Release);
    pairs::fill(row, new);
    written(new.raw);
}

/// [`PhysMem::copy_run`], perhaps called.
#[inline]
fn copy_row(from: Pfn, to: Pfn, index: usize, n: usize, old: Series, new: u64) -> usize {
    let [from, to] = [from, to].map(|table| slots(Row { table, index, n }));
    // As in `store_row`. What is mapped already was prepared for execution then.
    fence(Ordering::Release);
    let mut done = pairs::copy(from, to, old, new);
    if done < from.len() {
        let (old, new) = (old.after(done), Series { raw: new, ..old }.at(done));
        done += rows::copy(&from[done..], &to[done..], old, new);
    }
    written(bits::NOT_GLOBAL);
    done
}

impl PhysMem for Hardware {
    #[inline]
    fn load(&self, table: Pfn, index: usize) -> u64 {
        // Pairs with the release in `store`, `swap` and `compare_exchange`.
        self::table(table)[index].load(Ordering::Acquire)
    }
    #[inline]
    fn store(&self, table: Pfn, index: usize, raw: u64) {
        icache::before_mapping(raw);
        // Pairs with `load`: an observer of the entry also observes the contents of what it points
        // to.
        self::table(table)[index].store(raw, Ordering::Release);
        written(raw);
    }
    #[inline]
    fn store_again(&self, table: Pfn, index: usize, raw: u64) {
        // As in `store`. The table's flush, or its first use by a CPU, has the barrier.
        self::table(table)[index].store(raw, Ordering::Release);
    }
    #[inline(always)]
    fn agree(&self, row: Row, like: Series, mask: u64) -> usize {
        rows::agree(slots(row), like, mask)
    }
    #[inline(always)]
    fn is_zero(&self, row: Row) -> bool {
        rows::is_zero(slots(row))
    }
    #[inline(always)]
    fn store_run(&self, Blank(row): Blank, new: Series) {
        store_row(slots(row), new);
    }
    #[inline(always)]
    fn copy_run(&self, Settled(row): Settled, to: Pfn, old: Series, new: u64) -> usize {
        copy_row(row.table, to, row.index, row.n, old, new)
    }
    #[inline(always)]
    fn freeze_run(&self, Live(row): Live, level: Level, valid: u64) -> u32 {
        let mut found = 0;
        for slot in slots(row) {
            let raw = slot.load(Ordering::Relaxed);
            // What is absent stays so while the space is locked: no write is needed.
            if raw == 0 {
                continue;
            }
            found += 1;
            if level != Level::Pte && raw & bits::TABLE_OR_PAGE != 0 {
                // Hardware writes to leaves only: FEAT_HAFT is off.
                slot.store(raw & !valid, Ordering::Relaxed);
            } else {
                slot.fetch_and(!valid, Ordering::Relaxed);
            }
        }
        written(bits::NOT_GLOBAL);
        found
    }
    #[inline(always)]
    fn move_run(&self, from: Unwalked, to: Blank, f: impl Fn(u64) -> u64) -> u32 {
        // As in `store_row`.
        fence(Ordering::Release);
        let found = rows::carry(slots(from.0), slots(to.0), f);
        written(bits::NOT_GLOBAL);
        found
    }
    #[inline]
    fn swap(&self, table: Pfn, index: usize, raw: u64) -> u64 {
        icache::before_mapping(raw);
        // Both sides of the pair with `load`.
        let old = self::table(table)[index].swap(raw, Ordering::AcqRel);
        written(raw);
        old
    }
    #[inline]
    fn compare_exchange(&self, table: Pfn, index: usize, old: u64, new: u64) -> Result<(), u64> {
        icache::before_mapping(new);
        // As in `swap`.
        self::table(table)[index].compare_exchange(
            old,
            new,
            Ordering::AcqRel,
            Ordering::Acquire,
        )?;
        written(new);
        Ok(())
    }
    fn zero(&self, first: Pfn, order: Order) {
        let (start, end) = (mapped(first) as u64, mapped(first) as u64 + order.bytes());
        // DC ZVA zeroes 4 << BS bytes unless DZP forbids it.
        let id = regs::read!("dczid_el0");
        if features::has_mops() {
            // SAFETY: the frames are the caller's; the three instructions belong together and
            // change what is named.
            unsafe {
                asm!(
                    ".arch_extension mops", "setp [{at}]!, {n}!, xzr", "setm [{at}]!, {n}!, xzr", "sete [{at}]!, {n}!, xzr",
                    at = inout(reg) start => _, n = inout(reg) order.bytes() => _, options(nostack),
                );
            }
        } else if id & 1 << 4 == 0 {
            // SAFETY: the frames are the caller's, and blocks are at most 2 KiB, so whole frames
            // are whole blocks.
            unsafe {
                asm!(
                    "2: dc zva, {at}", "add {at}, {at}, {block}", "dc zva, {at}", "add {at}, {at}, {block}",
                    "cmp {at}, {end}", "b.lo 2b",
                    at = inout(reg) start => _, block = in(reg) 4u64 << (id & 0xf), end = in(reg) end, options(nostack),
                );
            }
        } else {
            // SAFETY: as above.
            unsafe {
                asm!(
                    "2: stp xzr, xzr, [{at}], #16", "stp xzr, xzr, [{at}], #16", "stp xzr, xzr, [{at}], #16",
                    "stp xzr, xzr, [{at}], #16", "cmp {at}, {end}", "b.lo 2b",
                    at = inout(reg) start => _, end = in(reg) end, options(nostack),
                );
            }
        }
    }
    #[inline]
    fn copy(&self, from: Pfn, to: Pfn, order: Order) {
        // SAFETY: both ranges of frames are the caller's and lie apart.
        unsafe { copy(mapped(to), mapped(from), order.bytes() as usize) };
    }
    #[inline]
    fn read(&self, from: PhysAddr, into: &mut [u8]) {
        // SAFETY: the range is the caller's memory, in the direct map.
        unsafe {
            copy(
                into.as_mut_ptr(),
                (DIRECT_MAP + from.0) as *const u8,
                into.len(),
            )
        };
    }
    fn code_changed(&self, at: PhysAddr) {
        icache::after_writing(at);
    }
    #[inline]
    fn write(&self, to: PhysAddr, from: &[u8]) {
        // SAFETY: as in `read`.
        unsafe { copy((DIRECT_MAP + to.0) as *mut u8, from.as_ptr(), from.len()) };
    }
    fn in_place(&self, at: PhysAddr, len: u64, f: &mut dyn FnMut(&mut [u8])) {
        let at = (DIRECT_MAP + at.0) as *mut u8;
        // SAFETY: as in `read`; nobody else can reach the bytes meanwhile.
        f(unsafe { slice::from_raw_parts_mut(at, len as usize) });
    }
}

/// Copies `n` bytes that lie apart: in three instructions where the CPU has them.
///
/// # Safety
/// Both ranges are mapped and owned by the caller.
unsafe fn copy(to: *mut u8, from: *const u8, n: usize) {
    if features::has_mops() {
        // SAFETY: the ranges are the caller's; the three instructions belong together and change
        // what is named.
        unsafe {
            asm!(
                ".arch_extension mops", "cpyfp [{to}]!, [{from}]!, {n}!", "cpyfm [{to}]!, [{from}]!, {n}!",
                "cpyfe [{to}]!, [{from}]!, {n}!",
                to = inout(reg) to => _, from = inout(reg) from => _, n = inout(reg) n => _, options(nostack),
            );
        }
        return;
    }
    // SAFETY: the ranges are the caller's.
    unsafe { core::ptr::copy_nonoverlapping(from, to, n) };
}
