//! Pages of an object that every space which maps them is asked to unmap: there is no reverse map.

use crate::addr::{PAGE_SHIFT, VirtRange};
use crate::arch::Machine;
use crate::object::Object;
use crate::thp::shmem::indices;
use crate::vma::{Backing, Vma};
use alloc::sync::Arc;
use core::ops::Range;

/// Object pages to unmap, and what of them stays.
pub(crate) struct Pages<'a, M: Machine> {
    pub object: &'a Arc<Object<M>>,
    pub range: Range<u64>,
    /// Private copies stay.
    pub keep_copies: bool,
    /// The pages come back, so that what was written must say so (soft-dirty).
    pub moves: bool,
    /// They are those of a large folio, which is to be split if no other space maps it.
    pub splits: bool,
}

impl<'a, M: Machine> Pages<'a, M> {
    /// Pages that come back in another folio; their private copies stay. As in Linux also where
    /// they are locked: the next access maps them again.
    pub fn new(object: &'a Arc<Object<M>>, range: Range<u64>) -> Self {
        Pages {
            object,
            range,
            keep_copies: true,
            moves: true,
            splits: false,
        }
    }
    /// The same of the object's page, of its size, that backs the single page `index`.
    pub fn around(object: &'a Arc<Object<M>>, index: u64) -> Self {
        let order = object.huge_order().unwrap_or_default();
        Pages::new(object, indices(index, order))
    }

    /// The range where the VMA maps some of them.
    pub fn mapped_by(&self, vma: &Vma<M>) -> Option<VirtRange> {
        let Backing::Object { object, offset, .. } = &vma.backing else {
            return None;
        };
        let (first, last) = (
            self.range.start.max(*offset),
            self.range.end.min(offset + vma.range.pages()),
        );
        let at = |page: u64| vma.range.start + ((page - offset) << PAGE_SHIFT);
        (core::ptr::eq(object.file_object(), &**self.object) && first < last)
            .then(|| VirtRange::new(at(first), at(last)))
    }
}
