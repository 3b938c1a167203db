//! Splitting large folios: under memory pressure those of which a part is not mapped any more, by hand any.
//!
//! A split changes what the frame table says, no entry and no page: every mapped page gets its references as a page, or as a
//! part, of a folio of its own, and what nobody maps is free. That needs every reference to be known, so a folio is split
//! only by the space that has all of them.

use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Level, Machine};
use crate::frame::{Kind, Mm};
use crate::own::{Account, Meter, Owner};
use crate::stat::Event;
use crate::state::{AddressSpace, Inner, user_pages};
use crate::table::{for_each_leaf, lookup, split_leaf, unfold_range};
use crate::thp::{ORDERS, PMD_ORDER, Stat};
use crate::tlb::Gather;

impl<M: Machine> AddressSpace<M> {
    /// Splits the folios on the queue of deferred splits that this space has for itself, into the largest aligned parts that
    /// are mapped whole; returns how many pages that freed. For the kernel when memory is short: it takes none.
    pub fn split_deferred(&self) -> u64 {
        let mut inner = self.inner.lock();
        let freed = inner.split_queue(&self.mm, &self.id.owner);
        // mremap moves tables without a look at the folios in them: some may be elsewhere now.
        if inner.note_deferred(&self.mm) {
            freed + inner.split_queue(&self.mm, &self.id.owner)
        } else {
            freed
        }
    }

    /// Splits every large folio of which a page is mapped in `range` into single pages, and PMD leaves with them; returns how
    /// many were split and how many could not be (split_huge_pages in debugfs, transhuge.rst).
    pub fn split_range(&self, range: VirtRange) -> (u64, u64) {
        let mut inner = self.inner.lock();
        let (mut at, mut counts) = (range.start, (0, 0));
        while at < range.end {
            let leaf = lookup(&self.mm, &inner.table, at);
            at = at.align_down(PAGE_SIZE) + PAGE_SIZE;
            let Some(leaf) = leaf else {
                continue;
            };
            let (head, kind, order) = self.mm.frames().folio(leaf.pfn);
            if kind != Kind::Anon || order == Order(0) {
                continue;
            }
            let start = leaf.va.0.checked_sub((leaf.pfn - head) * PAGE_SIZE);
            let split = start.and_then(|va| inner.split_to_pages(self, head, VirtAddr(va)));
            match split {
                Some(_) => counts.0 += 1,
                None => {
                    counts.1 += 1;
                    // The rest of it will not do better.
                    let rest = order.pages() - (leaf.pfn - head);
                    at = (leaf.va + rest * PAGE_SIZE).max(at);
                }
            }
        }
        counts
    }
}

/// Which pages of a folio are mapped.
struct Mapped([u64; 8]);

impl Mapped {
    fn set(&mut self, page: u64) {
        self.0[page as usize / 64] |= 1 << (page % 64);
    }
    fn has(&self, page: u64) -> bool {
        self.0[page as usize / 64] & 1 << (page % 64) != 0
    }
    /// How many of `pages` from `first` on.
    fn count(&self, first: u64, pages: u64) -> u64 {
        (first..first + pages).filter(|&p| self.has(p)).count() as u64
    }
}

impl<M: Machine> Inner<M> {
    /// Splits what can be of the queue, going by where each folio was last known to be mapped.
    fn split_queue(&mut self, mm: &Mm<M>, owner: &Owner) -> u64 {
        let (mut skip, mut freed) = (0, 0);
        loop {
            let batch = mm.deferred(skip);
            if batch.is_empty() {
                return freed;
            }
            for (head, index) in batch {
                let order = mm.frames().get(head).order();
                let split = (order != Order(0)).then(|| {
                    let largest = Order(order.0 - 1);
                    self.split_folio((mm, owner), head, index.start(), largest)
                });
                match split.flatten() {
                    Some(pages) => freed += pages,
                    // It stays on the queue, for another space.
                    None => skip += 1,
                }
            }
        }
    }

