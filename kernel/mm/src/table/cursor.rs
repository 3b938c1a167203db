//! The cursor: one page of a locked space, where an entry may be installed, changed or taken.

use super::{PageTable, alloc_table, entry, free_unused_table};
use crate::addr::{Pfn, VirtAddr};
use crate::arch::{Attrs, Entry, Level, Machine};
use crate::folio::Folio;
use crate::frame::{Mm, OutOfMemory};
use crate::stat::Event;
use crate::tlb::{Gather, Removed};
use arrayvec::ArrayVec;

/// Stands on one page of a space. Borrowing the table mutably is holding the lock on the range.
pub struct Cursor<'a, M: Machine> {
    mm: &'a Mm<M>,
    space: &'a mut PageTable,
    va: VirtAddr,
    /// The lowest table that exists on the way to `va`, and its level.
    table: Pfn,
    level: Level,
}

impl<'a, M: Machine> Cursor<'a, M> {
    /// Walks to `va` as far as there are tables.
    #[inline]
    pub fn new(mm: &'a Mm<M>, space: &'a mut PageTable, va: VirtAddr) -> Self {
        let (mut table, mut level) = (space.root, Level::Pgd);
        while let (Entry::Table(next), Some(lower)) = (
            entry::read(mm, table, level.index(va), level),
            level.lower(),
        ) {
            (table, level) = (next, lower);
        }
        Cursor {
            mm,
            space,
            va,
            table,
            level,
        }
    }

    /// The page it stands on.
    pub fn va(&self) -> VirtAddr {
        self.va
    }
    /// The lowest table on the way, a PTE table once there is a leaf or it was prepared.
    pub(super) fn table(&self) -> Pfn {
        self.table
    }
    /// What is mapped there.
    #[inline]
    pub fn leaf(&self) -> Option<(Pfn, Attrs)> {
        match entry::read(self.mm, self.table, self.level.index(self.va), self.level) {
            Entry::Leaf { pfn, attrs } => Some((pfn, attrs)),
            _ => None,
        }
    }

    /// Makes the tables down to the PTE; on failure none is left behind.
    pub fn prepare(&mut self) -> Result<(), OutOfMemory> {
        let mut fresh = ArrayVec::<Pfn, 3>::new();
        for _ in 0..self.level as usize {
            match alloc_table(self.mm) {
                Ok(table) => fresh.push(table),
                Err(error) => {
                    fresh
                        .drain(..)
                        .for_each(|table| free_unused_table(self.mm, table));
                    return Err(error);
                }
            }
        }
        for child in fresh {
            entry::write_table(self.mm, self.table, self.level.index(self.va), child);
            self.add_live(1);
            self.space.pages += 1;
            self.mm.count(Event::EntryWrites, 1);
            self.table = child;
            self.level = self
                .level
                .lower()
                .expect("as many tables as levels were allocated");
        }
        Ok(())
    }

    /// Maps a folio where nothing is; [`Self::prepare`] has made the tables. Nothing to flush: absent entries are not cached.
    #[inline]
    pub fn install(&mut self, folio: Folio, attrs: Attrs) {
        self.install_pfn(folio.into_pfn(), attrs);
    }
    /// Maps the zero page, which is not counted, where nothing is.
    pub fn install_zero_page(&mut self, attrs: Attrs) {
        self.install_pfn(self.mm.zero_page(), attrs);
    }
    #[inline]
    fn install_pfn(&mut self, pfn: Pfn, attrs: Attrs) {
        debug_assert!(
            self.level == Level::Pte && self.leaf().is_none(),
            "{:?} is not an absent PTE",
            self.va
        );
        entry::write_leaf(
            self.mm,
            self.table,
            self.level.index(self.va),
            Level::Pte,
            pfn,
            attrs,
        );
        self.add_live(1);
        self.mm.count(Event::EntryWrites, 1);
    }

    /// Changes the attributes of what is mapped; the gather owes the flush.
    pub fn update(&mut self, gather: &mut Gather<'_, M>, f: impl FnMut(Pfn, Attrs) -> Attrs) {
        if entry::modify(self.mm, self.table, self.level.index(self.va), f) {
            self.mm.count(Event::EntryWrites, 1);
        }
        gather.changed(self.va);
    }

    /// Takes out what is mapped.
    pub fn take(&mut self) -> Option<Removed> {
        if self.level != Level::Pte {
            return None;
        }
        let (pfn, attrs) = entry::take_leaf(self.mm, self.table, self.level.index(self.va))?;
        self.add_live(u32::MAX);
        self.mm.count(Event::EntryWrites, 1);
        Some(Removed { pfn, attrs })
    }

    /// Goes to another page of the same PTE table.
    pub fn move_in_table(&mut self, va: VirtAddr) {
        let table = Level::Pmd.bytes();
        debug_assert!(
            self.level == Level::Pte && va.align_down(table) == self.va.align_down(table),
            "{va:?} is in another table"
        );
        self.va = va;
    }

    fn add_live(&self, n: u32) {
        let meta = self.mm.frames().get(self.table);
        meta.set_live(meta.live().wrapping_add(n));
    }
}
