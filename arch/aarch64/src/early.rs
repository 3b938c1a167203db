//! The first direct map: RAM and devices in 1 GiB and 2 MiB blocks, until the kernel has its own tables.

use super::boot::DIRECT_MAP;
use super::pte::Format;
use super::regs;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use mm::addr::{PhysAddr, PhysRange, VirtAddr};
use mm::arch::{Attrs, Entry, Level, PteFormat};

/// Where `__image_start` is linked, see linker.ld.
const IMAGE_VIRTUAL: u64 = 0xffff_ffff_8020_0000;
/// Where `__image_start` was loaded.
static IMAGE: AtomicU64 = AtomicU64::new(0);

#[repr(C, align(4096))]
struct Table([AtomicU64; 512]);

/// Tables for the direct map: gigabytes that are not whole RAM take one each.
static POOL: [Table; 24] = [const { Table([const { AtomicU64::new(0) }; 512]) }; 24];
static USED: AtomicUsize = AtomicUsize::new(0);

/// Remembers where the image is.
pub(crate) fn init(image: PhysAddr) {
    IMAGE.store(image.0, Ordering::Relaxed);
}

/// The physical address of something inside the image.
pub(crate) fn physical<T>(inside_image: *const T) -> PhysAddr {
    PhysAddr(inside_image as u64 - IMAGE_VIRTUAL + IMAGE.load(Ordering::Relaxed))
}

/// The table at a physical address that [`new_table`] or the head gave out.
fn table(at: PhysAddr) -> &'static Table {
    let inside = at.0 - IMAGE.load(Ordering::Relaxed) + IMAGE_VIRTUAL;
    // SAFETY: early tables lie in the image, which is mapped at its link address, and are only used through atomics.
    unsafe { &*(inside as *const Table) }
}

fn new_table() -> PhysAddr {
    let index = USED.fetch_add(1, Ordering::Relaxed);
    let table = POOL
        .get(index)
        .expect("too many separate ranges of RAM and devices for the first tables");
    physical(table)
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
                slot.store(Format::table(next.frame()), Ordering::Relaxed);
                next
            }
        };
        above = above.lower()?;
    }
}

/// Maps the block of `level` at physical address `at`, if nothing is there.
fn map_block(at: u64, attrs: Attrs, level: Level) -> bool {
    let Some(slot) = entry(VirtAddr(DIRECT_MAP + at), level) else {
        return false;
    };
    let free = Format::decode(slot.load(Ordering::Relaxed), level) == Entry::Absent;
    if free {
        slot.store(
            Format::leaf(PhysAddr(at).frame(), attrs, level),
            Ordering::Relaxed,
        );
    }
    free
}

/// Maps `range` in the direct map by whole blocks (2 MiB at least); what is mapped already stays as it is.
pub(crate) fn map(range: PhysRange, device: bool) {
    let mut attrs = Attrs::WRITE | Attrs::DIRTY | Attrs::ACCESSED | Attrs::GLOBAL;
    attrs.set(Attrs::DEVICE, device);
    let mut at = range.start.0 & !(Level::Pmd.bytes() - 1);
    while at < range.end.0 {
        let whole = at.is_multiple_of(Level::Pud.bytes()) && range.end.0 - at >= Level::Pud.bytes();
        // A gigabyte that has a table already goes on by 2 MiB.
        let done = whole && map_block(at, attrs, Level::Pud);
        let level = if done { Level::Pud } else { Level::Pmd };
        if !done {
            map_block(at, attrs, Level::Pmd);
        }
        at += level.bytes();
    }
    // The walker sees the entries before anything uses them.
    regs::dsb_ish();
    regs::isb();
}
