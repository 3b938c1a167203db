//! Split of large folios: partly unmapped ones under memory pressure, any on request.
//!
//! A split changes the frame table, but no entry and no page: mapped pages become folios of their
//! own, order 0 or larger, with their references; unmapped ones are freed. All references must be
//! known, so only a space that has all of them splits a folio.

use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Level, Machine, PteFormat};
use crate::frame::zone::Reserve;
use crate::frame::{Block, Kind};
use crate::manager::Mm;
use crate::own::{Account, By, Owner};
use crate::space::{AddressSpace, Locked, user_pages};
use crate::stat::Event;
use crate::table::Leaf;
use crate::thp::{ORDERS, PMD_ORDER, Stat};
use alloc::vec::Vec;

/// Pages of folios that one step splits, or looks for in the tables: some 90 instructions each.
const STEP: u64 = 8 * PMD_ORDER.pages();

impl<M: Machine> AddressSpace<M> {
    /// Splits this space's exclusive folios on the deferred queue into the largest aligned blocks
    /// that are mapped whole; returns the pages freed. Sparse shared folios are copied out of, for
    /// the last sharer to split. Called when memory is short: needs little, from the reserve. In
    /// steps: the caller holds no lock.
    pub fn split_deferred(&self) -> u64 {
        let (mut skip, mut freed) = (0, 0);
        while self.lock().split_queued(&mut skip, &mut freed) {
            self.mm.machine().breathe();
        }
        freed
    }

    /// Splits every folio larger than `largest` with a page in `range` into folios of that order,
    /// or the next lower that private memory has, and their PMD leaves; returns the numbers of
    /// successes and failures (split_huge_pages in debugfs, transhuge.rst). Of folios that become
    /// single pages, those with zeros only go. A thread that is to end stops early.
    pub fn split_range(&self, range: VirtRange, largest: Order) -> (u64, u64) {
        let (mut rest, mut counts) = (range, (0, 0));
        loop {
            let next = self.lock().split_some(rest, largest, &mut counts);
            match next {
                Some(next) if !self.mm.machine().breathe() => rest.start = next,
                _ => return counts,
            }
        }
    }
}

/// Which pages of a folio are mapped.
type Mapped = [bool; PMD_ORDER.pages() as usize];

