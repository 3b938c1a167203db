//! Large folios in objects (docs/decisions/0016).
//!
//! The map has each single page of a folio, as it has pages that were allocated alone, so that
//! look-ups, reads, writes and drops know no sizes. The folio has one count, at its head: a
//! reference for each of its pages in the map, one for each page that an entry maps, one for each
//! pin.
//!
//! ```text
//!   map    5 6 7 8 ...          the references of this folio: 4 of the map, 4 of one mapping
//!          | | | |
//!   frames h t t t              h: the head, with the count; t: its tails
//! ```
//! A page that is dropped takes its reference out of the count; its frame is free when the folio
//! is, or when the folio is split, which can be done when only the map refers to it.

use super::shelf::Held;
use super::{Object, ObjectPages};
use crate::addr::{Order, PAGE_SHIFT, PAGE_SIZE, Pfn};
use crate::arch::Machine;
use crate::folio::Folio;
use crate::frame::zone::Reserve;
use crate::frame::{Block, Kind};
use crate::manager::{OutOfMemory, Result};
use crate::mutant::{self, Mutant};
use crate::thp::shmem::{Place, indices};
use crate::thp::{Huge, PMD_ORDER, Stat};
use core::ops::Range;

/// Pages of one folio beside each other, with a reference for each.
#[must_use]
pub(crate) struct Part {
    /// Index of the first one in the object.
    pub index: u64,
    /// Its frame.
    pub first: Pfn,
    /// Number of pages.
    pub pages: u64,
}

/// Insertions into the map for one question whether memory is short.
const NODES: u64 = 32;

impl ObjectPages {
    /// Whether there is nothing at these indices.
    fn is_hole(&self, range: Range<u64>) -> bool {
        self.pages.range(range.clone()).next().is_none()
            && self.hwpoison.range(range).next().is_none()
    }
}

impl<M: Machine> Object<M> {
    /// Whether it is one of the internal mount, to which `shmem_enabled` is addressed.
    pub(crate) fn is_internal(&self) -> bool {
        self.internal
    }

    /// The largest order of a folio that a mapping of `len` bytes may hold whole, if addresses and
    /// indices are congruent.
    pub(crate) fn largest_order(&self, len: u64) -> Option<Order> {
        let orders = self.mm.thp().controls.shmem();
        if orders.is_empty() || self.huge.is_some() {
            return None;
        }
        let fitting = Order((len >> PAGE_SHIFT).max(1).ilog2() as u8).min(PMD_ORDER);
        orders.of_any_area(self.internal).up_to(fitting).largest()
    }

    /// [`Object::page`]; where it is a hole, of the largest folio that fits there and can be had.
    #[cold]
    pub(crate) fn page_of_folio(&self, place: &Place) -> Result<Option<Folio>> {
        let mut inner = self.inner.lock();
        let len = inner.len.div_ceil(PAGE_SIZE);
        if place.index >= len {
            return Ok(None);
        }
        let mut below = Order(PMD_ORDER.0 + 1);
        while let Some(order) = place.order(below, len, |range| inner.is_hole(range))
            && self.add_folio(&mut inner, place.index, order).is_err()
        {
            self.mm.count_folios(order, Stat::ShmemFallback, 1);
            below = order;
        }
        let page = self.page_in(&mut inner, place.index, false)?;
        Ok(page.map(|page| Folio::share(&self.mm, page)))
    }

    /// Adds a folio of zeros around an index, where nothing is.
    fn add_folio(&self, inner: &mut ObjectPages, index: u64, order: Order) -> Result {
        let pages = order.pages();
        if !self.enter_pool(pages) {
            self.mm.count_folios(order, Stat::ShmemFallbackCharge, 1);
            return Err(OutOfMemory);
        }
        self.list(inner).inspect_err(|_| self.left_pool(pages))?;
        let head = self.mm.alloc(order, Kind::Object, Reserve::User);
        let head = head.inspect_err(|_| self.left_pool(pages))?;
        if order == PMD_ORDER {
            self.mm.count_huge(Huge::Shmem, 1);
        }
        self.mm.frames().get(head).set_refs(pages);
        let range = indices(index, order);
        for page in 0..pages {
            // For the nodes of the map, which cannot fail.
            if page % NODES == 0
                && let Err(why) = fallible::check()
            {
                for index in range.start..range.start + page {
                    inner.pages.remove(&index);
                }
                self.drop_references(head, pages);
                self.left_pool(pages);
                return Err(why);
            }
            inner.pages.insert(range.start + page, (head + page).into());
        }
        self.mm.zero(head, order);
        inner.has_large = true;
        self.mm.count_folios(order, Stat::ShmemAlloc, 1);
        Ok(())
    }

