//! Objects of huge pages ([`crate::hugetlb`]), and the reservations of mappings of such.
//!
//! A file has an object with pages from the pool. A shared mapping of it reserves the pages that
//! are not there yet, for whoever touches them first: the file keeps the claim when the mapping
//! goes. A private mapping has an object of its own, without pages, over the file's if there is
//! one: its claims are for the space that made the mapping, and not for the copy that a child has.

use super::{Found, Object, ObjectPages, PagePool};
use crate::addr::{Order, Pfn};
use crate::arch::Machine;
use crate::folio::Folio;
use crate::frame::Kind;
use crate::manager::{Mm, OutOfMemory, Result};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::ops::Range;

/// Indices of pages that are reserved and not there.
pub(super) type Claims = BTreeSet<u64>;

/// What an object of huge pages has besides.
pub(super) struct Huge<M: Machine> {
    pub order: Order,
    private: Option<Private<M>>,
}

/// What the object of a private mapping has besides.
struct Private<M: Machine> {
    /// The file's object; `None` for zeros.
    below: Option<Arc<Object<M>>>,
    /// The space that its claims are for, by the frame of its root table.
    owner: Pfn,
}

/// What a page of a private mapping is before it is written.
pub(crate) enum Below {
    /// The file's page.
    Page(Folio),
    /// Zeros.
    Hole,
    /// Its memory has failed.
    HwPoison,
    /// The file has ended.
    End,
}

impl<M: Machine> Object<M> {
    /// An empty object of huge pages; `limit` is in single pages.
    pub fn huge(mm: &Arc<Mm<M>>, order: Order, limit: Option<Arc<PagePool>>) -> Arc<Self> {
        let private = None;
        Object::with(mm, limit, Some(Huge { order, private }), true, 0)
    }
    /// The object of a private mapping of huge pages, by the space with this root table.
    pub fn huge_private(
        mm: &Arc<Mm<M>>,
        order: Order,
        below: Option<Arc<Object<M>>>,
        owner: Pfn,
    ) -> Arc<Self> {
        let limit = below.as_ref().and_then(|below| below.pool.clone());
        let private = Some(Private { below, owner });
        Object::with(mm, limit, Some(Huge { order, private }), true, 0)
    }
    /// The order of its pages, if they are huge ones.
    #[inline]
    pub fn huge_order(&self) -> Option<Order> {
        Some(self.huge.as_ref()?.order)
    }
    /// As [`Object::file_object`].
    pub(crate) fn owner_of_pages(self: &Arc<Self>) -> Arc<Self> {
        self.file().unwrap_or(self).clone()
    }
    /// The object that has the pages: of a private mapping of huge pages the file's.
    pub fn file_object(&self) -> &Self {
        self.file().map_or(self, |file| file)
    }
    /// What it has besides as the object of a private mapping of huge pages.
    fn private(&self) -> Option<&Private<M>> {
        self.huge.as_ref()?.private.as_ref()
    }
    /// The file's object under that of a private mapping.
    fn file(&self) -> Option<&Arc<Self>> {
        self.private()?.below.as_ref()
    }

    /// Reserves what is neither there nor reserved of the pages that back `pages` single pages from
    /// `first` on; or nothing.
    pub fn claim(&self, first: u64, pages: u64) -> Result {
        let range = self.huge_range(first..first + pages);
        let mut inner = self.inner.lock();
        let known =
            inner.pages.range(range.clone()).count() + inner.claims.range(range.clone()).count();
        let more = range.end - range.start - known as u64;
        let charge = more << self.order().0;
        if !self.enter_pool(charge) {
            return Err(OutOfMemory);
        }
        let reserved = self.mm.reserve_huge(self.order(), more);
        reserved.inspect_err(|_| self.left_pool(charge))?;
        let ObjectPages { pages, claims, .. } = &mut *inner;
        let (mut left, mut refused) = (more, false);
        for index in range {
            // For the nodes of the set, which cannot fail.
            refused |= left % 32 == 0 && fallible::check().is_err();
            if !refused && !pages.contains_key(&index) && claims.insert(index) {
                left -= 1;
            }
        }
        if refused {
            // Those that are entered stay, as if they had been reserved before.
            self.drop_claims(left);
            return Err(OutOfMemory);
        }
        Ok(())
    }
    /// The pages that back a range of single pages.
    fn huge_range(&self, range: Range<u64>) -> Range<u64> {
        let order = self.order();
        range.start >> order.0..range.end.div_ceil(order.pages())
    }

    /// Gives the reservations back that the mapping of `pages` single pages from `first` on by
    /// `owner` did not use, if it is a private one.
    pub(crate) fn unclaim_private(&self, owner: Pfn, first: u64, pages: u64) {
        if self.is_owned_by(owner) {
            let range = self.huge_range(first..first + pages);
            self.unclaim(&mut self.inner.lock(), range);
        }
    }
    pub(crate) fn is_owned_by(&self, owner: Pfn) -> bool {
        self.private().is_some_and(|private| private.owner == owner)
    }
    /// Gives the reservations of a range of pages back.
    pub(super) fn unclaim(&self, inner: &mut ObjectPages, range: Range<u64>) {
        let mut given = 0;
        while let Some(&index) = inner.claims.range(range.clone()).next() {
            inner.claims.remove(&index);
            given += 1;
        }
        while let Some(&index) = inner.taken.range(range.clone()).next() {
            inner.taken.remove(&index);
        }
        self.drop_claims(given);
    }
    /// Gives back so many reservations, which are in no set any more.
    pub(super) fn drop_claims(&self, claims: u64) {
        if claims != 0 {
            self.mm.unreserve_huge(self.order(), claims);
            self.left_pool(claims << self.order().0);
        }
    }
    /// Whether there is, for the single page `index`, a claim to be made again; there is none any
    /// more.
    pub(super) fn take_back_claim(&self, index: u64) -> bool {
        let index = index >> self.order().0;
        self.inner.lock().taken.remove(&index)
    }
    /// How many pages are reserved, for [`crate::check`].
    pub fn claims(&self) -> u64 {
        self.inner.lock().claims.len() as u64
    }

