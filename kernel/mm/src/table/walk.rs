//! Walking: one address, every leaf, or every table of a range. Nothing here changes a translation.

use super::budget::some_leaf_tables;
use super::node::{Node, Present, PteTable};
use super::{Budget, PageTable, contpte, user_root_end};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PteFormat};
use crate::manager::Mm;
use core::convert::Infallible;

/// A leaf, or the part of it that a range covers.
#[derive(Clone, Copy, Debug)]
pub struct Leaf {
    /// The first page.
    pub va: VirtAddr,
    /// How many pages: 1 for a PTE.
    pub pages: u64,
    /// The frame of the first page.
    pub pfn: Pfn,
    /// How it may be used and how it was; of a folded block, how any of its entries was. Never
    /// CONTIG.
    pub attrs: Attrs,
    /// Where the leaf stands.
    pub level: Level,
    /// Whether it is part of a folded block.
    pub folded: bool,
    /// How many spaces have a table that is shared (`share`), 0 for any other table.
    pub sharers: u64,
}

/// The leaf that translates `va`, cut down to the page of `va`.
pub fn lookup<M: Machine>(mm: &Mm<M>, space: &PageTable, va: VirtAddr) -> Option<Leaf> {
    let va = va.align_down(PAGE_SIZE);
    let node = Node::root(mm, space).down_to(va, Level::Pte);
    match node.entry(node.index(va)) {
        Entry::Shared(frame) => PteTable { mm, frame }.leaf_at_shared(va),
        _ => node.leaf_at(va, 1),
    }
}

impl<'a, M: Machine> Node<'a, M> {
    /// The leaf that the entry for `va` holds, from `va` on.
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

/// A table that holds leaves of a range: a PTE table, or a PMD table for one entry that is a leaf.
pub(super) struct Leaves<'a, M: Machine> {
    pub node: Node<'a, M>,
    /// Whether it is a PTE table that spaces share: [`super::unshare`] comes before any change.
    pub shared: bool,
    /// The part of the range that the PTE table or the leaf covers.
    pub part: VirtRange,
}

impl<'a, M: Machine> Leaves<'a, M> {
    /// The PTE table; `None` when it is a leaf above.
    #[inline(always)]
    pub fn ptes(&self) -> Option<PteTable<'a, M>> {
        (self.node.level == Level::Pte).then(|| self.node.ptes())
    }
    /// The index of the leaf, above the PTEs.
    pub fn index(&self) -> usize {
        self.node.index(self.part.start)
    }

    /// Calls `f` for each leaf in it.
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

/// Calls `f` for each PTE table and each leaf above that there is in `range`. `f` returns `Err` to
/// stop.
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

/// As [`leaf_tables`], from a table above the PTEs on.
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

/// Whether neither a leaf nor a table stands in `range`: fast path for a range that one PMD table
/// translates. Of any other range it says `false`.
#[inline]
pub(crate) fn is_empty<M: Machine>(mm: &Mm<M>, space: &PageTable, range: VirtRange) -> bool {
    let near = (range.start.0 ^ (range.end.0 - 1)) < Level::Pud.bytes();
    let pmd = Node::root(mm, space).table_at(range.start, Level::Pmd);
    pmd.is_some_and(|pmd| {
        let span = pmd.indices(range);
        near && pmd.all_absent(span.start, span.len())
    })
}

/// Clears the accessed bit in `range` (MADV_COLD). Without a flush: a TLB that still has the entry
/// only delays the next setting, and the bit is advice. A PMD leaf that reaches out of the range is
/// used as one, so it is cleared too. Returns where the rest begins, when the budget did not reach.
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
            // It is advice, and no reason to copy a table.
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
    /// What it translates.
    pub range: VirtRange,
    /// How many entries are not absent.
    pub live: u32,
    /// Whether the entry above says that spaces share it.
    pub shared: bool,
}

/// Every table under `space`, the root included, in walking order, for [`crate::check`].
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
