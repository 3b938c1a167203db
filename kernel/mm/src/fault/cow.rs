//! Copy on write: the one place where copy or reuse is decided, and the copying.

use super::resolve::{Fault, Reach, Stop};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Attrs, Level, Machine, PteFormat};
use crate::folio::Folio;
use crate::frame::{Block, Kind};
use crate::manager::{OutOfMemory, SpaceId};
use crate::mutant::{self, Mutant};
use crate::own::Account;
use crate::stat::Event;
use crate::table::{Cursor, Leaf, Zap, owns_block};
use crate::thp::PMD_ORDER;
use crate::tlb::Gather;
use crate::vma::Prot;

/// A folio is copied whole only where this many of its size are free.
const PLENTY: u64 = 64;

/// What a write does to a private page that is mapped without WRITE.
enum Verdict {
    /// Reuse: the folio is this space's alone.
    Reuse(Reach),
    /// Reuse of the page, which this space has pinned for the long term: others may have the rest
    /// of its folio.
    ReusePinned,
    /// Copy.
    Copy,
}

/// Fast path of most reuses: a folio of one page that was used, whose PTE lacks only WRITE. Returns
/// its frame, `None` when [`Fault::break_cow`] is to decide.
#[inline]
pub(super) fn reuse_single<M: Machine>(cursor: &mut Cursor<'_, M>, id: &SpaceId) -> Option<Pfn> {
    let mm = cursor.mm();
    let page = cursor.read_only_page()?;
    let book = mm.frames().single(page.pfn)?;
    if !mm.account().exclusive(&book, &id.owner) {
        return None;
    }
    cursor.make_written(&page, id.asid);
    mm.count(Event::CowReused, 1);
    Some(page.pfn)
}

impl<M: Machine> Fault<'_, M> {
    /// Copy or reuse: what [`reuse_single`] has not decided.
    #[inline]
    fn verdict(&self, leaf: &Leaf) -> Verdict {
        let block = self.mm.frames().folio(leaf.pfn);
        if owns_block(self.mm, &self.id.owner, leaf, &block) {
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

    /// A write to a private page that is mapped without WRITE.
    pub(super) fn break_cow(
        mut self,
        cursor: &mut Cursor<'_, M>,
        leaf: &Leaf,
    ) -> Result<Pfn, Stop> {
        match self.verdict(leaf) {
            Verdict::Reuse(reach) => {
                self.mm.count(Event::CowReused, 1);
                self.touch(cursor, leaf, reach);
                Ok(leaf.pfn)
            }
            Verdict::ReusePinned => self.reuse_pinned(cursor, *leaf),
            Verdict::Copy => self.copy(cursor, *leaf),
        }
    }

    /// Replaces the page by a private copy of it. The old one is freed (by this space) after the
    /// flush.
    fn copy(mut self, cursor: &mut Cursor<'_, M>, mut old: Leaf) -> Result<Pfn, Stop> {
        if old.level == Level::Pmd {
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

    /// Splits the PMD leaf that maps the page; returns what maps it then.
    fn page_alone(&self, cursor: &mut Cursor<'_, M>) -> Result<Leaf, OutOfMemory> {
        let mut gather = Gather::new(self.mm, self.id);
        let split = cursor.split(&mut gather);
        gather.finish();
        split?;
        Ok(cursor
            .leaf()
            .expect("the page was mapped, and the space is locked"))
    }

    /// Makes a page writable that this space has pinned for the long term, and so has for itself:
    /// the page, for others may have the rest of its folio.
    #[cold]
    fn reuse_pinned(mut self, cursor: &mut Cursor<'_, M>, mut leaf: Leaf) -> Result<Pfn, Stop> {
        if leaf.level == Level::Pmd {
            leaf = self.page_alone(cursor)?;
        }
        self.mm.count(Event::CowReused, 1);
        self.touch(cursor, &leaf, Reach::Page);
        Ok(leaf.pfn)
    }

    /// Copies the naturally aligned part of the folio that is mapped around the page into one folio
    /// of that order, so that what was a folio stays one; `None` when it is better to copy the
    /// page.
    ///
    /// The order is the largest that is enabled here, whose pages all come from the one folio, were
    /// all used, and are not more than 1 in [`PLENTY`] of what is free. So memory is not wasted
    /// where it is short, and what a process has never touched is not copied for it. Pages that
    /// were copied and are not written are counted when they go (`cow_wasted`).
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
        if order.pages() * PLENTY > self.mm.allocator().free_frames() {
            return None;
        }
        let start = self.va.align_down(order.bytes());
        let page = (self.va - start) / PAGE_SIZE;
        let first = Pfn(leaf.pfn.0 - page);
        // A page that is pinned for the long term stays where it is.
        if self.mm.any_long_term(first, order.pages()) {
            return None;
        }
        let folio = Folio::large_copy(self.mm, order, first).ok()?;
        let pfn = folio.pfn() + page;
        self.mm.frames().get(folio.pfn()).anon().set_copied_around();
        let mut gather = Gather::new(self.mm, self.id);
        cursor.take_block(&mut gather, leaf, order);
        if M::Pte::BREAK_BEFORE_MAKE && !mutant::on(Mutant::CopyWithoutFlush) {
            gather.flush();
        }
        // The write that comes next makes its page dirty.
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
        cursor.take(&mut gather);
        if M::Pte::BREAK_BEFORE_MAKE && !mutant::on(Mutant::CopyWithoutFlush) {
            // arm64: a live entry gets another frame only through an absent one and a flush.
            gather.flush();
        }
        cursor.install_anon(folio, attrs, &self.id.owner);
        gather.finish();
        self.mm.count(Event::CowCopied, 1);
        self.vma.has_anon = true;
        let mut gone = Zap::default();
        gone.add(kind, 1);
        self.rss.sub(self.vma, &gone);
        self.rss.add_anon(1);
        Ok(pfn)
    }

    fn is_huge_zero(&self, leaf: &Leaf) -> bool {
        self.mm.frames().head(leaf.pfn) == self.mm.huge_zero_page()
    }
}
