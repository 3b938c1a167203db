//! Copies of shared pages: of the page that is written, or of more where writes came through what
//! is beside it.
//!
//! ```text
//!   pages that are written in order, and what each write copies (`cow=grow`):
//!
//!     0 | 1 | 2 3 | 4 5 6 7 | 8 ... 15 | 16 ... 31 | ...
//!
//!   A block goes to one folio where its order is allowed and the old folio covers it, else, up to
//!   16 pages, to single ones. A write that is alone copies its page.
//! ```

use super::huge::Filled;
use super::request::{Fault, Stop};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::folio::Folio;
use crate::frame::{Block, Kind};
use crate::manager::Result;
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use crate::table::{Cursor, Leaf, Zap};
use crate::thp::{PMD_ORDER, policy::block};
use crate::tlb::Gather;
use arrayvec::ArrayVec;

/// A folio is copied whole only if this many of its size are free.
const PLENTY: u64 = 64;
/// The largest block whose pages are copied one by one in one fault: as much as 64 kB.
const RUN: Order = Order(4);
pub(super) const RUN_PAGES: usize = RUN.pages() as usize;
/// Copies of pages that follow each other.
pub(super) type Copies = ArrayVec<Folio, RUN_PAGES>;

impl<M: Machine> Fault<'_, M> {
    /// Replaces the page by a private copy; the old one is freed after the flush.
    pub(super) fn copy(mut self, cursor: &mut Cursor<'_, M>, mut old: Leaf) -> Result<Pfn, Stop> {
        let protected = old.attrs.contains(Attrs::UFFD_WP);
        if old.level != Level::Pte {
            if self.is_huge_zero(&old) && !protected && self.orders().contains(PMD_ORDER) {
                return Err(Stop::Wants(PMD_ORDER));
            }
            old = self.page_alone(cursor)?;
        }
        let spreads = !self.mm.switches().cow_grows() || cursor.may_be_beside_written();
        if spreads
            && !protected
            && let Some(pfn) = self.copy_more(cursor, &old)
        {
            return Ok(pfn);
        }
        Ok(self.copy_page(cursor, &old)?)
    }

    /// Copies more than the page: to one large folio, or to single pages.
    #[inline(never)]
    fn copy_more(&mut self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> Option<Pfn> {
        let Block { kind, order, .. } = self.mm.frames().folio(leaf.pfn);
        if kind != Kind::Anon {
            return None;
        }
        let copied = self.copy_around(cursor, leaf, order);
        copied.or_else(|| self.copy_singly(cursor))
    }

    /// Attributes of a copy of a page: where its monitor was not asked, as one reads it only (a
    /// pin), it stays protected.
    pub(super) fn attrs_of_copy(&self, old: &Leaf) -> Attrs {
        match old.attrs.contains(Attrs::UFFD_WP) {
            true => Filled::Protected.attrs(self.attrs()),
            false => self.attrs(),
        }
    }
    /// Attributes of a copy beside the page: clean, as what was copied and not written is no reason
    /// to copy more. Of populate, which writes through the whole range, and of the kernel's own
    /// writes, which leave no mark in an entry, all are dirty.
    fn attrs_beside(&self) -> Attrs {
        match self.tried {
            true => self.attrs() - Attrs::DIRTY,
            false => self.attrs(),
        }
    }

    /// Copies the naturally aligned block around the page to one folio of that order, which
    /// preserves large folios; `None` if a page copy is better.
    ///
    /// The order is the largest enabled here whose pages belong to the one folio, are all accessed,
    /// lie beside written ones ([`Self::spreads`]) and are at most 1 in [`PLENTY`] of the free
    /// ones: memory is not wasted where it is short or where writes are sparse, and untouched pages
    /// are not copied. Copied pages that are never written count as `cow_around_wasted` when
    /// zapped.
    fn copy_around(
        &mut self,
        cursor: &mut Cursor<'_, M>,
        leaf: &Leaf,
        order: Order,
    ) -> Option<Pfn> {
        if order == Order(0) || !self.mm.switches().cow_around() {
            return None;
        }
        let mut orders = self.orders();
        let order = loop {
            let next = orders.largest()?;
            let fits = next <= order && self.is_plenty(next) && self.spreads(cursor, next);
            if fits && cursor.maps_block(leaf, next, self.vma.range) {
                break next;
            }
            orders = orders.below(next);
        };
        let start = self.va.align_down(order.bytes());
        let page = (self.va - start) / PAGE_SIZE;
        let first = Pfn(leaf.pfn.0 - page);
        // A page with a long-term pin stays in place.
        if self.mm.any_long_term(first, order.pages()) {
            return None;
        }
        let folio = Folio::large_copy(self.mm, order, first).ok()?;
        let pfn = folio.pfn() + page;
        self.mm.frames().get(folio.pfn()).anon().set_copied_around();
        let mut gather = Gather::new(self.mm, self.id);
        cursor.edit(&mut gather).take_block(leaf, order);
        break_first(&mut gather);
        // A pending write makes its page dirty.
        cursor.install_copy(folio, order, self.attrs_beside(), &self.id.owner);
        gather.finish();
        self.mm.count(Event::CowCopied, 1);
        self.mm.count(Event::CowAround, order.pages() - 1);
        Some(pfn)
    }

    /// Copies the pages of the naturally aligned block around the page to single pages, where a
    /// large folio is not to be had: one fault and one flush for all. `None` if only the page is to
    /// be copied. The block grows as in [`Self::copy_around`], up to [`RUN`], and is the largest of
    /// which each page may be copied.
    fn copy_singly(&mut self, cursor: &mut Cursor<'_, M>) -> Option<Pfn> {
        if !self.mm.switches().cow_grows() {
            return None;
        }
        let here = self.va;
        let orders = (1..=RUN.0).map(Order);
        let most = orders
            .take_while(|order| self.spreads(cursor, *order))
            .last()?;
        let found = (1..=most.0).rev().find_map(|order| {
            let order = Order(order);
            let copies = self.copies(cursor, order)?;
            Some((block(here, order), copies))
        });
        cursor.move_in_table(here);
        let (range, copies) = found?;
        let written = copies[((here - range.start) / PAGE_SIZE) as usize].pfn();
        let (attrs, beside) = (self.attrs(), self.attrs_beside());
        self.replace(cursor, range, copies, |va| match va == here {
            true => attrs,
            false => beside,
        });
        cursor.move_in_table(here);
        self.mm.count(Event::CowCopied, 1);
        self.mm.count(Event::CowAround, range.pages() - 1);
        Some(written)
    }

    /// Copies of the pages of the block around the page; `None` if one of them may not be copied
    /// unasked, or there is not enough memory.
    fn copies(&self, cursor: &mut Cursor<'_, M>, order: Order) -> Option<Copies> {
        let mut from = ArrayVec::<Pfn, RUN_PAGES>::new();
        for va in pages_of(block(self.va, order)) {
            cursor.move_in_table(va);
            from.push(self.shared_page(cursor)?);
        }
        if !self.is_plenty(order) {
            return None;
        }
        let mut copies = Copies::new();
        for page in from {
            let Ok(folio) = Folio::copy_of(self.mm, page) else {
                copies.into_iter().for_each(|folio| folio.free(self.mm));
                return None;
            };
            copies.push(folio);
        }
        Some(copies)
    }

    /// The private page at the cursor, if it was used, is read-only and not this space's alone.
    fn shared_page(&self, cursor: &Cursor<'_, M>) -> Option<Pfn> {
        let leaf = cursor.leaf()?;
        let stays =
            Attrs::WRITE | Attrs::TRACKED | Attrs::MARKER | Attrs::NO_ACCESS | Attrs::UFFD_WP;
        let folio = self.mm.frames().folio(leaf.pfn);
        let is_plain = folio.kind == Kind::Anon
            && leaf.attrs.contains(Attrs::ACCESSED)
            && !leaf.attrs.intersects(stays);
        let frame = self.mm.frames().get(leaf.pfn);
        let is_shared = || {
            !self.mm.owns_block(&self.id.owner, &leaf, &folio)
                && !self.mm.any_long_term(leaf.pfn, 1)
                && !frame.is_hwpoison()
        };
        (is_plain && is_shared()).then_some(leaf.pfn)
    }

    fn is_plenty(&self, order: Order) -> bool {
        let frames = order.pages() * PLENTY;
        self.mm.allocator().has_free_frames(frames)
    }

    /// Whether writes are dense enough around the page that the block of 2^`order` pages is copied:
    /// with `cow=grow`, where half as many pages directly before it, or behind it, were written, be
    /// it before the fork, if they are this space's alone by now.
    fn spreads(&self, cursor: &Cursor<'_, M>, order: Order) -> bool {
        let (block, half) = (block(self.va, order), order.pages() / 2);
        !self.mm.switches().cow_grows()
            || self.vma.range.covers(&block) && cursor.written_beside(block, half, self.vma.range)
    }

    fn copy_page(self, cursor: &mut Cursor<'_, M>, old: &Leaf) -> Result<Pfn> {
        let kind = self.mm.frames().folio(old.pfn).kind;
        let folio = if old.pfn == self.mm.zero_page() {
            Folio::anon(self.mm)?
        } else {
            Folio::copy_of(self.mm, old.pfn)?
        };
        let (pfn, attrs) = (folio.pfn(), self.attrs_of_copy(old));
        let mut gather = Gather::new(self.mm, self.id);
        cursor.edit(&mut gather).take();
        break_first(&mut gather);
        cursor.install_anon(folio, attrs, &self.id.owner);
        gather.finish();
        self.mm.count(Event::CowCopied, 1);
        // A private page was counted before.
        if kind != Kind::Anon {
            let mut gone = Zap::default();
            gone.add(kind, 1);
            self.rss.sub(self.vma, &gone);
            self.rss.add_anon(1);
        }
        Ok(pfn)
    }

    /// Replaces the first pages of `range`, in the cursor's table, by these copies, which get the
    /// attributes that `attrs` says by address: one flush for all.
    pub(super) fn replace(
        &self,
        cursor: &mut Cursor<'_, M>,
        range: VirtRange,
        copies: Copies,
        attrs: impl Fn(VirtAddr) -> Attrs,
    ) {
        let mut gather = Gather::new(self.mm, self.id);
        for va in pages_of(range).take(copies.len()) {
            cursor.move_in_table(va);
            cursor.edit(&mut gather).take();
        }
        break_first(&mut gather);
        for (va, folio) in pages_of(range).zip(copies) {
            cursor.move_in_table(va);
            cursor.install_anon(folio, attrs(va), &self.id.owner);
        }
        gather.finish();
    }

    fn is_huge_zero(&self, leaf: &Leaf) -> bool {
        self.mm.frames().head(leaf.pfn) == self.mm.huge_zero_page()
    }
}

pub(super) fn pages_of(range: VirtRange) -> impl Iterator<Item = VirtAddr> {
    let pages = range.start.0..range.end.0;
    pages.step_by(PAGE_SIZE as usize).map(VirtAddr)
}

/// Flushes before a new frame comes: with the old one in its TLB, another CPU would not see what is
/// written to the new one. On arm64 also break-before-make.
#[inline(always)]
fn break_first<M: Machine>(gather: &mut Gather<'_, M>) {
    if !mutant::on(Mutant::CopyWithoutFlush) {
        gather.flush();
    }
}
