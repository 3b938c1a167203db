//! CR3, and the root of the kernel half.

use super::direct_map;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use mm::addr::Pfn;
use mm::arch::TABLE_ENTRIES;

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

/// Gives a new root the kernel half.
pub(crate) fn prepare(root: Pfn) {
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
