//! Steps of long walks: how much of a range is done before the lock of the space is released for
//! others.

use super::PageTable;
use super::node::Node;
use super::walk::{Leaves, leaf_tables};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Level, Machine};
use crate::manager::Mm;

/// What a PTE table costs beside its entries, and what a leaf above it costs, in entries.
pub(super) const TABLE: u32 = 64;
const LEAF: u32 = 8;

/// What entries cost, folio by folio: `runs` of entries, `pages` together.
#[inline]
pub(super) fn of_runs(runs: u32, pages: u32) -> u32 {
    runs + pages / 8
}

/// What is left of a step, in entries ([`Machine::step`]).
#[derive(Clone, Copy, Debug)]
pub struct Budget(i64);

impl Default for Budget {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl Budget {
    /// All in one step: more than there are entries.
    pub const UNLIMITED: Budget = Budget(i64::MAX / 2);

    /// One step.
    #[inline]
    pub fn step<M: Machine>(mm: &Mm<M>) -> Self {
        Budget(mm.machine().step().into())
    }
    /// Takes something off; `false` when nothing was left. So each step does something, however
    /// small it is.
    #[inline]
    pub fn take(&mut self, cost: u32) -> bool {
        let left = !self.is_spent();
        self.0 -= i64::from(cost);
        left
    }
    /// Whether nothing is left.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.0 <= 0
    }
    /// Takes off what a PTE table costs of which each entry is looked at, or a leaf above the PTEs.
    #[inline]
    pub(super) fn take_leaves<M: Machine>(&mut self, leaves: &Leaves<'_, M>) {
        match leaves.node.level {
            Level::Pte => self.take(TABLE + leaves.node.live()),
            _ => self.take_leaf(),
        };
    }
    /// Takes off what a leaf above the PTEs costs.
    #[inline]
    pub fn take_leaf(&mut self) -> bool {
        self.take(LEAF)
    }
}

/// [`leaf_tables`] within a budget, of which `f` takes off what it does; returns where the rest
/// begins, if there is one.
pub(super) fn some_leaf_tables<'a, M: Machine, E>(
    root: Node<'a, M>,
    range: VirtRange,
    budget: &mut Budget,
    f: &mut impl FnMut(Leaves<'a, M>, &mut Budget) -> Result<(), E>,
) -> Result<Option<VirtAddr>, E> {
    let walked = leaf_tables(root, range, &mut |leaves| {
        if budget.is_spent() {
            return Err(Stop::Here(leaves.part.start));
        }
        f(leaves, budget).map_err(Stop::Failed)
    });
    match walked {
        Ok(()) => Ok(None),
        Err(Stop::Here(at)) => Ok(Some(at)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// Why a walk ends before its range does.
enum Stop<E> {
    Here(VirtAddr),
    Failed(E),
}

/// The first address in `range` at or behind which an entry maps something, or at least a PTE table
/// is: what lies before it is empty. It takes no longer than a few tables' entries, however long
/// the range.
pub(crate) fn first_used<M: Machine>(
    mm: &Mm<M>,
    space: &PageTable,
    range: VirtRange,
) -> Option<VirtAddr> {
    leaf_tables(Node::root(mm, space), range, &mut |leaves| {
        Err(leaves.part.start)
    })
    .err()
}
