//! The machine behind `mm::arch::Machine`: memory through the direct map, TLB maintenance of this CPU, CR3.

use crate::boot::physical;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use mm::addr::{Order, PAGE_SIZE, Pfn, PhysAddr, VirtAddr, VirtRange};
use mm::arch::{
    Asid, Cpu, Level, Machine, PhysMem, Place, TABLE_ENTRIES, Tlb, agreeing, all_zero, copying,
};
use x86_64::instructions::tlb::flush as invlpg;
use x86_64::registers::control::{Cr4, Cr4Flags};

/// This machine. A unit value: the state is in hardware.
pub struct Hardware;

/// Above this many entries one reload of CR3 is cheaper than an INVLPG for each.
const SINGLE_FLUSHES: u64 = 32;

static KERNEL_ROOT: AtomicU64 = AtomicU64::new(0);

pub(crate) fn set_kernel_root(root: Pfn) {
    KERNEL_ROOT.store(root.0, Ordering::Relaxed);
}

/// # Safety
/// `root` maps the kernel half as the kernel needs it.
pub(crate) unsafe fn write_cr3(root: Pfn) {
    // SAFETY: the caller's promise. Also drops every entry that is not global (SDM Vol 3, 4.10.4.1).
    unsafe { asm!("mov cr3, {}", in(reg) root.start().0, options(nostack, preserves_flags)) }
}

fn reload_cr3() {
    // SAFETY: writes back what is there.
    unsafe { asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack, preserves_flags)) }
}

#[inline]
fn entries(table: Pfn) -> &'static [AtomicU64; TABLE_ENTRIES] {
    // SAFETY: a frame that the memory manager owns as a table, through the direct map; its entries are only used as atomics.
    unsafe { &*physical::<[AtomicU64; TABLE_ENTRIES]>(table.start().0) }
}

#[inline]
fn entry(table: Pfn, index: usize) -> &'static AtomicU64 {
    &entries(table)[index]
}

impl Machine for Hardware {
    type Pte = crate::pte::Format;
    type Mem = Self;
    type Tlb = Self;
    type Cpu = Self;

    #[inline]
    fn mem(&self) -> &Self {
        self
    }
    #[inline]
    fn tlb(&self) -> &Self {
        self
    }
    #[inline]
    fn cpu(&self) -> &Self {
        self
    }
    fn prepare_root(&self, root: Pfn) {
        let kernel = Pfn(KERNEL_ROOT.load(Ordering::Relaxed));
        let half = TABLE_ENTRIES as u64 / 2;
        let at = |table: Pfn| physical::<u64>(table.start().0 + half * 8);
        // SAFETY: the new root is the caller's and not in use yet; the kernel's root lives for ever, and nothing changes it
        // meanwhile: the upper half of two tables.
        unsafe {
            asm!("rep movsq", inout("rcx") half => _, inout("rsi") at(kernel) => _, inout("rdi") at(root) => _,
                options(nostack, preserves_flags))
        }
    }
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
            asm!("rep stosq", inout("rcx") order.bytes() / 8 => _, inout("rdi") physical::<u64>(first.start().0) => _,
                in("rax") 0, options(nostack, preserves_flags))
        }
    }
    #[inline]
    fn copy(&self, from: Pfn, to: Pfn, order: Order) {
        // SAFETY: the caller owns the target, may read the source, and they are different folios.
        unsafe {
            asm!("rep movsq", inout("rcx") order.bytes() / 8 => _, inout("rsi") physical::<u64>(from.start().0) => _,
                inout("rdi") physical::<u64>(to.start().0) => _, options(nostack, preserves_flags))
        }
    }
    fn read(&self, from: PhysAddr, into: &mut [u8]) {
        // SAFETY: the caller owns the frames; user mode may write them meanwhile, so the bytes are copied without a reference.
        unsafe { copy_bytes(into.as_mut_ptr(), physical(from.0), into.len()) }
    }
    fn write(&self, to: PhysAddr, from: &[u8]) {
        // SAFETY: the caller owns the frames.
        unsafe { copy_bytes(physical(to.0), from.as_ptr(), from.len()) }
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

impl Tlb for Hardware {
    // Without PCID every space has ASID 0, which is flushed whenever it is switched to: only what is active now can be stale.
    // INVLPG and a CR3 write both drop all cached pointers to tables (SDM Vol 3, 4.10.4.1), so `tables` needs nothing more.
    #[inline]
    fn flush_range(&self, _asid: Asid, range: VirtRange, stride: Level, _tables: bool) {
        if range.len() >> stride.shift() > SINGLE_FLUSHES {
            return reload_cr3();
        }
        let mut at = range.start.0;
        while at < range.end.0 {
            invlpg(x86_64::VirtAddr::new_truncate(at));
            at += stride.bytes();
        }
    }
    #[inline]
    fn widened(&self, _asid: Asid, _va: VirtAddr) -> bool {
        // The page fault itself has dropped this CPU's entries for the address (SDM Vol 3A, 4.10.4.1), so another one comes at most
        // once on another CPU (4.10.4.3 "Optional Invalidation": R/W from 0 to 1).
        false
    }
    #[inline]
    fn flush_page(&self, _asid: Asid, va: VirtAddr) {
        invlpg(x86_64::VirtAddr::new_truncate(va.0));
    }
    fn flush_asid(&self, _asid: Asid) {
        reload_cr3();
    }
    fn flush_kernel(&self, range: VirtRange) {
        if range.len() / PAGE_SIZE > SINGLE_FLUSHES {
            // Clearing CR4.PGE drops everything, global entries too.
            // SAFETY: only the bit that says whether entries may be global.
            unsafe {
                Cr4::update(|f| f.remove(Cr4Flags::PAGE_GLOBAL));
                Cr4::update(|f| f.insert(Cr4Flags::PAGE_GLOBAL));
            }
            return;
        }
        for page in 0..range.len().div_ceil(PAGE_SIZE) {
            invlpg(x86_64::VirtAddr::new_truncate(
                range.start.0 + page * PAGE_SIZE,
            ));
        }
    }
}

impl Cpu for Hardware {
    #[inline]
    fn id(&self) -> usize {
        0
    }
    #[inline]
    fn count(&self) -> usize {
        1
    }
    #[inline]
    fn asids(&self) -> usize {
        1
    }
    #[inline]
    fn activate(&self, root: Pfn, _asid: Asid) {
        // SAFETY: `prepare_root` gave the root the kernel half.
        unsafe { write_cr3(root) }
    }
}