    /// Notes where the folios of the queue are mapped that this space maps; returns whether any was thought elsewhere.
    fn note_deferred(&self, mm: &Mm<M>) -> bool {
        let mut moved = false;
        if mm.deferred(0).is_empty() {
            return moved;
        }
        for vma in self.vmas.iter().filter(|vma| vma.has_anon) {
            for_each_leaf(mm, &self.table, vma.range, &mut |leaf| {
                let (head, _, _) = mm.frames().folio(leaf.pfn);
                let meta = mm.frames().get(head);
                let start = leaf.va.0.checked_sub((leaf.pfn - head) * PAGE_SIZE);
                if let (true, Some(start)) = (meta.deferred(), start) {
                    moved |= meta.index() != VirtAddr(start).page();
                    meta.set_index(VirtAddr(start).page());
                }
            });
        }
        moved
    }

    fn split_to_pages(
        &mut self,
        space: &AddressSpace<M>,
        head: Pfn,
        start: VirtAddr,
    ) -> Option<u64> {
        let mm = &space.mm;
        let order = mm.frames().get(head).order();
        let mut gather = Gather::new(mm, &space.id);
        let ready = user_pages::<M>(start, order.bytes()).and_then(|range| {
            split_leaf(mm, &mut self.table, start, &mut gather).ok()?;
            self.owned(mm, head, start)?;
            unfold_range(mm, &mut self.table, range, &mut gather);
            Some(())
        });
        gather.finish();
        if ready.is_none() {
            mm.thp().stats.add(order, Stat::SplitFailed, 1);
            return None;
        }
        self.split_folio((mm, &space.id.owner), head, start, Order(0))
    }

    /// Splits a folio whose first page is, or would be, mapped at `start` into parts of at most `largest`. `None`, and nothing
    /// happens, when this space does not have all references by PTEs there.
    fn split_folio(
        &mut self,
        (mm, owner): (&Mm<M>, &Owner),
        head: Pfn,
        start: VirtAddr,
        largest: Order,
    ) -> Option<u64> {
        let order = mm.frames().get(head).order();
        let Some(mapped) = self.owned(mm, head, start) else {
            mm.thp().stats.add(order, Stat::SplitFailed, 1);
            return None;
        };
        mm.large_folio_ends(head, order);
        mm.thp().stats.add(order, Stat::Split, 1);
        if order == PMD_ORDER {
            mm.count(Event::SplitPage, 1);
        }
        let parts = Parts {
            mm,
            owner,
            head,
            start,
            largest,
            mapped,
        };
        Some(parts.make(0, order))
    }

    /// Which pages of the folio are mapped from `start` on, if those are all its references and nobody shares the tables.
    fn owned(&self, mm: &Mm<M>, head: Pfn, start: VirtAddr) -> Option<Mapped> {
        let meta = mm.frames().get(head);
        let range = user_pages::<M>(start, meta.order().bytes())?;
        let (mut mapped, mut count, mut shared) = (Mapped([0; 8]), 0, false);
        for_each_leaf(mm, &self.table, range, &mut |leaf| {
            let page = (leaf.va - range.start) / PAGE_SIZE;
            shared |= leaf.sharers != 0;
            if leaf.pfn == head + page && leaf.level == Level::Pte {
                mapped.set(page);
                count += 1;
            }
        });
        (!shared && count == mm.references(head)).then_some(mapped)
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
    /// Makes folios of what is mapped in the block of 2^order pages from page `first` on, and frees the rest; returns how many
    /// pages that freed.
    fn make(&self, first: u64, order: Order) -> u64 {
        let (pages, frames) = (order.pages(), self.mm.frames());
        let pfn = self.head + first;
        match self.mapped.count(first, pages) {
            n if n == pages && order <= self.largest && usable(order) => {
                let (book, mut meter) = (frames.book(pfn, order), Meter::default());
                self.mm
                    .account()
                    .begin(&book, self.owner, pages as u32, &mut meter);
                self.mm.metered(meter);
                frames
                    .get(pfn)
                    .set_index((self.start + first * PAGE_SIZE).page());
                if order != Order(0) {
                    self.mm.thp().stats.add(order, Stat::NrAnon, 1);
                }
                0
            }
            0 if order == Order(0) => {
                frames.get(pfn).set_refs(0);
                self.mm.free(&[pfn]);
                1
            }
            _ => {
                // Orders that private memory does not have are passed over.
                let lower = Order(order.0 - 1);
                let lower = if usable(lower) { lower } else { Order(0) };
                self.mm.split_block(pfn, order, lower);
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
