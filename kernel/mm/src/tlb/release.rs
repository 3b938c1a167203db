//! Drops the references of a gather after its TLB flush; and the fast path of one page's, flush
//! and all.

use super::gather::{Gather, Gone, LEAF};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Level, Machine, Tlb};
use crate::frame::{Block, Kind};
use crate::manager::{Mm, SpaceId};
use crate::mutant::{self, Mutant};
use crate::own::{
    Account, Batching, Book, By, Meter, Owner, Part, Unified, with_scheme, with_single,
};
use crate::stat::Event;
use crate::switch::Accounting;
use crate::thp::PMD_ORDER;
use arrayvec::ArrayVec;

/// Large folios that are freed at once.
const LARGE: usize = 64;

impl<'a, M: Machine> Gather<'a, M> {
    /// Drops the references and frees what has none left. Invariant: until then they count as the
    /// space's, so that no other space takes a page as exclusive that a TLB of this one caches.
    #[inline]
    pub(super) fn release(&mut self) {
        match self.frames.as_slice() {
            [] => {}
            // Fast path: usually one page, or many.
            &[gone] if self.mm.switches().accounting() == Accounting::PLAIN => {
                self.release_one::<_, true>(gone, Unified)
            }
            &[gone] => self.release_called(gone),
            _ => self.release_many(),
        }
    }
    #[inline(never)]
    fn release_called(&mut self, gone: Gone) {
        // Only large folios need the scheme.
        if self.mm.frames().single(gone.pfn).is_some() {
            return with_single!(self.mm.account(), single => {
                self.release_one::<_, true>(gone, single)
            });
        }
        self.release_one::<_, false>(gone, self.mm.account());
    }
    /// Drops the only reference of the gather. In line: a copy for each scheme that is known.
    #[inline(always)]
    fn release_one<A: Account, const IN_PLACE: bool>(&mut self, gone: Gone, account: A) {
        self.frames.clear();
        let mm = self.mm;
        let mut release = self.by(account);
        if !IN_PLACE {
            release.one_by_one = mm.switches().by_page();
        }
        let mut meter = Meter::default();
        let last = release.put::<IN_PLACE>(gone, &mut meter);
        mm.metered(meter);
        if let Some(pfn) = last {
            mm.free_one(pfn);
        }
    }
    #[inline(never)]
    fn release_many(&mut self) {
        let switches = self.mm.switches();
        if switches.accounting() == Accounting::PLAIN && switches.by_page().is_none() {
            let release = self.by(Unified);
            return self.release_by::<_, true>(release);
        }
        // The scheme is selected once.
        with_scheme!(self.mm.account(), account => {
            let mut release = self.by(account);
            release.one_by_one = self.mm.switches().by_page();
            self.release_by::<_, false>(release)
        });
    }
    /// What each reference is dropped by. In line: it stays in registers.
    #[inline(always)]
    fn by<A>(&self, account: A) -> Release<'a, M, A> {
        Release {
            mm: self.mm,
            account,
            owner: &self.id.owner,
            one_by_one: None,
        }
    }
    /// Drops all references of the gather. In line: a copy for each scheme that is known.
    #[inline(always)]
    fn release_by<A: Account, const IN_PLACE: bool>(&mut self, release: Release<'a, M, A>) {
        let mm = self.mm;
        let mut free = ArrayVec::<Pfn, LARGE>::new();
        // Separate: its address escapes; all else stays in registers.
        let mut meter = Meter::default();
        for gone in self.frames.drain(..) {
            if let Some(pfn) = release.put::<IN_PLACE>(gone, &mut meter) {
                match mm.frames().get(pfn).order() {
                    Order(0) => mm.free_one(pfn),
                    // Batched: neighbours merge first.
                    _ => {
                        if free.is_full() {
                            mm.free(&free);
                            free.clear();
                        }
                        free.push(pfn);
                    }
                }
            }
        }
        mm.metered(meter);
        if !free.is_empty() {
            mm.free(&free);
        }
    }
}

/// Drops references by one scheme of the account.
pub(super) struct Release<'a, M: Machine, A> {
    pub mm: &'a Mm<M>,
    pub account: A,
    /// Owner of the references.
    pub owner: &'a Owner,
    /// Batching of a large folio's references, if not all at once.
    pub one_by_one: Option<Batching>,
}

impl<M: Machine, A: Account> Release<'_, M, A> {
    /// Drops references; returns the folio or table if it is to be freed. Other cases than order 0
    /// are inlined or called, so that order 0 costs the same under each scheme.
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

    /// An order-0 private folio; returns whether it is to be freed.
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

    /// Anything but an order-0 private folio.
    #[inline(always)]
    fn other(&self, gone: Gone, meter: &mut Meter) -> Option<Pfn> {
        let (mm, Gone { pfn, refs }) = (self.mm, gone);
        let meta = mm.frames().get(pfn);
        if let Some(order) = meta.order_of(Kind::Anon) {
            return self.large(gone, Block::anon(pfn, order), meter);
        }
        let last = match meta.kind() {
            // A tail page of a large folio.
            Kind::Reserved if self.account.counts_pages() => {
                return self.large(gone, mm.frames().folio(pfn), meter);
            }
            Kind::Kernel => {
                // Only the huge zero page: 512 per leaf.
                mm.put_huge_zero_page(refs >> PMD_ORDER.0);
                return None;
            }
            Kind::Table => {
                mm.table_freed();
                let last = meta.put_refs(refs);
                if last {
                    // The frame's next owner expects 0.
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
    fn large(&self, gone: Gone, folio: Block, meter: &mut Meter) -> Option<Pfn> {
        let (mm, Gone { pfn, refs }, Block { head, order, .. }) = (self.mm, gone, folio);
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

/// Fast path: a gather of one removed PTE, of `page` in this private folio at `va`. Flushes, then
/// drops its reference.
#[inline(always)]
pub(crate) fn removed_alone<M: Machine>(
    mm: &Mm<M>,
    id: &SpaceId,
    va: VirtAddr,
    folio: &Block,
    page: Pfn,
) {
    if mutant::on(Mutant::FlushWideStride) {
        let range = VirtRange::new(va, va + PAGE_SIZE);
        mm.machine()
            .tlb()
            .flush_range(id.asid, range, Level::Pmd, false);
    } else if !mutant::on(Mutant::NoFlush) {
        mm.machine().tlb().flush_page(id.asid, va);
    }
    mm.count(Event::FlushRange, 1);
    let mut meter = Meter::default();
    let &Block { head, order, .. } = folio;
    let book = mm.frames().book(head, order);
    let part = Part::ptes((page - head) as u32, 1);
    let last = mm.account().unmap(&book, &id.owner, part, &mut meter);
    mm.metered(meter);
    if last {
        mm.free_one(head);
    } else if order != Order(0) {
        mm.defer_split(head);
    }
}
