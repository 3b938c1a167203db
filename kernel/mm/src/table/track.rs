//! Soft-dirty: which pages were written since somebody asked to know (soft-dirty.rst). The software bit [`Attrs::TRACKED`] says
//! "not since", and keeps company with a missing WRITE, so that the first write faults and is seen. Fresh entries do not have
//! it: nobody pays who does not ask.

use super::budget::some_leaf_tables;
use super::walk::{indices, pte_table};
use super::{Budget, Cursor, PageTable, contpte, entry, unshare};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::zone::For;
use crate::frame::{Mm, OutOfMemory};
use crate::stat::Event;
use crate::tlb::Gather;

fn tracked(attrs: Attrs) -> Attrs {
    (attrs - Attrs::WRITE) | Attrs::TRACKED
}

/// From now on the first write to each page of `range` is seen, as far as the budget reaches: returns where the rest begins, if
/// there is one. No PMD leaf crosses an end of the range. Out of memory: what comes first may be seen already.
pub fn track_some<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    budget: &mut Budget,
) -> Result<Option<VirtAddr>, OutOfMemory> {
    some_leaf_tables(mm, space, range, budget, &mut |mut leaves, budget| {
        budget.take_leaves(mm, &leaves);
        if leaves.shared {
            let start = leaves.part.start;
            unshare(mm, space, start, For::User, gather)?;
            leaves.table = pte_table(mm, space, start).expect("it was unshared");
        }
        let mut written = 0;
        if leaves.level == Level::Pte {
            contpte::unfold_ends(mm, leaves.table, leaves.part, gather);
            for index in indices(Level::Pte, leaves.part) {
                let changed = entry::modify(mm, leaves.table, index, |_, attrs| tracked(attrs));
                written += u64::from(changed);
            }
            gather.changed_range(leaves.part.start, leaves.part.len(), Level::Pte);
        } else if entry::modify_at(mm, leaves.entry(), |_, attrs| tracked(attrs)) {
            written = 1;
            gather.changed_leaf(leaves.part.start, leaves.level);
        }
        mm.count(Event::EntryWrites, written);
        Ok(())
    })
}

impl<M: Machine> Cursor<'_, M> {
    /// Adds `bits` to what the leaf says after a write to it, which is to be seen: of a folded block this page alone.
    pub fn write_tracked(&mut self, gather: &mut Gather<'_, M>, bits: Attrs) {
        let (va, (table, index, level)) = (self.va(), self.entry());
        if level == Level::Pte {
            contpte::unfold(self.mm(), table, va, gather);
        }
        let written = |_, attrs: Attrs| (attrs - Attrs::TRACKED) | bits;
        let changed = entry::modify_at(self.mm(), (table, index, level), written);
        self.mm().count(Event::EntryWrites, changed.into());
        let start = va.align_down(level.bytes());
        gather.changed_range(start, level.bytes().max(PAGE_SIZE), level);
        if level == Level::Pte {
            // It may have been the last of its block.
            contpte::fold(self.mm(), table, va, gather);
        }
    }
}
