//! Read-only page-table walks: one address, every leaf or every table of a range.

use super::budget::some_leaf_tables;
use super::node::{Node, Present, PteTable};
use super::{Budget, PageTable, contpte, user_root_end};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PteFormat};
use crate::manager::Mm;
use core::convert::Infallible;

/// A leaf, or the part of it in a range.
#[derive(Clone, Copy, Debug)]
pub struct Leaf {
    /// The first page.
    pub va: VirtAddr,
    /// Number of pages: 1 for a PTE.
    pub pages: u64,
    /// The frame of the first page.
    pub pfn: Pfn,
    /// Rights and use; of a folded block, the OR of ACCESSED and DIRTY over its entries. Never
    /// CONTIG.
    pub attrs: Attrs,
    /// Level of the entry.
    pub level: Level,
    /// Whether it belongs to a folded contpte block.
    pub folded: bool,
    /// Number of spaces that share the table (`share`); 0 if it is not shared.
    pub sharers: u64,
}

/// The leaf that translates `va`, narrowed to one page.
pub fn lookup<M: Machine>(mm: &Mm<M>, space: &PageTable, va: VirtAddr) -> Option<Leaf> {
    let va = va.align_down(PAGE_SIZE);
    let node = Node::root(mm, space).down_to(va, Level::Pte);
    match node.entry(node.index(va)) {
        Entry::Shared(frame) => PteTable { mm, frame }.leaf_at_shared(va),
        _ => node.leaf_at(va, 1),
    }
}

impl<'a, M: Machine> Node<'a, M> {
    /// The leaf in the entry for `va`, starting at `va`.
    #[inline]
    pub fn leaf_at(self, va: VirtAddr, pages: u64) -> Option<Leaf> {
        let index = self.index(va);
        let Present { pfn, attrs, .. } = self.present(index)?;
        let folded = self.level == Level::Pte && contpte::folded::<M>(attrs);
        Some(Leaf {
            va,
            pages,
            pfn: pfn + (va - va.align_down(self.level.bytes())) / PAGE_SIZE,
            attrs: if folded {
                self.ptes().seen(index, attrs)
            } else {
                attrs
            },
            level: self.level,
            folded,
            sharers: 0,
        })
    }
}

/// A PTE table, or the PMD table of one leaf.
pub(super) struct Leaves<'a, M: Machine> {
    pub node: Node<'a, M>,
    /// Whether it is a shared PTE table: `Edit::unshare` precedes any change.
    pub shared: bool,
    /// Intersection of the range with the PTE table or the leaf.
    pub part: VirtRange,
}

impl<'a, M: Machine> Leaves<'a, M> {
    /// The PTE table; `None` for a PMD leaf.
    #[inline(always)]
    pub fn ptes(&self) -> Option<PteTable<'a, M>> {
        (self.node.level == Level::Pte).then(|| self.node.ptes())
    }
    /// Index of the PMD leaf.
    pub fn index(&self) -> usize {
        self.node.index(self.part.start)
    }

    /// Calls `f` for each leaf.
    pub fn each(&self, f: &mut impl FnMut(Leaf)) {
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
        Level::Pgd.index(VirtAddr(range.end.0 - 1)) < user_root_end::<M>(),
        "{range:?} is not in the user half"
    );
    descend(root, range, f)
}

/// [`leaf_tables`] below one table above the PTE level.
fn descend<'a, M: Machine, E>(
    node: Node<'a, M>,
    range: VirtRange,
    f: &mut impl FnMut(Leaves<'a, M>) -> Result<(), E>,
) -> Result<(), E> {
    let lower = node.level.lower().expect("a PTE table holds leaves only");
    for index in node.indices(range) {
        let part = node.part(index, range);
        let below = |frame| Node {
            frame,
            level: lower,
            ..node
        };
        let (node, shared) = match node.entry(index) {
            Entry::Table(child) if lower > Level::Pte => {
                descend(below(child), part, f)?;
                continue;
            }
            Entry::Table(child) => (below(child), false),
            Entry::Shared(child) => (below(child), true),
            Entry::Leaf { .. } => (node, false),
            Entry::Absent => continue,
        };
        f(Leaves { node, shared, part })?;
    }
    Ok(())
}

/// Calls `f` for each leaf in `range`.
pub fn for_each_leaf<M: Machine>(
    mm: &Mm<M>,
    space: &PageTable,
    range: VirtRange,
    f: &mut impl FnMut(Leaf),
) {
    let Ok(()) = leaf_tables(Node::root(mm, space), range, &mut |leaves| {
        leaves.each(f);
        Ok::<_, Infallible>(())
    });
}

/// Fast path: whether `range` holds neither a leaf nor a table, if one PMD table translates it;
/// `false` for any other range.
#[inline]
pub(crate) fn is_empty<M: Machine>(mm: &Mm<M>, space: &PageTable, range: VirtRange) -> bool {
    let near = (range.start.0 ^ (range.end.0 - 1)) < Level::Pud.bytes();
    let pmd = Node::root(mm, space).table_at(range.start, Level::Pmd);
    pmd.is_some_and(|pmd| {
        let span = pmd.indices(range);
        near && pmd.all_absent(span.start, span.len())
    })
}

/// Clears the accessed bits in `range` (MADV_COLD), without a flush: a cached entry only delays the
/// next setting of an advisory bit. A PMD leaf that crosses an end is cleared whole. Returns where
/// the rest begins when the budget is spent.
pub fn clear_accessed_some<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    range: VirtRange,
    budget: &mut Budget,
) -> Option<VirtAddr> {
    let clear = |attrs: Attrs| attrs - Attrs::ACCESSED;
    let root = Node::root(mm, space);
    let Ok(stopped) = some_leaf_tables(root, range, budget, &mut |leaves, budget| {
        budget.take_leaves(&leaves);
        match leaves.ptes() {
            None => {
                leaves.node.modify(leaves.index(), clear);
            }
            // Advice does not justify the copy of a table.
            Some(_) if leaves.shared => {}
            Some(table) => {
                for index in table.indices(leaves.part) {
                    table.modify(index, clear);
                }
            }
        }
        Ok::<_, Infallible>(())
    });
    stopped
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

/// Visits every table of `space` in postorder, for [`crate::check`].
pub(crate) fn for_each_table<'a, M: Machine>(
    mm: &'a Mm<M>,
    space: &PageTable,
    f: &mut impl FnMut(Table<'a, M>),
) {
    fn visit<'a, M: Machine>(mut table: Table<'a, M>, f: &mut impl FnMut(Table<'a, M>)) {
        let node = table.node;
        for index in node.indices(table.range) {
            let range = node.part(index, table.range);
            let below = |frame, shared| Table {
                node: Node {
                    frame,
                    level: node.level.lower().expect("a PTE is never a table"),
                    ..node
                },
                range,
                live: 0,
                shared,
            };
            match node.entry(index) {
                Entry::Absent => continue,
                Entry::Table(child) => visit(below(child, false), f),
                Entry::Shared(child) => visit(below(child, true), f),
                Entry::Leaf { .. } => {}
            }
            table.live += 1;
        }
        f(table);
    }
    let root = Table {
        node: Node::root(mm, space),
        range: VirtRange::new(VirtAddr(0), M::Pte::USER_END),
        live: 0,
        shared: false,
    };
    visit(root, f);
}
