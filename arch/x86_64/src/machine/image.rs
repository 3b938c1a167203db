//! The image in physical memory.

use arch_boot::{memory, payload};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::addr::{PhysAddr, PhysRange};

/// Where the image's link address and its physical address differ: `linker.ld`'s KERNEL_BASE.
pub(crate) const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;

unsafe extern "C" {
    static __image_start: u8;
    static __image_end: u8;
}

/// Load address less link address of the image. PVH loads at the physical address of the program
/// header.
static OFFSET: AtomicU64 = AtomicU64::new(KERNEL_BASE.wrapping_neg());

/// Records the physical address at which the image was loaded.
pub(crate) fn loaded_at(start: u64) {
    let linked = (&raw const __image_start).addr() as u64;
    OFFSET.store(start.wrapping_sub(linked), Relaxed);
}

/// The physical address of something inside the image.
pub(crate) fn physical<T>(inside: *const T) -> u64 {
    (inside.addr() as u64).wrapping_add(OFFSET.load(Relaxed))
}

/// The image and the payload that the image tool put behind it, in whole pages.
pub(crate) fn with_payload() -> PhysRange {
    let end = &raw const __image_end;
    // SAFETY: the loader's and the early tables map the page behind the image, be it the payload's
    // or just RAM; without a payload this reads what was there, and the magic does not match.
    let payload = payload::bytes(unsafe { *end.cast() });
    let image = PhysRange::new(
        PhysAddr(physical(&raw const __image_start)),
        PhysAddr(physical(end) + payload),
    );
    memory::whole_pages_around(image)
}
