//! A doubly linked list of frames, linked by their indices in the frame table through their
//! metadata: a free list of the buddy allocator, the queue of deferred splits. Its owner has a lock
//! around it.

use super::meta::Links;
use super::table::FrameTable;
use crate::addr::Pfn;

/// The end of a list, in place of an index.
const NONE: u32 = u32::MAX;

/// The first frame of a list.
#[derive(Clone, Copy)]
pub(crate) struct FrameList(u32);

impl FrameList {
    /// A list without frames.
    pub const EMPTY: FrameList = FrameList(NONE);

    /// Whether there is no frame in the list.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == NONE
    }
    /// The first frame.
    #[inline]
    pub fn first(self, table: &FrameTable) -> Option<Pfn> {
        (!self.is_empty()).then(|| table.pfn(self.0))
    }
    /// Puts a frame at the head of the list.
    #[inline]
    pub fn push(&mut self, table: &FrameTable, pfn: Pfn) {
        let index = table.index(pfn);
        table.get(pfn).links().set(self.0, NONE);
        if let Some(next) = at(table, self.0) {
            next.set(next.next(), index);
        }
        self.0 = index;
    }
    /// Takes out a frame of the list.
    #[inline]
    pub fn remove(&mut self, table: &FrameTable, pfn: Pfn) {
        let links = table.get(pfn).links();
        let (next, prev) = (links.next(), links.prev());
        if let Some(after) = at(table, next) {
            after.set(after.next(), prev);
        }
        match at(table, prev) {
            Some(before) => before.set(next, before.prev()),
            None => self.0 = next,
        }
    }
    /// The frames from the first on. Panics where the links back do not agree with those forth.
    pub fn iter(self, table: &FrameTable) -> impl Iterator<Item = Pfn> {
        let (mut index, mut before) = (self.0, NONE);
        core::iter::from_fn(move || {
            let links = at(table, index)?;
            let pfn = table.pfn(index);
            assert!(links.prev() == before, "the list is broken at {pfn:?}");
            (before, index) = (index, links.next());
            Some(pfn)
        })
    }
}

/// The links at an index, `None` past the end of the list.
#[inline]
fn at(table: &FrameTable, index: u32) -> Option<Links<'_>> {
    (index != NONE).then(|| table.at(index).links())
}
