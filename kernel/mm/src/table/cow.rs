//! Copy-on-write entries; `fault::cow` decides. A reused folio becomes writable as far as this
//! table and the VMA map it; the mapped part of a shared one is replaced in one block.

use super::node::{Node, Present, PteTable, frames};
use super::{Change, Cursor, Leaf, contpte};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{
    Asid, Attrs, Entry, Level, Machine, PhysMem, PteFormat, Settled, TABLE_ENTRIES, Tlb,
};
use crate::frame::Block;
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use crate::thp::{PMD_ORDER, policy::block};
use crate::tlb::Removed;

/// A read-only page and its PTE, ACCESSED.
pub struct ReadOnly {
    /// Its frame.
    pub pfn: Pfn,
    raw: u64,
}

impl<M: Machine> Cursor<'_, M> {
    /// Fast path: the page, if its PTE is ACCESSED and lacks only WRITE, as most pages that a child
    /// leaves behind.
    #[inline]
    pub fn read_only_page(&self) -> Option<ReadOnly> {
        if self.node.level != Level::Pte {
            return None;
        }
        let table = self.node.ptes();
        let raw = table.mem().load(table.frame, Level::Pte.index(self.va));
        let only = M::Pte::is_still(raw) && M::Pte::writable(raw) != raw;
        let pfn = M::Pte::frame(raw);
        only.then_some(ReadOnly { pfn, raw })
    }

    /// Reuses the page: makes the PTE writable, ACCESSED and DIRTY.
    #[inline]
    pub fn reuse(&mut self, page: &ReadOnly, asid: Asid) {
        let (mm, frame, index) = (self.mm(), self.node.frame, Level::Pte.index(self.va));
        let bits = Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY;
        // The walker has no bit left to set, and the page is already mapped.
        let mem = mm.machine().mem();
        mem.store_again(frame, index, M::Pte::add(page.raw, bits));
        let events = [(Event::EntryWrites, 1), (Event::CowReused, 1)];
        let page = VirtRange::new(self.va, self.va + PAGE_SIZE);
        match mm.machine().tlb().widened(asid, page, Level::Pte) {
            true => mm.count_all([events[0], events[1], (Event::FlushRange, 1)]),
            false => mm.count_all(events),
        }
    }

    /// The addresses in `area` and this PTE table that the leaf's folio would cover.
    pub(super) fn folio_range(&self, leaf: &Leaf, folio: &Block, area: VirtRange) -> VirtRange {
        let area = if mutant::on(Mutant::ReuseOutside) {
            VirtRange::new(VirtAddr(0), VirtAddr(u64::MAX))
        } else {
            area
        };
        let before = (leaf.pfn - folio.head) * PAGE_SIZE;
        let after = folio.pages_from(leaf.pfn) as u64 * PAGE_SIZE;
        let table = block(self.va, PMD_ORDER);
        VirtRange {
            start: VirtAddr(self.va.0.saturating_sub(before)).max(area.start.max(table.start)),
            end: (self.va + after).min(area.end.min(table.end)),
        }
    }

    /// Sets WRITE in the entries of `range` that map the folio in order; returns how many changed.
    fn make_writable(&self, leaf: &Leaf, range: VirtRange) -> u64 {
        let (mem, table) = (self.mm().machine().mem(), self.node.frame);
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
                // Fast path: nearly all entries are uniform.
                let row = Settled(self.node.row(index, pages + 1 - page));
                let n = mem.replace_run(row, frames::<M>(raw), new);
                written += n as u64;
                page += n.saturating_sub(1);
            } else if mem.compare_exchange(table, index, raw, new).is_ok() {
                written += 1;
            } else {
                // The walker set a bit: retry.
                page -= 1;
            }
        }
        written
    }

    /// Whether the naturally aligned block of 2^`order` pages around the page lies in `area` and is
    /// a run of the leaf's folio, read-only, with ACCESSED set throughout.
    pub fn maps_block(&self, leaf: &Leaf, order: Order, area: VirtRange) -> bool {
        let range = block(self.va, order);
        let start = range.start;
        // Index of the first page in the folio; frames outside the folio may not exist.
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
                .node
                .ptes()
                .present(index)
                .is_some_and(|Present { pfn, attrs, raw }| {
                    pfn == head + first
                        && !attrs.intersects(Attrs::WRITE | Attrs::TRACKED | Attrs::UFFD_WP)
                        && self.alike_and_used(index, raw, pages)
                })
    }

    /// Whether the page beside this one, outside of its pair, is writable; or lies in another
    /// table, which is not looked at. Where it is not, [`Self::written_beside`] is false for each
    /// block that writes in order have reached.
    #[inline]
    pub fn may_be_beside_written(&self) -> bool {
        let (table, index) = (self.node.ptes(), Level::Pte.index(self.va));
        let beside = match index % 2 {
            0 => index.checked_sub(1),
            _ => (index + 1 < TABLE_ENTRIES).then_some(index + 1),
        };
        beside.is_none_or(|beside| {
            let raw = table.mem().load(table.frame, beside);
            raw != 0 && M::Pte::writable(raw) == raw
        })
    }

    /// Whether the `pages` pages directly before the block around the page, or those behind it, lie
    /// in `area` and were all written, by entries of this table or of one beside it under the same
    /// PMD table. A hint: another CPU may change those of the other table. A folded block is
    /// written as a whole.
    pub fn written_beside(&self, block: VirtRange, pages: u64, area: VirtRange) -> bool {
        let len = pages * PAGE_SIZE;
        let before = VirtRange::new(VirtAddr(block.start.0.saturating_sub(len)), block.start);
        let behind = VirtRange::new(block.end, block.end + len);
        // The nearest page first: it tells most.
        let last = pages as usize - 1;
        self.are_written(before, area, (0..=last).rev()) || self.are_written(behind, area, 0..=last)
    }

    fn are_written(
        &self,
        range: VirtRange,
        area: VirtRange,
        mut pages: impl Iterator<Item = usize>,
    ) -> bool {
        let Some(table) = self
            .ptes_beside(range.start)
            .filter(|_| area.covers(&range))
        else {
            return false;
        };
        let first = Level::Pte.index(range.start);
        // The folded block that was looked at last, which is written as a whole.
        let mut known = 0..0;
        pages.all(|page| {
            let index = first + page;
            if known.contains(&index) {
                return true;
            }
            let Some(Present { attrs, .. }) = table.present(index) else {
                return false;
            };
            if contpte::folded::<M>(attrs) {
                known = contpte::block::<M>(index);
            }
            attrs.contains(Attrs::WRITE) && table.seen(index, attrs).contains(Attrs::DIRTY)
        })
    }

    /// The PTE table of an address in this table or in one under the same PMD table.
    fn ptes_beside(&self, va: VirtAddr) -> Option<PteTable<'_, M>> {
        let (table, tables) = (Level::Pmd.bytes(), Level::Pud.bytes());
        if va.align_down(table) == self.va.align_down(table) {
            return Some(self.node.ptes());
        }
        let pmd = Node {
            frame: self.above,
            level: Level::Pmd,
            ..self.node
        };
        match pmd.entry(Level::Pmd.index(va)) {
            Entry::Table(frame) if va.align_down(tables) == self.va.align_down(tables) => {
                Some(PteTable::new(self.mm(), frame))
            }
            _ => None,
        }
    }

    /// Whether the `pages` PTEs at `index`, whose first is `raw`, are a run with ACCESSED set in
    /// each; a folded block has one ACCESSED bit.
    fn alike_and_used(&self, index: usize, raw: u64, pages: usize) -> bool {
        let table = self.node.ptes();
        if table.all_used(index, raw, pages) {
            return true;
        }
        let used = |index| {
            let leaf = table.present(index);
            leaf.is_some_and(|leaf| table.seen(index, leaf.attrs).contains(Attrs::ACCESSED))
        };
        table.alike(index, raw, pages) == pages && (index..index + pages).all(used)
    }
}

