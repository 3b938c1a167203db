//! Pages of objects whose memory has failed, or is about to (hwpoison.rst).
//!
//! A single page leaves the object at once, and the set of failed pages has its index: accesses
//! find a hole, and then that it is none. Of a huge page, which stays, the set has the parts that
//! failed: the others can still be read. Both end when the index is truncated or punched out.

use super::{Object, ObjectPages};
use crate::addr::{PAGE_SHIFT, Pfn};
use crate::arch::Machine;
use crate::folio::Folio;
use crate::manager::Result;
use core::ops::Range;

impl ObjectPages {
    /// How many of `len` bytes from `offset` on come before memory that has failed.
    pub(super) fn intact(&self, offset: u64, len: u64) -> u64 {
        let from = offset >> PAGE_SHIFT;
        let failed = match self.hwpoison.is_empty() {
            true => None,
            false => self.hwpoison.range(from..).next(),
        };
        failed.map_or(len, |page| {
            len.min((page << PAGE_SHIFT).saturating_sub(offset))
        })
    }
}

impl<M: Machine> Object<M> {
    /// Whether the memory of the single page `index` has failed: accesses to it give EIO.
    pub fn is_hwpoison(&self, index: u64) -> bool {
        self.inner.lock().hwpoison.contains(&index)
    }
    /// Whether the memory of one of the pages that have the `len` bytes from `offset` on has
    /// failed.
    pub fn has_lost(&self, offset: u64, len: u64) -> bool {
        self.inner.lock().intact(offset, len) < len
    }
    /// Whether memory has failed of the page, of the object's size, that backs the single page
    /// `index`: no fault maps it.
    pub(crate) fn cannot_map(&self, index: u64) -> bool {
        self.has_hwpoison(&self.inner.lock(), index >> self.order().0)
    }
    /// Whether memory of the page at an index of its size has failed.
    pub(super) fn has_hwpoison(&self, inner: &ObjectPages, index: u64) -> bool {
        let parts = self.parts(index..index + 1);
        inner.hwpoison.range(parts).next().is_some()
    }
    /// The single pages of pages of the object's size.
    fn parts(&self, range: Range<u64>) -> Range<u64> {
        let order = self.order();
        let at = |index: u64| index.saturating_mul(order.pages());
        at(range.start)..at(range.end)
    }

    /// Takes note that the memory of the single page `index`, which is `frame`, has failed, and
    /// marks it. Returns the reference that the object had to it, unless it is a part of a huge
    /// page. `Ok(Err(()))`: another page is there by now.
    pub(crate) fn fail(&self, index: u64, frame: Pfn) -> Result<Result<Option<Folio>, ()>> {
        // For the node of the set, which cannot fail.
        fallible::check()?;
        let order = self.order();
        let (whole, part) = (index >> order.0, index & (order.pages() - 1));
        let mut inner = self.inner.lock();
        let page = inner.pages.get(&whole).and_then(|held| held.frame());
        if page.map(|page| page + part) != Some(frame) {
            return Ok(Err(()));
        }
        inner.hwpoison.insert(index);
        self.mm.mark_hwpoison(frame);
        Ok(Ok(match self.huge {
            Some(_) => None,
            None => {
                inner.pages.remove(&index);
                page.map(Folio::from_pfn)
            }
        }))
    }

    /// Forgets failed memory in a range of pages of the object's size, none of which is there any
    /// more.
    pub(super) fn forget_hwpoison(&self, inner: &mut ObjectPages, range: Range<u64>) {
        let parts = self.parts(range);
        while let Some(&page) = inner.hwpoison.range(parts.clone()).next() {
            inner.hwpoison.remove(&page);
            if self.huge.is_none() {
                self.left_pool(1);
            }
        }
    }
}
