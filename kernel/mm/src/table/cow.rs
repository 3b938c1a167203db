//! Entries at a write fault: `fault::cow` decides, this changes them. A folio that is the space's
//! alone becomes writable as far as this table and the VMA map it, and the part of a shared one
//! that is mapped here is copied in one piece.

use super::node::Present;
use super::{Cursor, Leaf, contpte};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Asid, Attrs, Level, Machine, PhysMem, PteFormat, Tlb};
use crate::frame::Block;
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use crate::tlb::{Gather, Removed};

/// A page that was used and may not be written, and its PTE.
pub struct ReadOnly {
    /// Its frame.
    pub pfn: Pfn,
    raw: u64,
}

impl<M: Machine> Cursor<'_, M> {
    /// The page that the cursor stands on, if it has a PTE that says used and lacks only WRITE:
    /// what a write fault of this CPU finds in most pages that a child leaves behind.
    #[inline]
    pub fn read_only_page(&self) -> Option<ReadOnly> {
        if self.node().level != Level::Pte {
            return None;
        }
        let table = self.node().ptes();
        let raw = table.mem().load(table.frame, Level::Pte.index(self.va));
        let only = M::Pte::is_still(raw) && M::Pte::writable(raw) != raw;
        let pfn = M::Pte::frame(raw);
        only.then_some(ReadOnly { pfn, raw })
    }

    /// The page's PTE may be written from now on, and says used and written, as it will be.
    #[inline]
    pub fn make_written(&mut self, page: &ReadOnly, asid: Asid) {
        let (mm, frame, index) = (self.mm(), self.node().frame, Level::Pte.index(self.va));
        let bits = Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY;
        // The walker has no bit left to set, and the page is mapped already.
        let mem = mm.machine().mem();
        mem.store_again(frame, index, M::Pte::add(page.raw, bits));
        mm.count(Event::EntryWrites, 1);
        if mm.machine().tlb().widened(asid, self.va) {
            mm.count(Event::FlushRange, 1);
        }
    }

    /// The addresses in `area` where this PTE table maps, or would map, the folio of the leaf that
    /// the cursor stands on, in order.
    fn folio_range(&self, leaf: &Leaf, (head, order): (Pfn, Order), area: VirtRange) -> VirtRange {
        let area = if mutant::on(Mutant::ReuseOutside) {
            VirtRange::new(VirtAddr(0), VirtAddr(u64::MAX))
        } else {
            area
        };
        let (before, after) = (leaf.pfn - head, head + order.pages() - leaf.pfn);
        let table = self.va.align_down(Level::Pmd.bytes());
        let from = area.start.max(table);
        let to = area.end.min(table + Level::Pmd.bytes());
        VirtRange {
            start: VirtAddr(self.va.0.saturating_sub(before * PAGE_SIZE)).max(from),
            end: (self.va + after * PAGE_SIZE).min(to),
        }
    }

    /// Takes over the folio of the leaf, which is this space's alone: every entry in `area` and in
    /// this table that maps it, and may not be written, may be from now on, used as it was. What
    /// soft-dirty watches stays as it is. The gather owes the flush of what was changed, so that no
    /// TLB faults again.
    pub fn reuse_around(&mut self, gather: &mut Gather<'_, M>, leaf: &Leaf, area: VirtRange) {
        let Block { head, order, .. } = self.mm().frames().folio(leaf.pfn);
        let range = self.folio_range(leaf, (head, order), area);
        let folds = contpte::may_fold::<M>(order);
        if folds {
            // A block that reaches out of the area must not become writable there.
            self.entries(gather).unfold_ends(range);
        }
        let written = self.make_writable(leaf, range);
        self.mm().count(Event::EntryWrites, written);
        gather.changed_range(range.start, range.len(), Level::Pte);
        if folds {
            self.entries(gather).fold_range(range);
        }
    }

    /// Gives WRITE to the entries in `range` that map the folio in order; returns how many changed.
    fn make_writable(&self, leaf: &Leaf, range: VirtRange) -> u64 {
        let (mem, table) = (self.mm().machine().mem(), self.node().frame);
        let first = Level::Pte.index(range.start);
        let (mut page, pages) = (0, range.pages() as usize);
        let mut written = 0;
        while page < pages {
            let index = first + page;
            let wanted =
                Pfn((leaf.pfn.0 + page as u64).wrapping_sub((self.va - range.start) / PAGE_SIZE));
            let raw = mem.load(table, index);
            page += 1;
            if M::Pte::frame(raw) != wanted {
                continue;
            }
            let new = M::Pte::writable(raw);
            if new == raw {
                continue;
            }
            if M::Pte::is_still(raw) {
                // Nearly all of them are alike.
                let step = M::Pte::NEXT_FRAME;
                let n = mem.replace_run(table, index, pages + 1 - page, raw, new, step);
                written += n as u64;
                page += n.saturating_sub(1);
            } else if mem.compare_exchange(table, index, raw, new).is_ok() {
                written += 1;
            } else {
                // The walker set a bit: once more.
                page -= 1;
            }
        }
        written
    }

    /// Whether the naturally aligned block of 2^`order` pages around the page lies in `area` and is
    /// mapped as the leaf is: by entries of one folio, in order, alike but for use, all of them
    /// used.
    pub fn maps_block(&self, leaf: &Leaf, order: Order, area: VirtRange) -> bool {
        let start = self.va.align_down(order.bytes());
        let range = VirtRange {
            start,
            end: start + order.bytes(),
        };
        // Which of the folio's pages the first one would be. No other frame is looked up: beside
        // the folio there may be none.
        let Block {
            head, order: folio, ..
        } = self.mm().frames().folio(leaf.pfn);
        let first = (leaf.pfn - head).checked_sub((self.va - start) / PAGE_SIZE);
        let Some(first) = first.filter(|first| first + order.pages() <= folio.pages()) else {
            return false;
        };
        let (index, pages) = (Level::Pte.index(start), order.pages() as usize);
        area.covers(&range)
            && self
                .node()
                .ptes()
                .present(index)
                .is_some_and(|Present { pfn, attrs, raw }| {
                    pfn == head + first
                        && !attrs.intersects(Attrs::WRITE | Attrs::TRACKED)
                        && self.alike_and_used(index, raw, pages)
                })
    }

    /// Whether `pages` PTEs from `index` on, the first of which is `raw`, map frames in a row, are
    /// alike but for use, and are all used: of a folded block any entry tells for all.
    fn alike_and_used(&self, index: usize, raw: u64, pages: usize) -> bool {
        let table = self.node().ptes();
        if table.all_used(index, raw, pages) {
            return true;
        }
        let used = |index| {
            let leaf = table.present(index);
            leaf.is_some_and(|leaf| table.seen(index, leaf.attrs).contains(Attrs::ACCESSED))
        };
        table.alike(index, raw, pages) == pages && (index..index + pages).all(used)
    }

    /// Takes out the entries of the block of 2^`order` pages around the page, which map one folio
    /// in order.
    pub fn take_block(&mut self, gather: &mut Gather<'_, M>, leaf: &Leaf, order: Order) {
        let (start, pages) = (self.va.align_down(order.bytes()), order.pages());
        let range = VirtRange {
            start,
            end: start + order.bytes(),
        };
        self.entries(gather).unfold_ends(range);
        let index = Level::Pte.index(start);
        self.node().ptes().clear_run(index, pages as usize);
        self.node().add_live((pages as u32).wrapping_neg());
        self.mm().count(Event::EntryWrites, pages);
        let removed = Removed {
            folio: self.mm().frames().head(leaf.pfn),
            first: Pfn(leaf.pfn.0 - (self.va - start) / PAGE_SIZE),
            pages: pages as u32,
            level: Level::Pte,
        };
        gather.removed(start, removed);
    }
}