    /// The pages of the folio of `page`, which is at `index` or was, that lie beside it in `within`
    /// and are there.
    pub(crate) fn part(&self, index: u64, page: Folio, within: Range<u64>) -> Part {
        let page = page.into_pfn();
        let Block { head, order, .. } = self.mm.frames().folio(page);
        let inner = self.inner.lock();
        let (whole, len) = (indices(index, order), inner.len.div_ceil(PAGE_SIZE));
        let start = whole.start.max(within.start).min(index);
        let end = whole.end.min(within.end).min(len).max(index + 1);
        let place = |at: u64| head + (at - whole.start);
        let is_there = |at: &u64| {
            inner.pages.get(at) == Some(&place(*at).into()) || mutant::on(Mutant::MapPunched)
        };
        let below = (start..index).rev().take_while(is_there).count() as u64;
        let above = (index + 1..end).take_while(is_there).count() as u64;
        if below + above > 0 {
            self.mm.frames().get(head).get_refs(below + above);
        }
        Part {
            index: index - below,
            first: place(index - below),
            pages: below + 1 + above,
        }
    }

    /// Drops references to a folio, by a page of it.
    pub(crate) fn drop_references(&self, page: Pfn, n: u64) {
        let head = self.mm.frames().head(page);
        if n > 0 && self.mm.frames().get(head).put_refs(n) {
            self.mm.free(&[head]);
        }
    }

    /// The indices of the folio that has `page` at `index`, and its head; `None` for a single page,
    /// and a huge one of hugetlb.
    fn folio_of(&self, index: u64, page: Pfn) -> Option<(Range<u64>, Pfn)> {
        let Block { head, order, .. } = self.mm.frames().folio(page);
        let large = order != Order(0) && self.huge.is_none();
        large.then(|| (indices(index, order), head))
    }
    /// The indices of the large folio that has the page at `index`.
    pub(crate) fn folio_at(&self, index: u64) -> Option<Range<u64>> {
        let inner = self.inner.lock();
        let page = inner.pages.get(&index)?.frame()?;
        Some(self.folio_of(index, page)?.0)
    }

    /// The large folios on both sides of the ends of a range of indices: it was dropped, and parts
    /// of them are left.
    pub(crate) fn cut_by(&self, dropped: Range<u64>) -> [Option<Range<u64>>; 2] {
        let inner = self.inner.lock();
        if !inner.has_large {
            return [None, None];
        }
        let around = |at: u64| {
            let near = [
                inner.pages.range(..at).next_back(),
                inner.pages.range(at..).next(),
            ];
            let folios = near.into_iter().flatten();
            folios
                .filter_map(|(index, held)| Some(self.folio_of(*index, held.frame()?)?.0))
                .find(|folio| folio.start < at && at < folio.end)
        };
        let (low, high) = (around(dropped.start), around(dropped.end));
        let again = low == high;
        [low, high.filter(|_| !again)]
    }

    /// Splits the large folio with these indices into single pages, and frees those that are not
    /// there any more. `false`: it is mapped or pinned, or not there.
    pub(crate) fn split(&self, range: Range<u64>) -> bool {
        self.split_to(&self.inner.lock(), range, Order(0))
    }
    /// The same, into folios of order `to`, whose pages that are not there any more are freed with
    /// the others.
    pub(super) fn split_to(&self, inner: &ObjectPages, range: Range<u64>, to: Order) -> bool {
        let of_range = |(index, held): (&u64, &Held)| {
            let (folio, head) = self.folio_of(*index, held.frame()?)?;
            (folio == range).then_some(head)
        };
        let Some(head) = inner.pages.range(range.clone()).find_map(of_range) else {
            return false;
        };
        let place = |at: u64| head + (at - range.start);
        let there = inner.left_of(&range, head.into());
        let (meta, frames) = (self.mm.frames().get(head), self.mm.frames());
        let order = meta.order();
        // Whoever maps or pins a page that is not mapped yet comes through this lock.
        if meta.refs() != there && !mutant::on(Mutant::SplitMapped) {
            return false;
        }
        self.mm.count_folios(order, Stat::Split, 1);
        if order == PMD_ORDER {
            self.mm.count_huge(Huge::Shmem, 1u64.wrapping_neg());
        }
        frames.split(head, order, to);
        for at in range.clone().step_by(to.pages() as usize) {
            let there = inner.left_of(&(at..at + to.pages()), place(at).into());
            frames.get(place(at)).set_refs(there);
            if there == 0 {
                self.mm.free(&[place(at)]);
            }
        }
        true
    }
}
