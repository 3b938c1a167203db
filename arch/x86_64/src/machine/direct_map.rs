//! Physical memory through the direct map.

use arch_boot::DIRECT_MAP;

/// A physical address as a pointer.
#[inline]
pub(crate) fn pointer<T>(at: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut((DIRECT_MAP + at) as usize)
}
