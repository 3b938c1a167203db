//! Walks: the leaves and tables of a range, from the root down.

use super::edit::Edit;
use super::node::{Node, PteTable};
use super::{Budget, Leaf, PageTable};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PteFormat};
use crate::manager::{Mm, SpaceId};
use crate::stat::Event;
use crate::thp::{PMD_ORDER, policy::block};
use crate::tlb::Gather;
use core::convert::Infallible;

/// A PTE table, or the PMD table of one leaf.
pub(super) struct Leaves<'a, M: Machine> {
    pub node: Node<'a, M>,
    /// Whether it is a shared PTE table: `Edit::unshare` precedes any change.
    pub shared: bool,
    /// Intersection of the range with the PTE table or the leaf.
    pub part: VirtRange,
}

impl<'a, M: Machine> Leaves<'a, M> {
    /// The leaf of a PMD table for `part`.
    pub fn leaf(pmd: Node<'a, M>, part: VirtRange) -> Self {
        Leaves {
            node: pmd,
            shared: false,
            part,
        }
    }
    /// The PTE table; `None` for a PMD leaf.
    #[inline]
    pub fn ptes(&self) -> Option<PteTable<'a, M>> {
        (self.node.level == Level::Pte).then(|| self.node.ptes())
    }
    /// Index of the PMD leaf.
    pub fn index(&self) -> usize {
        self.node.index(self.part.start)
    }
    /// Calls `f` for each leaf.
    pub fn each(&self, f: &mut (impl FnMut(Leaf) + ?Sized)) {
        let (step, pages) = match self.node.level {
            Level::Pte => (PAGE_SIZE, 1),
            _ => (self.part.len(), self.part.pages()),
        };
        let mut va = self.part.start;
        while va < self.part.end {
            let leaf = match self.shared {
                true => self.node.ptes().leaf_at_shared(va),
                false => self.node.leaf_at(va, pages),
            };
            if let Some(leaf) = leaf {
                f(leaf);
            }
            va += step;
        }
    }
}

/// Calls `f` for each PTE table and PMD leaf in `range`; an `Err` ends the walk.
pub(super) fn leaf_tables<'a, M: Machine, E>(
    root: Node<'a, M>,
    range: VirtRange,
    f: &mut impl FnMut(Leaves<'a, M>) -> Result<(), E>,
) -> Result<(), E> {
    if range.is_empty() {
        return Ok(());
    }
    debug_assert!(
        range.start < M::Pte::USER_END,
        "{range:?} is not in the user half"
    );
    pmd_tables(root.around(range), range, &mut |pmd, range| {
        for index in pmd.indices(range) {
            let (entry, part) = (pmd.entry(index), pmd.part(index, range));
            let (node, shared) = match entry {
                Entry::Absent => continue,
                Entry::Leaf { .. } => (pmd, false),
                Entry::Table(frame) => (PteTable::new(pmd.mm, frame).node(), false),
                Entry::Shared(frame) => (PteTable::new(pmd.mm, frame).node(), true),
            };
            f(Leaves { node, shared, part })?;
        }
        Ok(())
    })
}

/// Calls `f` for each PMD table at or below `node`, with the part of `range` that it translates; an
/// `Err` ends the walk. User memory has no larger leaves than those of a PMD table.
pub(super) fn pmd_tables<'a, M: Machine, E>(
    node: Node<'a, M>,
    range: VirtRange,
    f: &mut impl FnMut(Node<'a, M>, VirtRange) -> Result<(), E>,
) -> Result<(), E> {
    if node.level == Level::Pmd {
        // The level is a constant in `f`, and with it each shift.
        let level = Level::Pmd;
        return f(Node { level, ..node }, range);
    }
    for index in node.indices(range) {
        if let Some(child) = node.child(node.entry(index)) {
            pmd_tables(child, node.part(index, range), f)?;
        }
    }
    Ok(())
}

/// [`leaf_tables`] within a budget, which `f` charges; returns where the rest begins, if any.
pub(super) fn some_leaf_tables<'a, M: Machine, E>(
    root: Node<'a, M>,
    range: VirtRange,
    budget: &mut Budget,
    f: &mut impl FnMut(Leaves<'a, M>, &mut Budget) -> Result<(), E>,
) -> Result<Option<VirtAddr>, E> {
    let walked = leaf_tables(root, range, &mut |leaves| match budget.is_spent() {
        true => Err(Ok(leaves.part.start)),
        false => f(leaves, budget).map_err(Err),
    });
    walked.map_or_else(|stopped| stopped.map(Some), |()| Ok(None))
}

impl<'a, M: Machine> Node<'a, M> {
    /// The lowest existing table above the PTE level that holds all of `range`.
    #[inline]
    pub(super) fn around(mut self, range: VirtRange) -> Self {
        let apart = range.start.0 ^ (range.end.0 - 1);
        while self.level > Level::Pmd
            && apart >> self.level.shift() == 0
            && let Some(below) = self.below(range.start)
        {
            self = below;
        }
        self
    }

