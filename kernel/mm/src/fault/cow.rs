//! Copy-on-write: the only decision between copy and reuse. How is copied: [`super::copying`].

use super::request::{Fault, Reach, Stop};
use crate::addr::{Order, Pfn};
use crate::arch::{Level, Machine};
use crate::manager::{Result, SpaceId};
use crate::own::Account;
use crate::stat::Event;
use crate::table::{Cursor, Leaf};
use crate::tlb::Gather;
use crate::vma::Prot;

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
        let huge = self.vma.flags.is_hugetlb();
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

    /// Splits the page's PMD leaf; returns its PTE leaf.
    pub(super) fn page_alone(&self, cursor: &mut Cursor<'_, M>) -> Result<Leaf> {
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
}
