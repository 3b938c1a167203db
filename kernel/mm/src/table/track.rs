//! Soft-dirty: which pages were written since somebody asked to know (soft-dirty.rst). The software
//! bit [`Attrs::TRACKED`] says "not since", and keeps company with a missing WRITE, so that the
//! first write faults and is seen. Fresh entries do not have it: nobody pays who does not ask.

use super::budget::some_leaf_tables;
use super::edit::Edit;
use super::{Budget, Cursor};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::zone::Reserve;
use crate::manager::OutOfMemory;
use crate::stat::Event;
use crate::tlb::Gather;

fn tracked(attrs: Attrs) -> Attrs {
    (attrs - Attrs::WRITE) | Attrs::TRACKED
}

impl<M: Machine> Edit<'_, '_, M> {
    /// From now on the first write to each page of `range` is seen, as far as the budget reaches:
    /// returns where the rest begins, if there is one. No PMD leaf crosses an end of the range. Out
    /// of memory: what comes first may be seen already.
    pub fn track_some(
        &mut self,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>, OutOfMemory> {
        let root = self.root();
        some_leaf_tables(root, range, budget, &mut |mut leaves, budget| {
            budget.take_leaves(&leaves);
            let part = leaves.part;
            if leaves.shared {
                self.unshare(part.start, Reserve::User)?;
                leaves.node = root.pte_table(part.start).expect("it was unshared").node();
            }
            let mut written = 0;
            if let Some(table) = leaves.ptes() {
                self.entries(table).unfold_ends(part);
                for index in table.indices(part) {
                    written += u64::from(table.modify(index, tracked));
                }
                self.gather
                    .changed_range(part.start, part.len(), Level::Pte);
            } else if leaves.node.modify(leaves.index(), tracked) {
                written = 1;
                self.gather.changed_leaf(part.start, leaves.node.level);
            }
            root.mm.count(Event::EntryWrites, written);
            Ok(())
        })
    }
}

impl<M: Machine> Cursor<'_, M> {
    /// Adds `bits` to what the leaf says after a write to it, which is to be seen: of a folded
    /// block this page alone.
    pub fn write_tracked(&mut self, gather: &mut Gather<'_, M>, bits: Attrs) {
        let (va, node) = (self.va(), self.node());
        let level = node.level;
        if level == Level::Pte {
            self.entries(gather).unfold(va);
        }
        let changed = node.modify(node.index(va), |attrs| (attrs - Attrs::TRACKED) | bits);
        node.mm.count(Event::EntryWrites, changed.into());
        let start = va.align_down(level.bytes());
        gather.changed_range(start, level.bytes().max(PAGE_SIZE), level);
        if level == Level::Pte {
            // It may have been the last of its block.
            self.entries(gather).fold(va);
        }
    }
}
