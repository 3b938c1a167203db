//! What becomes of the references that a gather took over, once nothing translates to their pages
//! any more.

use crate::addr::{Order, Pfn};
use crate::arch::Machine;
use crate::frame::{Block, Kind};
use crate::manager::Mm;
use crate::own::{Account, Batching, Book, By, Meter, Owner, Part, with_single};
use crate::stat::Event;
use crate::thp::PMD_ORDER;

/// References that go: to a folio or a page table.
#[derive(Clone, Copy)]
pub(super) struct Gone {
    /// The folio or table. A private folio, where mappings of single pages are counted: the first
    /// of its pages that go.
    pub pfn: Pfn,
    /// How many, and [`LEAF`]. One space may have the huge zero page 2^26 times, and each time is
    /// 512: more than 32 bits hold.
    pub refs: u64,
}

/// In the number of a private folio's references: a leaf mapped it. Only where mappings of single
/// pages are counted.
pub(super) const LEAF: u64 = 1 << 63;

/// Drops references by one scheme of the account.
pub(super) struct Release<'a, M: Machine, A> {
    pub mm: &'a Mm<M>,
    pub account: A,
    /// Whose they were.
    pub owner: &'a Owner,
    /// How those to one large folio go, unless at once.
    pub one_by_one: Option<Batching>,
}

impl<M: Machine, A: Account> Release<'_, M, A> {
    /// Drops them; returns the folio or table if it is to be freed now. All but single pages is
    /// seen to in place, or by a call: then single pages cost the same whatever the scheme does for
    /// large folios.
    #[inline(always)]
    pub fn put<const IN_PLACE: bool>(&self, gone: Gone, meter: &mut Meter) -> Option<Pfn> {
        if let Some(book) = self.mm.frames().single(gone.pfn) {
            let part = Part::ptes(0, gone.refs as u32);
            let last = self.page::<IN_PLACE>(&book, part, meter);
            return last.then_some(gone.pfn);
        }
        if IN_PLACE {
            self.other(gone, meter)
        } else {
            self.other_called(gone, meter)
        }
    }

    /// A private folio of one page; returns whether it is to be freed.
    #[inline(always)]
    fn page<const IN_PLACE: bool>(&self, book: &impl Book, part: Part, meter: &mut Meter) -> bool {
        if IN_PLACE {
            return self.account.unmap(book, self.owner, part, meter);
        }
        with_single!(self.mm.account(), single => single.unmap(book, self.owner, part, meter))
    }

    #[inline(never)]
    fn other_called(&self, gone: Gone, meter: &mut Meter) -> Option<Pfn> {
        self.other(gone, meter)
    }

    /// Anything but a private folio of one page.
    #[inline(always)]
    fn other(&self, gone: Gone, meter: &mut Meter) -> Option<Pfn> {
        let (mm, Gone { pfn, refs }) = (self.mm, gone);
        let meta = mm.frames().get(pfn);
        let (kind, order) = meta.kind_and_order();
        let last = match kind {
            Kind::Anon => return self.large(gone, (pfn, order), meter),
            // A page within a large folio.
            Kind::Reserved if self.account.counts_pages() => {
                let Block { head, order, .. } = mm.frames().folio(pfn);
                return self.large(gone, (head, order), meter);
            }
            Kind::Kernel => {
                // Only the huge zero page comes here: 512 for each leaf that mapped it.
                mm.put_huge_zero_page(refs >> PMD_ORDER.0);
                return None;
            }
            Kind::Table => {
                mm.count(Event::TableFree, 1);
                let last = meta.put_refs(refs);
                if last {
                    // As the frame's next owner expects it.
                    meta.page_table().set_live(0);
                }
                last
            }
            _ => meta.put_refs(refs),
        };
        last.then_some(pfn)
    }

    /// Pages of a large private folio.
    #[inline(always)]
    fn large(&self, gone: Gone, (head, order): (Pfn, Order), meter: &mut Meter) -> Option<Pfn> {
        let (mm, Gone { pfn, refs }) = (self.mm, gone);
        let (by, n) = match self.account.counts_pages() && refs & LEAF != 0 {
            false => (By::Ptes, refs as u32),
            true => (By::Leaf, refs as u32),
        };
        // No space maps a page twice.
        debug_assert!(u64::from(n) <= order.pages());
        let (book, first) = (mm.frames().book(head, order), (pfn - head) as u32);
        let part = Part { first, n, by };
        let (account, owner) = (&self.account, self.owner);
        let last = match self.one_by_one {
            None => account.unmap(&book, owner, part, meter),
            Some(by) => account.unmap_by(by, &book, owner, part, meter),
        };
        if !last {
            mm.defer_split(head);
        }
        last.then_some(head)
    }
}
