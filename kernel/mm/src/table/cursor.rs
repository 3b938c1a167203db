//! The cursor: one page of a locked space, for install, change and removal.

use super::edit::{Entries, take_leaf};
use super::node::{Node, PteTable};
use super::{Leaf, PageTable, alloc_table, free_unused_table, owner::begin, share};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine};
use crate::folio::Folio;
use crate::frame::zone::Reserve;
use crate::manager::{Mm, OutOfMemory};
use crate::own::{By, Owner};
use crate::stat::Event;
use crate::tlb::{Gather, Removed};
use arrayvec::ArrayVec;

/// A position in the page tables. The mutable borrow of the table is the lock on the range.
pub struct Cursor<'a, M: Machine> {
    space: &'a mut PageTable,
    pub(super) va: VirtAddr,
    /// The lowest existing table for `va`, and the frame of the table above it.
    node: Node<'a, M>,
    above: Pfn,
}

/// A saved cursor position, valid until a table on its path changes.
#[derive(Clone, Copy)]
pub struct Spot {
    va: VirtAddr,
    frame: Pfn,
    level: Level,
    above: Pfn,
}

impl<'a, M: Machine> Cursor<'a, M> {
    /// Restores a position from [`Self::spot`].
    #[inline(always)]
    pub fn at(mm: &'a Mm<M>, space: &'a mut PageTable, spot: Spot) -> Self {
        let (frame, level) = (spot.frame, spot.level);
        Cursor {
            space,
            va: spot.va,
            node: Node { mm, frame, level },
            above: spot.above,
        }
    }
    /// Saves the position.
    #[inline(always)]
    pub fn spot(&self) -> Spot {
        Spot {
            va: self.va,
            frame: self.node.frame,
            level: self.node.level,
            above: self.above,
        }
    }
    /// Walks to `va` as far as tables exist.
    #[inline]
    pub fn new(mm: &'a Mm<M>, space: &'a mut PageTable, va: VirtAddr) -> Self {
        let node = Node::root(mm, space);
        let mut cursor = Cursor {
            space,
            va,
            node,
            above: node.frame,
        };
        // Unrolled, so that each level's shift is a constant.
        let _ = cursor.descend(Level::Pgd, Level::Pud)
            && cursor.descend(Level::Pud, Level::Pmd)
            && cursor.descend(Level::Pmd, Level::Pte);
        cursor
    }
    /// Descends one level, if there is a table.
    #[inline(always)]
    fn descend(&mut self, level: Level, lower: Level) -> bool {
        let Entry::Table(frame) = (Node { level, ..self.node }).entry(level.index(self.va)) else {
            return false;
        };
        self.above = self.node.frame;
        self.node = Node {
            frame,
            level: lower,
            ..self.node
        };
        true
    }
    #[inline(always)]
    pub fn mm(&self) -> &'a Mm<M> {
        self.node.mm
    }
    /// The lowest existing table: a PTE table after [`Self::prepare`].
    #[inline(always)]
    pub(super) fn node(&self) -> Node<'a, M> {
        self.node
    }
    /// Index of the page's entry in that table.
    #[inline(always)]
    fn index(&self) -> usize {
        self.node.index(self.va)
    }
    /// The editor of that table, which is a PTE table.
    #[inline(always)]
    pub(super) fn entries<'e, 'g>(&self, gather: &'e mut Gather<'g, M>) -> Entries<'e, 'g, M> {
        debug_assert!(self.node.level == Level::Pte);
        let table = PteTable {
            mm: gather.mm(),
            frame: self.node.frame,
        };
        Entries { table, gather }
    }

    /// Splits the PMD leaf of the page and descends to its PTE.
    pub fn split(&mut self, gather: &mut Gather<'_, M>) -> Result<(), OutOfMemory> {
        self.space.edit(gather).split_leaf(self.va, Reserve::User)?;
        if self.node.level == Level::Pmd {
            self.descend(Level::Pmd, Level::Pte);
        }
        Ok(())
    }

    /// Whether the page's table is shared: the cursor stays above it, and only
    /// [`Self::shared_leaf`] is valid before [`Self::unshare`].
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.node.level == Level::Pmd && matches!(self.read(), Entry::Shared(_))
    }
    /// The page's leaf in a shared table.
    pub fn shared_leaf(&self) -> Option<Leaf> {
        match self.read() {
            Entry::Shared(frame) => {
                let mm = self.mm();
                PteTable { mm, frame }.leaf_at_shared(self.va)
            }
            _ => None,
        }
    }
    /// Makes the page's table private to this space.
    pub fn unshare(&mut self, gather: &mut Gather<'_, M>) -> Result<(), OutOfMemory> {
        self.space.edit(gather).unshare(self.va, Reserve::User)?;
        self.descend(Level::Pmd, Level::Pte);
        Ok(())
    }
    fn read(&self) -> Entry {
        self.node.entry(self.index())
    }
    /// Links another space's table at the absent PMD entry of the cursor.
    pub(super) fn hook_shared(&mut self, table: Pfn) {
        debug_assert!(self.node.level == Level::Pmd && self.read() == Entry::Absent);
        self.node.write_shared(self.index(), table);
        self.node.add_live(1);
        self.space.pages += 1;
        self.mm().count(Event::EntryWrites, 1);
    }

    /// The page's address.
    pub fn va(&self) -> VirtAddr {
        self.va
    }
    /// The page's leaf, narrowed to one page.
    #[inline]
    pub fn leaf(&self) -> Option<Leaf> {
        self.node.leaf_at(self.va, 1)
    }

    /// Whether the PMD entry is absent, or its table is empty.
    pub fn pmd_is_empty(&self) -> bool {
        match self.node.level {
            Level::Pte => self.node.live() == 0,
            _ => self.node.is_absent(self.index()),
        }
    }

    /// The hole around the unmapped page, within `limit`, which contains it and lies under one PMD
    /// entry.
    pub fn hole(&self, limit: VirtRange) -> VirtRange {
        if self.pmd_is_empty() {
            return limit;
        }
        let (first, pages) = (Level::Pte.index(limit.start), limit.pages() as usize);
        // Fast path: the range is usually empty.
        if self.node.ptes().absent(first, pages) == pages {
            return limit;
        }
        let (here, mut below, mut above) = (Level::Pte.index(self.va), 0, 1);
        let most = (limit.end - self.va) / PAGE_SIZE;
        let least = (self.va - limit.start) / PAGE_SIZE;
        let absent = |at: usize| self.node.is_absent(at);
        while below < least && absent(here - below as usize - 1) {
            below += 1;
        }
        while above < most && absent(here + above as usize) {
            above += 1;
        }
        VirtRange {
            start: VirtAddr(self.va.0 - below * PAGE_SIZE),
            end: self.va + above * PAGE_SIZE,
        }
    }

    /// Allocates the tables down to `level`; on failure none is left linked.
    #[inline]
    pub fn prepare(&mut self, level: Level) -> Result<(), OutOfMemory> {
        if self.node.level <= level {
            return Ok(());
        }
        self.make_tables(level)
    }
    fn make_tables(&mut self, level: Level) -> Result<(), OutOfMemory> {
        debug_assert!(self.read() == Entry::Absent);
        let mut fresh = ArrayVec::<Pfn, 3>::new();
        for _ in 0..self.node.level as usize - level as usize {
            match alloc_table(self.mm(), Reserve::User) {
                Ok(table) => fresh.push(table),
                Err(error) => {
                    fresh
                        .drain(..)
                        .for_each(|table| free_unused_table(self.mm(), table));
                    return Err(error);
                }
            }
        }
        for child in fresh {
            self.node.write_table(self.index(), child);
            self.node.add_live(1);
            self.space.pages += 1;
            self.mm().count(Event::EntryWrites, 1);
            self.above = self.node.frame;
            let lower = self.node.level.lower();
            self.node = Node {
                frame: child,
                level: lower.expect("as many tables as levels were allocated"),
                ..self.node
            };
        }
        Ok(())
    }

    /// Unlinks an empty PTE table, so that the PMD entry is free for a leaf.
    pub fn remove_empty_table(&mut self, gather: &mut Gather<'_, M>) {
        if self.node.level == Level::Pte && self.pmd_is_empty() {
            let pmd = Node {
                mm: gather.mm(),
                frame: self.above,
                level: Level::Pmd,
            };
            let empty = Node {
                frame: self.node.frame,
                level: Level::Pte,
                ..pmd
            };
            self.space.edit(gather).unhook(pmd, empty, self.va);
            (self.node.frame, self.node.level) = (self.above, Level::Pmd);
        }
    }

    /// Maps an object's page and consumes a reference, after [`Self::prepare`]. No flush: absent
    /// entries are not cached.
    pub fn install_object(&mut self, folio: Folio, attrs: Attrs) {
        self.install_page(folio.into_pfn(), attrs);
    }
    /// Maps the zero page, which has no count, at an absent entry.
    pub fn install_zero_page(&mut self, attrs: Attrs) {
        self.install_page(self.mm().zero_page(), attrs);
        share::note_zeros(self.node.ptes());
    }
    #[inline(always)]
    fn install_page(&mut self, pfn: Pfn, attrs: Attrs) {
        debug_assert!(
            self.node.level == Level::Pte && self.leaf().is_none(),
            "{:?} is not an absent PTE",
            self.va
        );
        let node = self.node.ptes().node();
        node.write_leaf(Level::Pte.index(self.va), pfn, attrs);
        node.add_live(1);
        node.mm.count(Event::EntryWrites, 1);
    }
    /// Fast path: maps a fresh private page at an absent entry.
    #[inline(always)]
    pub fn install_anon(&mut self, folio: Folio, attrs: Attrs, owner: &Owner) {
        let pfn = folio.into_pfn();
        begin(self.mm(), (pfn, Order(0)), owner, self.va, By::Ptes);
        self.install_page(pfn, attrs);
    }

    /// Maps a fresh large private folio of 2^`order` pages at the naturally aligned range around
    /// the page, which is absent: by PTEs, folded where possible, or by a PMD leaf if the cursor is
    /// at a PMD entry. One account update.
    #[inline(always)]
    pub fn install_folio(&mut self, folio: Folio, order: Order, attrs: Attrs, owner: &Owner) {
        let pages = order.pages() as u32;
        let (pfn, start) = (folio.into_pfn(), self.va.align_down(order.bytes()));
        let by = if self.node.level == Level::Pte {
            By::Ptes
        } else {
            By::Leaf
        };
        begin(self.mm(), (pfn, order), owner, start, by);
        if self.node.level == Level::Pte {
            self.node.ptes().install(start, pages as usize, pfn, attrs);
            self.node.add_live(pages);
            self.mm().count(Event::EntryWrites, u64::from(pages));
        } else {
            debug_assert!(order == self.node.level.order());
            self.write_huge(pfn, attrs);
            self.mm().thp().pmd_mapped();
        }
    }
    /// [`Self::install_anon`] or [`Self::install_folio`], out of line.
    #[inline(never)]
    pub fn install_copy(&mut self, folio: Folio, order: Order, attrs: Attrs, owner: &Owner) {
        match order {
            Order(0) => self.install_anon(folio, attrs, owner),
            _ => self.install_folio(folio, order, attrs, owner),
        }
    }
    /// Writes a leaf above the PTE level, whose references exist already.
    pub fn write_huge(&mut self, pfn: Pfn, attrs: Attrs) {
        self.node.write_leaf(self.index(), pfn, attrs);
        self.node.add_live(1);
        self.mm().count(Event::EntryWrites, 1);
    }
    /// Adds `bits` to the leaf, or to all entries of a folded block, so that it stays folded; the
    /// gather owes the flush. `area` is the VMA's range, which a block may cross.
    pub fn add_bits(&mut self, gather: &mut Gather<'_, M>, bits: Attrs, area: VirtRange) {
        let (index, level) = (self.index(), self.node.level);
        let (from, written) = if level == Level::Pte {
            self.entries(gather).add_bits(self.va, bits, area)
        } else {
            let written = self.node.modify(index, |attrs| attrs | bits);
            (index..index + 1, u64::from(written))
        };
        self.mm().count(Event::EntryWrites, written);
        let start = self.va.align_down(level.bytes()).0 - (index - from.start) as u64 * PAGE_SIZE;
        let len = from.len() as u64 * level.bytes();
        gather.changed_range(VirtAddr(start), len, level);
        if level == Level::Pte && bits.contains(Attrs::WRITE) {
            // It may have been the last of its block.
            self.entries(gather).fold(self.va);
        }
    }

    /// Unmaps the page. A folded block is unfolded; a PMD leaf must be split already.
    pub fn take(&mut self, gather: &mut Gather<'_, M>) {
        assert!(self.node.level == Level::Pte, "{:?} has no PTE", self.va);
        self.entries(gather).unfold(self.va);
        let table = self.node.ptes();
        let Some((pfn, _)) = table.node().take_leaf(Level::Pte.index(self.va)) else {
            unreachable!("the page was mapped, and the space is locked");
        };
        table.node().add_live(u32::MAX);
        self.mm().count(Event::EntryWrites, 1);
        if self.mm().frames().single(pfn).is_some() {
            return gather.removed_page(self.va, pfn);
        }
        gather.removed(
            self.va,
            Removed {
                folio: self.mm().frames().head(pfn),
                first: pfn,
                pages: 1,
                level: Level::Pte,
            },
        );
    }

    /// Unmaps the PMD leaf of the page.
    pub fn take_huge(&mut self, gather: &mut Gather<'_, M>) {
        assert!(
            self.node.level == Level::Pmd,
            "{:?} has no PMD leaf",
            self.va
        );
        let start = self.va.align_down(Level::Pmd.bytes());
        take_leaf(self.node, start, gather);
    }

    /// Moves to another page of the same PTE table.
    pub fn move_in_table(&mut self, va: VirtAddr) {
        let table = Level::Pmd.bytes();
        debug_assert!(
            self.node.level == Level::Pte && va.align_down(table) == self.va.align_down(table),
            "{va:?} is in another table"
        );
        self.va = va;
    }
}
