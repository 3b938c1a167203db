//! Changes of what is mapped at a cursor.

use super::Cursor;
use super::edit::{Entries, take_leaf};
use super::node::{Node, Present, PteTable};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::zone::Reserve;
use crate::manager::Result;
use crate::stat::Event;
use crate::thp::{PMD_ORDER, policy::block};
use crate::tlb::{Gather, Removed};

/// A cursor, and the gather that owes the flush.
pub struct Change<'c, 's, 'a, M: Machine> {
    pub(super) cursor: &'c mut Cursor<'s, M>,
    pub(super) gather: &'c mut Gather<'a, M>,
}

impl<'s, M: Machine> Cursor<'s, M> {
    /// The editor of what is mapped here; the gather is the space's.
    #[inline(always)]
    pub fn edit<'c, 'a>(&'c mut self, gather: &'c mut Gather<'a, M>) -> Change<'c, 's, 'a, M> {
        Change {
            cursor: self,
            gather,
        }
    }
}

impl<'a, M: Machine> Change<'_, '_, 'a, M> {
    /// The editor of the cursor's table, which is a PTE table.
    #[inline(always)]
    pub(super) fn entries(&mut self) -> Entries<'_, 'a, M> {
        let node = self.cursor.node;
        debug_assert!(node.level == Level::Pte);
        let (mm, frame) = (self.gather.mm(), node.frame);
        Entries {
            table: PteTable::new(mm, frame),
            gather: self.gather,
        }
    }

    /// Splits the page's PMD leaf, or makes its shared table private to this space, and descends to
    /// its PTE.
    pub fn open(self) -> Result {
        let Cursor { space, va, .. } = &mut *self.cursor;
        let mut edit = space.edit(self.gather);
        edit.split_leaf(*va, Reserve::User)?;
        edit.unshare(*va, Reserve::User)?;
        if self.cursor.node.level == Level::Pmd {
            self.cursor.descend(Level::Pmd);
        }
        Ok(())
    }

    /// Unlinks an empty PTE table, so that the PMD entry is free for a leaf.
    pub fn remove_empty_table(self) {
        let cursor = self.cursor;
        if cursor.node.level == Level::Pte && cursor.pmd_is_empty() {
            let (mm, level) = (self.gather.mm(), Level::Pmd);
            let node = |frame, level| Node { mm, frame, level };
            let pmd = node(cursor.above, level);
            let empty = node(cursor.node.frame, Level::Pte);
            let mut edit = cursor.space.edit(self.gather);
            edit.unhook(pmd, empty, block(cursor.va, PMD_ORDER));
            (cursor.node.frame, cursor.node.level) = (cursor.above, level);
        }
    }

    /// Adds `bits` to the leaf, or to all entries of a folded block, so that it stays folded; the
    /// gather owes the flush. `area` is the VMA's range, which a block may cross.
    pub fn add_bits(mut self, bits: Attrs, area: VirtRange) {
        let (index, va, node) = (self.cursor.index(), self.cursor.va, self.cursor.node);
        let level = node.level;
        let (from, written) = if level == Level::Pte {
            self.entries().add_bits(va, bits, area)
        } else {
            let written = node.modify(index, |attrs| attrs | bits);
            (index..index + 1, u64::from(written))
        };
        node.mm.count(Event::EntryWrites, written);
        let start = va.align_down(level.bytes()).0 - (index - from.start) as u64 * PAGE_SIZE;
        let len = from.len() as u64 * level.bytes();
        self.gather.changed_range(VirtAddr(start), len, level);
        if level == Level::Pte && bits.contains(Attrs::WRITE) {
            // It may have been the last of its block.
            self.entries().fold(va);
        }
    }

    /// Adds `bits` to the leaf and clears its soft-dirty mark after a tracked write; of a folded
    /// block, this page alone changes, of a huge page all of it.
    pub fn write_tracked(mut self, bits: Attrs, huge: bool) {
        if huge {
            return self.modify_huge(|attrs| (attrs - Attrs::TRACKED) | bits);
        }
        let (va, node) = (self.cursor.va, self.cursor.node);
        let level = node.level;
        if level == Level::Pte {
            self.entries().unfold(va);
        }
        let changed = node.modify(node.index(va), |attrs| (attrs - Attrs::TRACKED) | bits);
        node.mm.count(Event::EntryWrites, changed.into());
        self.gather
            .changed_leaf(va.align_down(level.bytes()), level);
        if level == Level::Pte {
            // It may complete its block.
            self.entries().fold(va);
        }
    }

    /// Unmaps the page. A folded block is unfolded; a PMD leaf must be split already.
    pub fn take(mut self) {
        let (va, node) = (self.cursor.va, self.cursor.node);
        assert!(node.level == Level::Pte, "{va:?} has no PTE");
        self.entries().unfold(va);
        let node = node.ptes().node();
        let Some(Present { pfn, .. }) = node.take_leaf(Level::Pte.index(va)) else {
            unreachable!("the page was mapped, and the space is locked");
        };
        node.lost(1);
        let frames = node.mm.frames();
        if frames.single(pfn).is_some() {
            return self.gather.removed_page(va, pfn);
        }
        let removed = Removed::ptes(frames.head(pfn), pfn, 1);
        self.gather.removed(va, removed);
    }

    /// Unmaps the page's leaf above the PTE level.
    pub fn take_huge(self) {
        let (va, node) = (self.cursor.va, self.cursor.node);
        assert!(node.level != Level::Pte, "{va:?} has no large leaf");
        take_leaf(node, va.align_down(node.level.bytes()), self.gather);
    }
}
