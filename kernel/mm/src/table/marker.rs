//! Markers: entries without a page, which say what an access to their address means.
//!
//! A marker is a leaf of the zero page that the hardware takes for invalid ([`Attrs::MARKER`]). It
//! has no references, and most of what copies, moves or counts leaves treats it as any other.

use crate::arch::Attrs;

/// What a marker says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Marker {
    /// Every access is refused ([`super::guard`]).
    Guard,
    /// Nothing is there, and userfaultfd write-protects it ([`super::userfault`]).
    WriteProtected,
    /// Every access is a memory error (UFFDIO_POISON).
    Poison,
}

/// Of a marker, or of a page that userfaultfd write-protects.
pub(crate) const MARKED: Attrs = Attrs::GLOBAL.union(Attrs::UFFD_WP);

/// Of a marker that is poison: no page of a program is device memory.
const POISON: Attrs = Attrs::DEVICE;

impl Marker {
    /// Its attributes.
    pub const fn attrs(self) -> Attrs {
        match self {
            Marker::Guard => Attrs::MARKER,
            Marker::WriteProtected => Attrs::MARKER.union(Attrs::UFFD_WP),
            Marker::Poison => Attrs::MARKER.union(POISON),
        }
    }

    /// The marker with these attributes, if they are one's.
    pub fn of(attrs: Attrs) -> Option<Marker> {
        let marker = if attrs.contains(POISON) {
            Marker::Poison
        } else if attrs.contains(Attrs::UFFD_WP) {
            Marker::WriteProtected
        } else {
            Marker::Guard
        };
        (attrs.contains(Attrs::MARKER) && !is_swapped(attrs)).then_some(marker)
    }
}

/// The attributes of a swap entry: no page of a program is global, and no marker is executable.
pub(super) const SWAPPED: Attrs = Attrs::MARKER.union(Attrs::EXEC);

/// Whether a leaf with these attributes is a swap entry.
#[inline]
pub(crate) fn is_swapped(attrs: Attrs) -> bool {
    attrs.contains(SWAPPED)
}
