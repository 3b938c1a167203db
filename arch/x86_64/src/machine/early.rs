//! The first mapping: physical 0.. at 0 (for the switch of modes itself) and at the direct map, the
//! first 2 GiB at the image's base. With 1 GiB pages the direct map covers 512 GiB, without them
//! [`SMALL_LIMIT`]; all tables are static and lie in the image.
//!
//! `head` fills them after PVH. Limine comes in 64-bit mode on tables of its own, with the image
//! anywhere: [`map_again`] makes the same mapping from there, so that the rest of boot deals with
//! one kind of tables.

use super::{features, image};
use crate::far;
use core::arch::asm;
use mm::addr::{PAGE_SIZE, PhysRange};

/// Bytes of physical memory that the early direct map covers when the CPU has no 1 GiB pages.
pub const SMALL_LIMIT: u64 = (PD_TABLES as u64) << 30;
/// Bytes of physical memory that the early direct map covers when the CPU has 1 GiB pages.
pub const LARGE_LIMIT: u64 = 512 << 30;
/// Page directories, each of 1 GiB, for CPUs without 1 GiB pages.
pub(crate) const PD_TABLES: usize = 16;

/// A 2 MiB or 1 GiB entry: present, writable, large.
const LARGE: u64 = 0x83;
/// PCD and PWT: the MTRRs that firmware sets may not cover devices at high addresses.
const UNCACHED: u64 = 0x18;
/// A table's entry: present, writable.
const TABLE: u64 = 3;

type Table = [u64; 512];

unsafe extern "C" {
    static boot_stack_bottom: u8;
    static mut early_pml4: Table;
    static mut early_pdpt: Table;
    static mut early_image_pdpt: Table;
    static mut early_image_pd: Table;
    static mut early_pd: [Table; PD_TABLES];
    static mut early_far_pdpt: Table;
}

/// Bytes of physical memory that the early direct map covers on this CPU.
pub fn limit() -> u64 {
    if features::get().pages_1g {
        LARGE_LIMIT
    } else {
        SMALL_LIMIT
    }
}

/// Fills the early tables for an image whose first byte is at `image` and moves onto them.
///
/// # Safety
/// Called once, with the image mapped where it is linked; `image` is on a 2 MiB boundary; nothing
/// else that the running tables map is used afterwards.
pub unsafe fn map_again(image: u64) {
    let link = |table: u64| table | TABLE;
    // SAFETY: the boot CPU, once: nothing else uses the early tables, which lie in the image and
    // are all zeros.
    unsafe {
        for i in 0..512u64 {
            early_pdpt[i as usize] = i << 30 | LARGE;
            // The image's gigabyte begins 2 MiB below it; no page is there.
            if i > 0 {
                early_image_pd[i as usize] = (image + ((i - 1) << 21)) | LARGE;
            }
        }
        if !features::get().pages_1g {
            early_pdpt = [0; 512];
            for i in 0..PD_TABLES * 512 {
                early_pd[i / 512][i % 512] = (i as u64) << 21 | LARGE;
            }
            for i in 0..PD_TABLES {
                early_pdpt[i] = link(image::physical(&raw const early_pd[i]));
            }
        }
        early_image_pdpt[510] = link(image::physical(&raw const early_image_pd));
        early_pml4[256] = link(image::physical(&raw const early_pdpt));
        early_pml4[511] = link(image::physical(&raw const early_image_pdpt));
        asm!("mov cr3, {}", in(reg) image::physical(&raw const early_pml4), options(nostack, preserves_flags));
    }
}

/// Maps a framebuffer beyond the early direct map, as graphics cards of PCs with large address
/// spaces have. False when it cannot be mapped at all.
///
/// # Safety
/// Called once, on the early tables.
pub unsafe fn reach(screen: PhysRange) -> bool {
    if screen.end.0 <= limit() {
        return true;
    }
    let Some((slot, gigabytes)) = far::place(screen).filter(|_| features::get().pages_1g) else {
        return false;
    };
    // SAFETY: the boot CPU, once: nothing else uses the early tables. Absent entries are in no TLB.
    unsafe {
        for gigabyte in gigabytes {
            early_far_pdpt[gigabyte as usize % 512] = gigabyte << 30 | LARGE | UNCACHED;
        }
        early_pml4[256 + slot] = image::physical(&raw const early_far_pdpt) | TABLE;
    }
    true
}

/// Whether a fault at `at` means that the boot stack has overflowed into the page below it.
pub fn below_boot_stack(at: u64) -> bool {
    let bottom = (&raw const boot_stack_bottom).addr() as u64;
    (bottom - PAGE_SIZE..bottom).contains(&at)
}
