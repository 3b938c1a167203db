//! The cursor: one page of a locked space, to be read, and to be mapped where nothing is.

use super::node::Node;
use super::{Leaf, PageTable, note};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine};
use crate::folio::Folio;
use crate::frame::Block;
use crate::frame::zone::Reserve;
use crate::manager::{Mm, Result};
use crate::own::{By, Owner};
use crate::sync::{BitGuard, rank};
use crate::thp::Huge;
use arrayvec::ArrayVec;

/// A position in the page tables. The mutable borrow of the table is the lock on the range.
pub struct Cursor<'a, M: Machine> {
    pub(super) space: &'a mut PageTable,
    pub(super) va: VirtAddr,
    /// The lowest existing table for `va`, a PTE table after [`Self::prepare`], and the frame of
    /// the table above it.
    pub(super) node: Node<'a, M>,
    pub(super) above: Pfn,
}

/// The lock of a table ([`Cursor::lock_table`]).
pub type TableGuard<'a> = BitGuard<'a, { rank::NODE }>;

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
    /// Locks the table of `level` that the cursor is at, for a CPU that has the space's lock as a
    /// reader. `None`: it is at a table above.
    #[inline]
    pub fn lock_table(&self, level: Level) -> Option<TableGuard<'a>> {
        (self.node.level == level).then(|| self.node.meta().lock())
    }
    /// The turn of that lock ([`BitGuard::is_turn`]).
    #[inline]
    pub fn turn(&self) -> u64 {
        self.node.meta().turns().now()
    }
    /// Allocates the page's PTE table, for a CPU that has the space's lock as a reader. The cursor
    /// descends to it; or to that of another CPU, if there is one by now.
    pub fn add_table(&mut self) -> Result {
        let table = self.mm().alloc_table(Reserve::User)?;
        let Some(guard) = self.lock_table(Level::Pmd).filter(|_| self.pmd_is_empty()) else {
            self.mm().free_table(table);
            self.descend(self.node.level);
            return Ok(());
        };
        self.hook(table);
        drop(guard);
        Ok(())
    }
    /// Links a table at the absent entry of the cursor, and descends to it.
    pub(super) fn hook(&mut self, table: Pfn) {
        self.node.write_table(self.index(), table);
        self.node.gained(1);
        self.space.pages += 1;
        self.descend(self.node.level);
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
        let _ =
            cursor.descend(Level::Pgd) && cursor.descend(Level::Pud) && cursor.descend(Level::Pmd);
        cursor
    }
    /// Descends from `level`, if there is an unshared table.
    #[inline(always)]
    pub(super) fn descend(&mut self, level: Level) -> bool {
        let node = Node { level, ..self.node };
        let Some(below) = node.child(node.entry(level.index(self.va))) else {
            return false;
        };
        (self.above, self.node) = (node.frame, below);
        true
    }
    #[inline]
    pub fn mm(&self) -> &'a Mm<M> {
        self.node.mm
    }
    /// Index of the page's entry in that table.
    #[inline]
    pub(super) fn index(&self) -> usize {
        self.node.index(self.va)
    }
    /// Whether the page's table is shared: the cursor stays above it, and only
    /// [`Self::shared_leaf`] is valid before [`super::Change::open`].
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.node.level == Level::Pmd && matches!(self.read(), Entry::Shared(_))
    }
    /// The page's leaf in a shared table.
    pub fn shared_leaf(&self) -> Option<Leaf> {
        self.node.shared(self.read())?.leaf_at_shared(self.va)
    }
    fn read(&self) -> Entry {
        self.node.entry(self.index())
    }

    /// Frame of the space's root table.
    pub fn root(&self) -> Pfn {
        self.space.root()
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

    /// Whether the page's entry in that table is absent.
    #[inline]
    pub fn is_absent(&self) -> bool {
        self.node.is_absent(self.index())
    }
    /// Whether there is a PTE table for the page, which is not shared.
    #[inline]
    pub fn is_at_pte(&self) -> bool {
        self.node.level == Level::Pte
    }
    /// Whether there is no PTE table for the page, or it is shared, and there is a PMD table.
    pub fn is_at_pmd(&self) -> bool {
        self.node.level == Level::Pmd
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
        if self.node.all_absent(first, pages) {
            return limit;
        }
        let here = Level::Pte.index(self.va);
        let absent = |at: &usize| self.node.is_absent(*at);
        let below = (first..here).rev().take_while(absent).count() as u64;
        let above = (here..first + pages).take_while(absent).count() as u64;
        VirtRange {
            start: VirtAddr(self.va.0 - below * PAGE_SIZE),
            end: self.va + above * PAGE_SIZE,
        }
    }

    /// Allocates the tables down to `level`; on failure none is left linked.
    #[inline]
    pub fn prepare(&mut self, level: Level) -> Result {
        if self.node.level <= level {
            return Ok(());
        }
        self.make_tables(level)
    }
    fn make_tables(&mut self, level: Level) -> Result {
        debug_assert!(self.read() == Entry::Absent);
        let (mm, mut fresh) = (self.mm(), ArrayVec::<Pfn, 3>::new());
        for _ in 0..self.node.level as usize - level as usize {
            match mm.alloc_table(Reserve::User) {
                Ok(table) => fresh.push(table),
                Err(error) => {
                    fresh.into_iter().for_each(|table| mm.free_table(table));
                    return Err(error);
                }
            }
        }
        fresh.into_iter().for_each(|child| self.hook(child));
        Ok(())
    }

    /// Maps the zero page, which has no count, at an absent entry.
    pub fn install_zero_page(&mut self, attrs: Attrs) {
        self.install_page(self.mm().zero_page(), attrs);
        note::note_zeros(self.node.ptes());
    }
    /// Maps a page whose reference exists already, after [`Self::prepare`]. No flush: absent
    /// entries are not cached.
    #[inline(always)]
    pub fn install_page(&mut self, pfn: Pfn, attrs: Attrs) {
        debug_assert!(
            self.node.level == Level::Pte && self.leaf().is_none(),
            "{:?} is not an absent PTE",
            self.va
        );
        let node = self.node.ptes().node();
        node.write_leaf(Level::Pte.index(self.va), pfn, attrs);
        node.gained(1);
    }
    /// Fast path: maps a fresh private page at an absent entry.
    #[inline(always)]
    pub fn install_anon(&mut self, folio: Folio, attrs: Attrs, owner: &Owner) {
        let pfn = folio.into_pfn();
        let folio = Block::anon(pfn, Order(0));
        self.mm().begin(folio, owner, self.va, By::Ptes);
        self.install_page(pfn, attrs);
    }

    /// Maps a fresh large private folio of 2^`order` pages at the naturally aligned range around
    /// the page, which is absent: by PTEs, folded where possible, or by a PMD leaf if the cursor is
    /// at a PMD entry. One account update.
    #[inline(always)]
    pub fn install_folio(&mut self, folio: Folio, order: Order, attrs: Attrs, owner: &Owner) {
        let (pfn, start) = (folio.into_pfn(), self.va.align_down(order.bytes()));
        let (mm, ptes) = (self.mm(), self.node.level == Level::Pte);
        let by = if ptes { By::Ptes } else { By::Leaf };
        mm.begin(Block::anon(pfn, order), owner, start, by);
        if ptes {
            let pages = order.pages() as usize;
            self.node.ptes().install(start, pages, pfn, attrs);
            self.node.gained(pages as u32);
        } else {
            debug_assert!(order == self.node.level.order());
            self.write_huge(pfn, attrs);
            mm.pmd_mapped();
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
    /// Maps those of `n` pages of an object's folio, with a reference for each, whose entries in
    /// this table are absent; the first is at `va`. Returns how many.
    pub fn install_part(&mut self, va: VirtAddr, n: usize, pfn: Pfn, attrs: Attrs) -> u64 {
        let (table, first) = (self.node.ptes(), Level::Pte.index(va));
        let (mut at, mut mapped) = (0, 0);
        while at < n {
            let absent = |page: &usize| table.is_absent(first + page);
            let run = (at..n).take_while(absent).count();
            if run > 0 {
                let start = va + at as u64 * PAGE_SIZE;
                table.install(start, run, pfn + at as u64, attrs);
            }
            mapped += run as u32;
            at += run.max(1);
        }
        self.node.gained(mapped);
        mapped.into()
    }
    /// Maps a PMD leaf of an object's folio, with as many references as it has pages.
    pub fn install_leaf(&mut self, head: Pfn, attrs: Attrs) {
        self.write_huge(head, attrs);
        self.mm().count_huge(Huge::ShmemMapped, 1);
    }
    /// Writes a leaf above the PTE level, whose references exist already.
    pub fn write_huge(&mut self, pfn: Pfn, attrs: Attrs) {
        self.node.write_leaf(self.index(), pfn, attrs);
        self.node.gained(1);
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