impl<M: Machine> Change<'_, '_, '_, M> {
    /// Reuses the exclusive folio of the leaf: every entry of this table in `area` that maps it
    /// read-only becomes writable, ACCESSED and DIRTY unchanged. Soft-dirty entries stay. The
    /// gather owes this CPU's flush, which avoids spurious faults.
    pub fn reuse_around(&mut self, leaf: &Leaf, area: VirtRange) {
        let folio = self.cursor.mm().frames().folio(leaf.pfn);
        let range = self.cursor.folio_range(leaf, &folio, area);
        let folds = contpte::may_fold::<M>(folio.order);
        if folds {
            // A block that crosses the end of the area must not become writable there.
            self.entries().unfold_ends(range);
        }
        let written = self.cursor.make_writable(leaf, range);
        self.cursor.mm().count(Event::EntryWrites, written);
        self.gather
            .changed_range(range.start, range.len(), Level::Pte);
        if folds {
            self.entries().fold_range(range);
        }
    }

    /// Unmaps the block of 2^`order` pages around the page, which maps one folio in order.
    pub fn take_block(mut self, leaf: &Leaf, order: Order) {
        let (va, node, range) = (
            self.cursor.va,
            self.cursor.node,
            block(self.cursor.va, order),
        );
        let pages = order.pages() as u32;
        self.entries().unfold_ends(range);
        node.ptes()
            .clear_run(Level::Pte.index(range.start), pages as usize);
        node.lost(pages);
        let first = Pfn(leaf.pfn.0 - (va - range.start) / PAGE_SIZE);
        let removed = Removed::ptes(node.mm.frames().head(leaf.pfn), first, pages);
        self.gather.removed(range.start, removed);
    }
}
