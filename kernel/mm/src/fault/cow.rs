//! Copy-on-write: the only decision between copy and reuse, and the copying.

use super::resolve::{Fault, Reach, Stop};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Attrs, Level, Machine};
use crate::folio::Folio;
use crate::frame::{Block, Kind};
use crate::manager::{OutOfMemory, SpaceId};
use crate::mutant::{self, Mutant};
use crate::own::Account;
use crate::stat::Event;
use crate::table::{Cursor, Leaf, Zap};
use crate::thp::PMD_ORDER;
use crate::tlb::Gather;
use crate::vma::{Prot, VmaFlags};

/// A folio is copied whole only if this many of its size are free.
const PLENTY: u64 = 64;

/// Decision for a write to a private page mapped without WRITE.
enum Verdict {
    /// Reuse: the folio is exclusive.
    Reuse(Reach),
    /// Reuse of a page with a long-term pin of this space; the rest of the folio may be shared.
    ReusePinned,
    /// Copy.
    Copy,
}

/// Fast path: reuse of an accessed order-0 folio whose PTE lacks only WRITE. Returns its frame;
/// `None` leaves the decision to [`Fault::break_cow`].
#[inline]
pub(super) fn reuse_single<M: Machine>(cursor: &mut Cursor<'_, M>, id: &SpaceId) -> Option<Pfn> {
    let mm = cursor.mm();
    let page = cursor.read_only_page()?;
    let book = mm.frames().single(page.pfn)?;
    if !mm.account().exclusive(&book, &id.owner) {
        return None;
    }
    cursor.reuse(&page, id.asid);
    Some(page.pfn)
}

impl<M: Machine> Fault<'_, M> {
    /// Copy or reuse, after the fast path [`reuse_single`].
    #[inline]
    fn verdict(&self, leaf: &Leaf) -> Verdict {
        let block = self.mm.frames().folio(leaf.pfn);
        if self.mm.owns_block(&self.id.owner, leaf, &block) {
            // `reuse=around`: the neighbours become writable with it.
            let around = leaf.level == Level::Pte
                && block.order != Order(0)
                && self.vma.prot.contains(Prot::WRITE)
                && self.mm.switches().reuse_around();
            return Verdict::Reuse(if around { Reach::Folio } else { Reach::Block });
        }
        match self.mm.pinned_by(leaf.pfn, &self.id.owner) {
            true => Verdict::ReusePinned,
            false => Verdict::Copy,
        }
    }

    /// Handles a write to a private page mapped without WRITE.
    pub(super) fn break_cow(
        mut self,
        cursor: &mut Cursor<'_, M>,
        leaf: &Leaf,
    ) -> Result<Pfn, Stop> {
        let huge = self.vma.flags.contains(VmaFlags::HUGETLB);
        match self.verdict(leaf) {
            Verdict::Reuse(reach) => {
                self.mm.count(Event::CowReused, 1);
                self.touch(cursor, leaf, reach);
                Ok(leaf.pfn)
            }
            Verdict::ReusePinned if huge => Ok(self.reuse_huge(cursor, leaf)),
            Verdict::Copy if huge => self.copy_huge(cursor, leaf),
            Verdict::ReusePinned => self.reuse_pinned(cursor, *leaf),
            Verdict::Copy => self.copy(cursor, *leaf),
        }
    }

    /// Replaces the page by a private copy; the old one is freed after the flush.
    fn copy(mut self, cursor: &mut Cursor<'_, M>, mut old: Leaf) -> Result<Pfn, Stop> {
        if old.level != Level::Pte {
            if self.is_huge_zero(&old) && self.orders().contains(PMD_ORDER) {
                return Err(Stop::Wants(PMD_ORDER));
            }
            old = self.page_alone(cursor)?;
        }
        if let Some(pfn) = self.copy_around(cursor, &old) {
            return Ok(pfn);
        }
        Ok(self.copy_page(cursor, &old)?)
    }

    /// Splits the page's PMD leaf; returns its PTE leaf.
    fn page_alone(&self, cursor: &mut Cursor<'_, M>) -> Result<Leaf, OutOfMemory> {
        let mut gather = Gather::new(self.mm, self.id);
        let split = cursor.edit(&mut gather).open();
        gather.finish();
        split?;
        Ok(cursor
            .leaf()
            .expect("the page was mapped, and the space is locked"))
    }

    /// Makes a page with a long-term pin of this space writable: it is exclusive, the rest of its
    /// folio may be shared.
    #[cold]
    fn reuse_pinned(mut self, cursor: &mut Cursor<'_, M>, mut leaf: Leaf) -> Result<Pfn, Stop> {
        if leaf.level != Level::Pte {
            leaf = self.page_alone(cursor)?;
        }
        self.mm.count(Event::CowReused, 1);
        self.touch(cursor, &leaf, Reach::Page);
        Ok(leaf.pfn)
    }

    /// Copies the naturally aligned block around the page to one folio of that order, which
    /// preserves large folios; `None` if a page copy is better.
    ///
    /// The order is the largest enabled here whose pages belong to the one folio, are all accessed,
    /// and are at most 1 in [`PLENTY`] of the free ones: memory is not wasted where it is short,
    /// and untouched pages are not copied. Copied pages that are never written count as
    /// `cow_wasted` when zapped.
    #[inline(never)]
    fn copy_around(&mut self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> Option<Pfn> {
        let Block { kind, order, .. } = self.mm.frames().folio(leaf.pfn);
        if kind != Kind::Anon || order == Order(0) || !self.mm.switches().cow_around() {
            return None;
        }
        let mut orders = self.orders();
        let order = loop {
            let next = orders.largest()?;
            if next <= order && cursor.maps_block(leaf, next, self.vma.range) {
                break next;
            }
            orders = orders.below(next);
        };
        if !self.mm.allocator().has_free_frames(order.pages() * PLENTY) {
            return None;
        }
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
        // The pending write makes its page dirty.
        cursor.install_copy(folio, order, self.attrs() - Attrs::DIRTY, &self.id.owner);
        gather.finish();
        self.mm.count(Event::CowCopied, 1);
        self.mm.count(Event::CowAround, order.pages() - 1);
        Some(pfn)
    }

    fn copy_page(self, cursor: &mut Cursor<'_, M>, old: &Leaf) -> Result<Pfn, OutOfMemory> {
        let kind = self.mm.frames().folio(old.pfn).kind;
        let folio = if old.pfn == self.mm.zero_page() {
            Folio::anon(self.mm)?
        } else {
            Folio::copy_of(self.mm, old.pfn)?
        };
        let (pfn, attrs) = (folio.pfn(), self.attrs());
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

    fn is_huge_zero(&self, leaf: &Leaf) -> bool {
        self.mm.frames().head(leaf.pfn) == self.mm.huge_zero_page()
    }
}

/// Flushes before a new frame comes: with the old one in its TLB, another CPU would not see what is
/// written to the new one. On arm64 also break-before-make.
#[inline(always)]
pub(super) fn break_first<M: Machine>(gather: &mut Gather<'_, M>) {
    if !mutant::on(Mutant::CopyWithoutFlush) {
        gather.flush();
    }
}
