//! Soft-dirty tracking (soft-dirty.rst): the software bit [`Attrs::TRACKED`] marks a page not
//! written since the last clear_refs. It implies no WRITE, so that the first write faults. Fresh
//! entries lack it: tracking costs nothing until it is used.

use super::Budget;
use super::edit::Edit;
use super::walk::some_leaf_tables;
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::manager::Result;
use crate::stat::Event;

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
    ) -> Result<Option<VirtAddr>> {
        some_leaf_tables(self.root(), range, budget, &mut |mut leaves, budget| {
            budget.take_leaves(&leaves);
            self.own(&mut leaves)?;
            let Some(table) = leaves.ptes() else {
                self.modify_leaf(&leaves, tracked);
                return Ok(());
            };
            let part = leaves.part;
            self.entries(table).unfold_ends(part);
            let track = |index| u64::from(table.modify(index, tracked));
            let written = table.indices(part).map(track).sum();
            self.gather
                .changed_range(part.start, part.len(), Level::Pte);
            table.mm.count(Event::EntryWrites, written);
            Ok(())
        })
    }
}
