//! The machine behind `mm::arch::Machine`: TLB maintenance of this CPU, CR3; its memory is in
//! `physmem`.

use super::direct_map;
use super::features;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use mm::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use mm::arch::{Asid, Cpu, Level, Machine, TABLE_ENTRIES, Tlb};
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

/// The root of the kernel half, with nothing in the user's: what a CPU without a space has loaded.
pub(crate) fn kernel_root() -> Pfn {
    Pfn(KERNEL_ROOT.load(Ordering::Relaxed))
}

/// # Safety
/// `root` maps the kernel half as the kernel needs it.
pub(crate) unsafe fn write_cr3(root: Pfn) {
    // SAFETY: the caller's promise. Also drops every entry that is not global (SDM Vol 3,
    // 4.10.4.1).
    unsafe { asm!("mov cr3, {}", in(reg) root.start().0, options(nostack, preserves_flags)) }
}

fn reload_cr3() {
    // SAFETY: writes back what is there.
    unsafe { asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack, preserves_flags)) }
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
    fn largest_leaf(&self) -> Level {
        // Without the feature PS is reserved in a PDPTE, and each use of it faults (SDM Vol 3,
        // 4.5.4).
        if features::get().pages_1g {
            Level::Pud
        } else {
            Level::Pmd
        }
    }
    fn prepare_root(&self, root: Pfn) {
        let kernel = kernel_root();
        let half = TABLE_ENTRIES as u64 / 2;
        let at = |table: Pfn| direct_map::pointer::<u64>(table.start().0 + half * 8);
        // SAFETY: the new root is the caller's and not in use yet; the kernel's root lives for
        // ever, and nothing changes it meanwhile: the upper half of two tables.
        unsafe {
            asm!("rep movsq", inout("rcx") half => _, inout("rsi") at(kernel) => _, inout("rdi") at(root) => _,
                options(nostack, preserves_flags))
        }
    }
}

impl Tlb for Hardware {
    // Without PCID every space has ASID 0, which is flushed whenever it is switched to: only what
    // is active now can be stale. INVLPG and a CR3 write both drop all cached pointers to tables
    // (SDM Vol 3, 4.10.4.1), so `tables` needs nothing more.
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
        // The page fault itself has dropped this CPU's entries for the address (SDM Vol 3A,
        // 4.10.4.1), so another one comes at most once on another CPU (4.10.4.3 "Optional
        // Invalidation": R/W from 0 to 1).
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
