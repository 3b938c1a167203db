//! Soft-dirty tracking (soft-dirty.rst): the software bit [`Attrs::TRACKED`] marks a page not
//! written since the last clear_refs. It implies no WRITE, so that the first write faults. Fresh
//! entries lack it: tracking costs nothing until it is used.

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
    /// Write-protects and marks each page of `range` within the budget; returns where the rest
    /// begins, if any. No PMD leaf crosses an end of the range. Out of memory: the start of the
    /// range may be marked already.
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
    /// Adds `bits` to the leaf and clears its mark after a tracked write; of a folded block, this
    /// page alone changes.
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
            // It may complete its block.
            self.entries(gather).fold(va);
        }
    }
}
