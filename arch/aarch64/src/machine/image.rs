//! The image in physical memory.

use arch_boot::payload;
use core::sync::atomic::{AtomicU64, Ordering};
use mm::addr::{PhysAddr, PhysRange};

unsafe extern "C" {
    static __image_start: u8;
    static __image_end: u8;
}

/// Where `__image_start` is linked, see linker.ld.
const IMAGE_VIRTUAL: u64 = 0xffff_ffff_8020_0000;
/// Where `__image_start` was loaded.
static IMAGE: AtomicU64 = AtomicU64::new(0);

/// Records the physical address at which the image was loaded.
pub(crate) fn loaded_at(image: PhysAddr) {
    IMAGE.store(image.0, Ordering::Relaxed);
}

/// The physical address of something inside the image.
pub(crate) fn physical<T>(inside: *const T) -> PhysAddr {
    PhysAddr(inside as u64 - IMAGE_VIRTUAL + IMAGE.load(Ordering::Relaxed))
}

/// What lies inside the image at a physical address, where the image is linked.
pub(crate) fn pointer<T>(at: PhysAddr) -> *const T {
    (at.0 - IMAGE.load(Ordering::Relaxed) + IMAGE_VIRTUAL) as *const T
}

/// The image, loaded at `image`, and the payload that the image tool put behind it.
pub(crate) fn with_payload(image: PhysAddr) -> PhysRange {
    let (start, end) = (&raw const __image_start, &raw const __image_end);
    let behind = image + (end as u64 - start as u64);
    // SAFETY: loaders map the page behind the image, be it the payload's or just RAM; without a
    // payload this reads what was there, and the magic does not match.
    let bytes = payload::bytes(unsafe { *end.cast() });
    PhysRange::new(image, behind + bytes)
}
