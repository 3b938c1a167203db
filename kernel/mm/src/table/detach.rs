//! Detaching: the PTE tables of memory that is unmapped leave the tables of their space as they
//! are.
//!
//! That is short, and one flush serves for all of them. What they map is dropped afterwards, when
//! no CPU walks them: without a write to their entries, and without the lock of the space as a
//! writer.

use super::edit::{Edit, Entries};
use super::node::{Node, PteTable};
use super::{Budget, Zap, budget};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Level, Machine, TABLE_ENTRIES};
use crate::sync;
use crate::tlb::Gather;
use arrayvec::ArrayVec;

/// Tables at a time: of 128 MiB, with 4 KiB pages.
const TABLES: usize = 64;

/// PTE tables that no table points to. CPUs may walk them until the gather of the space has
/// flushed.
#[must_use = "the tables and what they map are to be dropped"]
pub struct Detached<'a, M: Machine>(ArrayVec<(VirtAddr, PteTable<'a, M>), TABLES>);

impl<'a, M: Machine> Detached<'a, M> {
    /// No tables.
    pub fn new() -> Self {
        Detached(ArrayVec::new())
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives tables, and what they map, to `gather`, until the budget of `zap` is spent; adds up
    /// the pages there. Precondition: the flush that was owed for them is done.
    pub fn zap(&mut self, gather: &mut Gather<'a, M>, zap: &mut Zap) {
        debug_assert!(zap.dead, "no CPU walks a detached table");
        while !zap.budget.is_spent()
            && let Some((start, table)) = self.0.pop()
        {
            let range = VirtRange::new(start, start + Level::Pmd.bytes());
            let mut entries = Entries { table, gather };
            entries.drop_swapped(range, zap);
            entries.zap(range, zap);
            zap.budget.take(budget::TABLE);
            gather.detached_table(table.frame);
        }
    }
}

impl<M: Machine> Drop for Detached<'_, M> {
    fn drop(&mut self) {
        debug_assert!(
            self.is_empty() || sync::panicking(),
            "detached tables were forgotten"
        );
    }
}

impl<'a, M: Machine> Edit<'_, 'a, M> {
    /// Detaches the PTE tables that map nothing outside of `range`, until there is no room for
    /// more, or the work of a step is done; returns where the rest begins then. The gather owes the
    /// flush.
    pub fn detach(&mut self, range: VirtRange, tables: &mut Detached<'a, M>) -> Option<VirtAddr> {
        let mut budget = Budget::step(self.mm());
        self.detach_below(self.root(), range, tables, &mut budget)
    }

    fn detach_below(
        &mut self,
        node: Node<'a, M>,
        range: VirtRange,
        tables: &mut Detached<'a, M>,
        budget: &mut Budget,
    ) -> Option<VirtAddr> {
        for index in node.indices(range) {
            let Some(child) = node.child(node.entry(index)) else {
                continue;
            };
            let part = node.part(index, range);
            if child.level > Level::Pte {
                if budget.is_spent() {
                    return Some(part.start);
                }
                let stopped = self.detach_below(child, part, tables, budget);
                if stopped.is_some() {
                    return stopped;
                }
                // Also where nothing is detached: much memory may have few tables.
                budget.take(budget::TABLE);
            } else if is_all_in(child.ptes(), part) {
                let start = part.start.align_down(Level::Pmd.bytes());
                if tables.0.try_push((start, child.ptes())).is_err() {
                    return Some(part.start);
                }
                self.unlink(node, part);
                self.gather.unhooked(start, Level::Pte);
                self.mm().table_unlinked(true);
            }
        }
        None
    }
}

/// Whether the table maps something, and nothing outside of `part`, which lies in it.
fn is_all_in<M: Machine>(table: PteTable<'_, M>, part: VirtRange) -> bool {
    let span = table.indices(part);
    table.live() != 0
        && table.all_absent(0, span.start)
        && table.all_absent(span.end, TABLE_ENTRIES - span.end)
}