    /// Calls `f` for each leaf in `range` below this root.
    pub fn for_each_leaf(self, range: VirtRange, f: &mut dyn FnMut(Leaf)) {
        let Ok(()) = leaf_tables(self, range, &mut |leaves| {
            leaves.each(f);
            Ok::<_, Infallible>(())
        });
    }

    /// The first address in `range` with a leaf or a PTE table: what precedes it is empty. Costs a
    /// few tables' entries at most, however long the range.
    pub fn first_used(self, range: VirtRange) -> Option<VirtAddr> {
        leaf_tables(self, range, &mut |leaves| Err(leaves.part.start)).err()
    }

    /// Fast path: whether `range` holds neither a leaf nor a table, if one PMD table translates it;
    /// `false` for any other range.
    #[inline]
    pub fn is_empty(self, range: VirtRange) -> bool {
        let near = (range.start.0 ^ (range.end.0 - 1)) < Level::Pud.bytes();
        let pmd = self.table_at(range.start, Level::Pmd);
        pmd.is_some_and(|pmd| {
            let span = pmd.indices(range);
            near && pmd.all_absent(span.start, span.len())
        })
    }

    /// Visits this table for `range`, which is shared if `shared`, and every one below it in
    /// postorder, for [`crate::check`].
    pub fn for_each_table(self, range: VirtRange, shared: bool, f: &mut impl FnMut(Table<'a, M>)) {
        let mut live = 0;
        for index in self.indices(range) {
            let (entry, part) = (self.entry(index), self.part(index, range));
            live += u32::from(entry != Entry::Absent);
            if let Some(child) = self.child(entry) {
                child.for_each_table(part, false, f);
            } else if let Some(table) = self.shared(entry) {
                table.node().for_each_table(part, true, f);
            }
        }
        f(Table {
            node: self,
            range,
            live,
            shared,
        });
    }
}

/// A table, for [`crate::check`].
pub(crate) struct Table<'a, M: Machine> {
    pub node: Node<'a, M>,
    /// Addresses that it translates.
    pub range: VirtRange,
    /// Number of entries that are not absent.
    pub live: u32,
    /// Whether the entry above marks it shared.
    pub shared: bool,
}

/// Calls `f` for each leaf of one step at the start of `range`. Returns where the rest begins, or
/// the end of `range`. Shared tables with one sharer left are taken over first, so that the account
/// is exact.
pub(crate) fn step<M: Machine>(
    mm: &Mm<M>,
    id: &SpaceId,
    space: &mut PageTable,
    range: VirtRange,
    f: &mut impl FnMut(Leaf),
) -> VirtAddr {
    /// Cost of a PTE table besides its leaves, as all entries are read.
    const TABLE: u32 = 128;
    let root = Node::root(mm, space);
    // Fast path: one unshared PTE table holds all leaves of a small range.
    if block(range.start, PMD_ORDER).covers(&range)
        && let Some(table) = root.pte_table(range.start)
    {
        let leaves = Leaves {
            node: table.node(),
            shared: false,
            part: range,
        };
        leaves.each(f);
        return range.end;
    }
    let mut budget = Budget::READ;
    let Ok(stopped) = some_leaf_tables(root, range, &mut budget, &mut |mut leaves, budget| {
        if leaves.shared {
            let mut gather = Gather::new(mm, id);
            leaves.shared = !space.edit(&mut gather).settle(leaves.part.start);
            gather.finish();
        }
        if leaves.ptes().is_some() {
            budget.take(TABLE);
        }
        leaves.each(&mut |leaf| {
            budget.take(1);
            f(leaf);
        });
        Ok::<_, Infallible>(())
    });
    stopped.unwrap_or(range.end)
}

impl<'a, M: Machine> Edit<'_, 'a, M> {
    /// Maps the attributes of the PMD leaf of a walk through `f`.
    pub(super) fn modify_leaf(&mut self, leaves: &Leaves<'a, M>, f: impl FnMut(Attrs) -> Attrs) {
        let node = leaves.node;
        if node.modify(leaves.index(), f) {
            self.gather.changed_leaf(leaves.part.start, node.level);
            node.mm.count(Event::EntryWrites, 1);
        }
    }

    /// Clears the accessed bits in `range` (MADV_COLD); the gather owes nothing for it: a cached
    /// entry only delays the next setting of an advisory bit. A PMD leaf that crosses an end is
    /// cleared whole. Returns where the rest begins when the budget is spent.
    pub fn clear_accessed_some(
        &mut self,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Option<VirtAddr> {
        let Ok(stopped) = some_leaf_tables(self.root(), range, budget, &mut |leaves, budget| {
            budget.take_leaves(&leaves);
            match leaves.ptes() {
                None => {
                    leaves.node.was_used(leaves.index());
                }
                // Advice does not justify the copy of a table.
                Some(_) if leaves.shared => {}
                Some(table) => {
                    for index in table.indices(leaves.part) {
                        table.was_used(index);
                    }
                }
            }
            Ok::<_, Infallible>(())
        });
        stopped
    }
}
