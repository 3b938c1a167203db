//! Budget of one step of a long walk: the lock of the space is released between steps.

use super::walk::Leaves;
use crate::arch::{Level, Machine};
use crate::manager::Mm;

/// Fixed cost of a PTE table, and cost of a leaf above it, in entries.
pub(super) const TABLE: u32 = 64;
const LEAF: u32 = 8;

/// Cost of `runs` of entries with `pages` in total.
#[inline]
pub(super) fn of_runs(runs: u32, pages: u32) -> u32 {
    runs + pages / 8
}

/// Remaining cost of a step, in entries ([`Machine::step`]).
#[derive(Clone, Copy, Debug)]
pub struct Budget(i64);

impl Default for Budget {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl Budget {
    /// No limit: more than there are entries.
    pub const UNLIMITED: Budget = Budget(i64::MAX / 2);
    /// Of a step that reads all leaves, some 50 instructions each.
    pub(super) const READ: Budget = Budget(1024);

    /// The budget of one step.
    #[inline]
    pub fn step<M: Machine>(mm: &Mm<M>) -> Self {
        Budget(mm.machine().step().into())
    }
    /// Subtracts `cost`; `false` when nothing was left before. Each step makes progress.
    #[inline]
    pub fn take(&mut self, cost: u32) -> bool {
        let left = !self.is_spent();
        self.0 -= i64::from(cost);
        left
    }
    /// Whether the budget is used up.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.0 <= 0
    }
    /// Subtracts what was taken of [`Budget::UNLIMITED`] to be `rest`.
    pub fn take_all_but(&mut self, rest: Budget) {
        self.0 -= Self::UNLIMITED.0 - rest.0;
    }
    /// Subtracts the cost of a PTE table read whole, or of a PMD leaf.
    #[inline]
    pub(super) fn take_leaves<M: Machine>(&mut self, leaves: &Leaves<'_, M>) {
        match leaves.node.level {
            Level::Pte => self.take(TABLE + leaves.node.live()),
            _ => self.take_leaf(),
        };
    }
    /// Subtracts the cost of a leaf above the PTEs.
    #[inline]
    pub fn take_leaf(&mut self) -> bool {
        self.take(LEAF)
    }
}
