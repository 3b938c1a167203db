//! The first direct map: RAM and devices until the kernel has its own tables.

use super::{image, regs};
use crate::fdt::REACH;
use crate::pte::Format;
use arch_boot::DIRECT_MAP;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use mm::addr::{PhysAddr, PhysRange, VirtAddr};
use mm::arch::{Attrs, Entry, Level, PteFormat};

#[repr(C, align(4096))]
struct Table([AtomicU64; 512]);

/// Tables for the direct map: each gigabyte that is not all RAM takes one, and each 2 MiB with
/// devices.
const TABLES: usize = 40;
static POOL: [Table; TABLES] = [const { Table([const { AtomicU64::new(0) }; 512]) }; TABLES];
static USED: AtomicUsize = AtomicUsize::new(0);

/// The table at a physical address, made by [`new_table`] or the head.
fn table(at: PhysAddr) -> &'static Table {
    // SAFETY: early tables lie in the image, which is mapped at its link address, and are only used
    // through atomics.
    unsafe { &*image::pointer(at) }
}

fn new_table() -> PhysAddr {
    let index = USED.fetch_add(1, Ordering::Relaxed);
    let table = POOL
        .get(index)
        .expect("too many separate ranges of RAM and devices for the first tables");
    image::physical(table)
}

/// The entry for `va` at `level` in the tables of TTBR1; missing tables above it are made.
fn entry(va: VirtAddr, level: Level) -> Option<&'static AtomicU64> {
    let mut at = PhysAddr(regs::read!("ttbr1_el1") & 0xffff_ffff_f000);
    let mut above = Level::Pgd;
    loop {
        let slot = &table(at).0[above.index(va)];
        if above == level {
            return Some(slot);
        }
        at = match Format::decode(slot.load(Ordering::Relaxed), above) {
            Entry::Table(next) => next.start(),
            Entry::Leaf { .. } | Entry::Shared(_) => return None,
            Entry::Absent => {
                let next = new_table();
                // The walker, another observer, sees the zeros in the table before the way to it.
                slot.store(Format::table(next.frame()), Ordering::Release);
                next
            }
        };
        above = above.lower()?;
    }
}

/// Maps a leaf of `level` at physical address `at`, if nothing is mapped there.
fn map_block(at: u64, attrs: Attrs, level: Level) {
    let Some(slot) = entry(VirtAddr(DIRECT_MAP + at), level) else {
        return;
    };
    if Format::decode(slot.load(Ordering::Relaxed), level) == Entry::Absent {
        slot.store(
            Format::leaf(PhysAddr(at).frame(), attrs, level),
            Ordering::Relaxed,
        );
    }
}

/// Whether a table is where a leaf of `level` would be.
fn has_table(at: u64, level: Level) -> bool {
    let slot = entry(VirtAddr(DIRECT_MAP + at), level);
    slot.is_some_and(|slot| {
        matches!(
            Format::decode(slot.load(Ordering::Relaxed), level),
            Entry::Table(_)
        )
    })
}

/// Maps `range` in the direct map, as far as it is in reach: RAM by blocks of 2 MiB at least,
/// devices by pages, so that RAM beside them stays RAM. Existing mappings stay.
pub(crate) fn map(range: PhysRange, device: bool) {
    let mut attrs = Attrs::WRITE | Attrs::DIRTY | Attrs::ACCESSED | Attrs::GLOBAL;
    attrs.set(Attrs::DEVICE, device);
    let least = if device { Level::Pte } else { Level::Pmd };
    let end = range.end.0.min(REACH);
    let mut at = range.start.0 & !(least.bytes() - 1);
    while at < end {
        let fits = |level: &Level| at.is_multiple_of(level.bytes()) && end - at >= level.bytes();
        let mut level = [Level::Pud, Level::Pmd]
            .into_iter()
            .find(fits)
            .unwrap_or(least);
        // Where a table is already, its entries are filled.
        while let (true, Some(lower)) = (has_table(at, level), level.lower()) {
            level = lower;
        }
        map_block(at & !(level.bytes() - 1), attrs, level);
        at = (at & !(level.bytes() - 1)) + level.bytes();
    }
    // The walker sees the entries before anything uses them.
    regs::dsb_ish();
    regs::isb();
}