impl<M: Machine> Locked<'_, M> {
    /// Splits and counts the larger folios that the first used table in `range` maps; returns where
    /// the next one may be.
    fn split_some(
        &mut self,
        range: VirtRange,
        largest: Order,
        counts: &mut (u64, u64),
    ) -> Option<VirtAddr> {
        let mm = self.mm();
        let mut at = self.root().first_used(range)?;
        let end = (at.align_down(PMD_ORDER.bytes()) + PMD_ORDER.bytes()).min(range.end);
        let mut failed = None;
        while at < end {
            let leaf = self.root().lookup(at);
            at = at.align_down(PAGE_SIZE) + PAGE_SIZE;
            let Some(leaf) = leaf else {
                continue;
            };
            let Block { head, kind, order } = mm.frames().folio(leaf.pfn);
            let huge = mm.frames().get(head).is_hugetlb();
            // The rest of one that failed would fail alike.
            if kind != Kind::Anon || order <= largest || huge || failed == Some(head) {
                continue;
            }
            match self.split_mapped(head, &leaf, largest) {
                Some(_) => {
                    counts.0 += 1;
                    // The part of it in this table.
                    let end = (leaf.va + (order.pages() - (leaf.pfn - head)) * PAGE_SIZE).min(end);
                    if largest == Order(0) {
                        self.drop_zeros(VirtRange::new(leaf.va, end));
                    }
                }
                None => {
                    counts.1 += 1;
                    failed = Some(head);
                }
            }
        }
        (at < range.end).then_some(at)
    }

    /// Splits the folio of a private page to single pages. Returns whether it is one then: not if
    /// others have the folio, too.
    pub(crate) fn split_around(&mut self, page: &Leaf) -> bool {
        let Block { head, order, .. } = self.mm().frames().folio(page.pfn);
        order == Order(0) || self.split_mapped(head, page, Order(0)).is_some()
    }

    /// Splits some of the exclusive folios on the queue, without the first `skip`, and counts what
    /// stays and what is freed. Returns whether there are more: others may join and leave
    /// meanwhile.
    fn split_queued(&mut self, skip: &mut usize, freed: &mut u64) -> bool {
        let (mm, owner) = (self.mm(), &self.id().owner);
        let mut pages = 0;
        loop {
            let batch = mm.deferred(*skip);
            if batch.is_empty() {
                return false;
            }
            for head in batch {
                let Some(folio) = mm.queued(head, owner) else {
                    continue;
                };
                pages += folio.order.pages();
                if pages > STEP {
                    return true;
                }
                // An exclusive folio stays while its space is locked.
                let split = match folio.exclusive {
                    true => self.split_folio(head, Order(folio.order.0 - 1)),
                    false => {
                        self.leave_folio(head, &folio);
                        None
                    }
                };
                match split {
                    Some(pages) => *freed += pages,
                    // It stays on the queue, for another space.
                    None => *skip += 1,
                }
            }
        }
    }

    /// Splits the folio that `page` maps a page of, after its PMD leaf.
    fn split_mapped(&mut self, head: Pfn, page: &Leaf, largest: Order) -> Option<u64> {
        let order = self.mm().frames().get(head).order();
        let mut ready = self.ready_together(head, page, largest);
        ready = ready.or_else(|| self.ready_apart(head, largest));
        if ready.is_none() {
            self.mm().count_folios(order, Stat::SplitFailed, 1);
            return None;
        }
        self.split_folio(head, largest)
    }

    /// Makes a folio ready for its split that is mapped around `page` only, and by this space only.
    fn ready_together(&mut self, head: Pfn, page: &Leaf, largest: Order) -> Option<()> {
        let mm = self.mm();
        let meta = mm.frames().get(head);
        let start = VirtAddr(page.va.0.checked_sub((page.pfn - head) * PAGE_SIZE)?);
        let range = user_pages::<M>(start, meta.order().bytes())?;
        self.edit(|edit| edit.split_leaf(start, Reserve::User))
            .ok()?;
        meta.anon().change_index(start.page());
        // Not further, as a folio that is also mapped elsewhere is not split: in memory that is
        // shared with a child each one is such.
        let mut shared = false;
        let found = self.mappings_in(range, head, &mut |leaf| shared |= leaf.sharers != 0);
        if shared || found == 0 || found != mm.references(head) {
            return None;
        }
        self.unfold(range, largest);
        Some(())
    }

    /// The same of a folio that mremap has moved a part of, so that PTEs map it.
    #[cold]
    fn ready_apart(&mut self, head: Pfn, largest: Order) -> Option<()> {
        let (mm, owner) = (self.mm(), &self.id().owner);
        let book = mm.frames().book(head, mm.frames().get(head).order());
        if !mm.account().exclusive(&book, owner) {
            return None;
        }
        let mut pages = Vec::new();
        let mut kept = true;
        self.mappings(head, &mut |leaf| {
            // The sharers of a table are one in the account: it is not for one of them to change.
            kept &= leaf.sharers == 0 && fallible::push(&mut pages, leaf.va).is_ok();
        });
        for page in kept.then_some(pages)? {
            self.unfold(VirtRange::new(page, page + PAGE_SIZE), largest);
        }
        Some(())
    }

    /// Folios of a block's size or more keep each block in one folio.
    fn unfold(&mut self, range: VirtRange, largest: Order) {
        if M::Pte::CONTIG_ORDER.is_some_and(|block| largest < block) {
            self.edit(|edit| edit.unfold_range(range));
        }
    }

    /// Splits a folio into folios of at most `largest`. `None`, with no change, unless all its
    /// references are PTEs of this space.
    fn split_folio(&mut self, head: Pfn, largest: Order) -> Option<u64> {
        let mm = self.mm();
        let order = mm.frames().get(head).order();
        let Some(mapped) = self.owned(head) else {
            mm.count_folios(order, Stat::SplitFailed, 1);
            return None;
        };
        mm.large_folio_ends(head, order);
        mm.account().forget_pages(&mm.frames().book(head, order));
        mm.count_folios(order, Stat::Split, 1);
        if order == PMD_ORDER {
            mm.count(Event::SplitPage, 1);
        }
        let parts = Parts {
            mm,
            owner: &self.id().owner,
            head,
            start: mm.frames().get(head).anon().index().start(),
            largest,
            mapped,
        };
        Some(parts.make(0, order))
    }

    /// The mapped pages, if all references are PTEs of this space in unshared tables.
    fn owned(&self, head: Pfn) -> Option<Mapped> {
        let (mut mapped, mut by_ptes): (Mapped, _) = ([false; _], true);
        let all = self.mappings(head, &mut |leaf| {
            by_ptes &= leaf.level == Level::Pte && leaf.sharers == 0;
            mapped[(leaf.pfn - head) as usize] = true;
        });
        (all && by_ptes).then_some(mapped)
    }
}

/// The split of one folio.
struct Parts<'a, M: Machine> {
    mm: &'a Mm<M>,
    owner: &'a Owner,
    head: Pfn,
    start: VirtAddr,
    largest: Order,
    mapped: Mapped,
}

impl<M: Machine> Parts<'_, M> {
    /// Makes folios of the mapped pages in the block of 2^order pages at page `first`, and frees
    /// the rest; returns the pages freed.
    fn make(&self, first: u64, order: Order) -> u64 {
        let (pages, frames) = (order.pages(), self.mm.frames());
        let pfn = self.head + first;
        let part = &self.mapped[first as usize..][..pages as usize];
        match part.iter().filter(|mapped| **mapped).count() as u64 {
            n if n == pages && order <= self.largest && usable(order) => {
                let start = self.start + first * PAGE_SIZE;
                let block = Block::anon(pfn, order);
                self.mm.begin(block, self.owner, start, By::Ptes);
                // Of several pages it may join the queue of deferred splits from here on.
                frames.get(pfn).set(Kind::Anon, order);
                if order != Order(0) {
                    self.mm.count_folios(order, Stat::NrAnon, 1);
                }
                0
            }
            0 if order == Order(0) => {
                frames.get(pfn).set_refs(0);
                self.mm.free(&[pfn]);
                1
            }
            _ => {
                // Skips orders that private memory does not have.
                let lower = Order(order.0 - 1);
                let lower = if usable(lower) { lower } else { Order(0) };
                frames.split(pfn, order, lower);
                (first..first + pages)
                    .step_by(lower.pages() as usize)
                    .map(|first| self.make(first, lower))
                    .sum()
            }
        }
    }
}

/// Whether private folios of this order exist.
fn usable(order: Order) -> bool {
    order == Order(0) || ORDERS.contains(&order.0)
}