    /// A page for `index`, by its reservation if there is one that may be used; it is charged to
    /// the limit.
    pub(super) fn huge_take(
        &self,
        huge: &Huge<M>,
        inner: &mut ObjectPages,
        index: u64,
        use_claim: bool,
        kind: Kind,
    ) -> Result<Pfn> {
        let (order, claimed) = (huge.order, use_claim && inner.claims.remove(&index));
        if !claimed && !self.enter_pool(order.pages()) {
            return Err(OutOfMemory);
        }
        let taken = self.mm.take_huge(order, kind, claimed);
        taken.inspect_err(|_| self.left_pool(order.pages()))
    }

    /// The page at `index` of an object that has pages, zeroed if it is new; `None`: there is none
    /// left.
    pub(super) fn huge_page_in(
        &self,
        huge: &Huge<M>,
        inner: &mut ObjectPages,
        index: u64,
    ) -> Result<Option<Pfn>> {
        fallible::check()?;
        let Ok(page) = self.huge_take(huge, inner, index, true, Kind::Object) else {
            return Ok(None);
        };
        self.mm.zero(page, huge.order);
        inner.pages.insert(index, page.into());
        Ok(Some(page))
    }

    /// A reference to the huge page that backs the single page `index`, made if it is a hole;
    /// `None` past the end, when there is no huge page left, and if memory of it has failed.
    pub(crate) fn huge_page(&self, index: u64) -> Result<Option<Folio>> {
        let index = index >> self.order().0;
        let mut inner = self.inner.lock();
        if index >= inner.len.div_ceil(1 << self.shift()) {
            return Ok(None);
        }
        if self.has_hwpoison(&inner, index) {
            return Ok(None);
        }
        let page = self.page_in(&mut inner, index, false)?;
        Ok(page.map(|page| Folio::share(&self.mm, page)))
    }

    /// What a private mapping has at the single page `index` before it is written.
    pub(crate) fn below(&self, index: u64) -> Below {
        self.look(index, |found| match found {
            Found::Page(page) => Below::Page(Folio::share(&self.mm, page)),
            Found::Swapped => unreachable!("huge pages are never swapped"),
            Found::Hole => Below::Hole,
            Found::HwPoison => Below::HwPoison,
            Found::End => Below::End,
        })
    }
    /// Whether it is of a private mapping without a file.
    pub(super) fn is_endless(&self) -> bool {
        self.private()
            .is_some_and(|private| private.below.is_none())
    }

    /// A huge page of private memory for the single page `index` of a private mapping, for the
    /// space `who`; not zeroed.
    pub(crate) fn huge_copy(&self, index: u64, who: Pfn) -> Result<Folio> {
        let huge = self.huge.as_ref().ok_or(OutOfMemory)?;
        let index = index >> huge.order.0;
        self.huge_copy_in(huge, &mut self.inner.lock(), index, who)
    }
    /// The same, by the index of the huge page.
    pub(super) fn huge_copy_in(
        &self,
        huge: &Huge<M>,
        inner: &mut ObjectPages,
        index: u64,
        who: Pfn,
    ) -> Result<Folio> {
        let owned = self.is_owned_by(who);
        let page = self.huge_take(huge, inner, index, owned, Kind::Anon)?;
        // The limit is one of files: private pages are counted while they are reserved only.
        self.left_pool(huge.order.pages());
        Ok(Folio::from_pfn(page))
    }

    /// Takes back the page, with a plain reference, that a private mapping of the space `who` had
    /// for the single page `index`. If nobody else has it, it is reserved for that space again.
    pub(crate) fn take_back(&self, index: u64, who: Pfn, page: Pfn) {
        let (order, index) = (self.order(), index >> self.order().0);
        let mut inner = self.inner.lock();
        let reserves = self.is_owned_by(who)
            && !inner.claims.contains(&index)
            // For the node of the set, which cannot fail.
            && fallible::check().is_ok()
            && self.enter_pool(order.pages());
        if !reserves {
            drop(inner);
            if self.mm.sub_plain(page, order) {
                self.mm.free(&[page]);
            }
        } else if self.mm.give_huge_reserved(page, order) {
            inner.claims.insert(index);
        } else {
            self.left_pool(order.pages());
        }
    }

    /// Calls `f` with the single pages of huge ones in a range of indices.
    pub(super) fn for_each_part(
        &self,
        inner: &ObjectPages,
        range: Range<u64>,
        f: &mut dyn FnMut(u64, Pfn) -> bool,
    ) {
        let order = self.order();
        if range.is_empty() {
            return;
        }
        for (index, held) in inner.pages.range(self.huge_range(range.clone())) {
            let Some(page) = held.frame() else {
                continue;
            };
            let start = index << order.0;
            let parts = range.start.max(start)..range.end.min(start + order.pages());
            for part in parts {
                if !f(part, page + (part - start)) {
                    return;
                }
            }
        }
    }
}
