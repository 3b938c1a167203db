//! Walking: one address, every leaf, or every table of a range. Nothing here changes a translation.

use super::budget::some_leaf_tables;
use super::{Budget, PageTable, contpte, entry, share, user_root_end};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PteFormat};
use crate::frame::Mm;
use core::convert::Infallible;
use core::ops::Range;

/// A leaf, or the part of it that a range covers.
#[derive(Clone, Copy, Debug)]
pub struct Leaf {
    /// The first page.
    pub va: VirtAddr,
    /// How many pages: 1 for a PTE.
    pub pages: u64,
    /// The frame of the first page.
    pub pfn: Pfn,
    /// How it may be used and how it was; of a folded block, how any of its entries was. Never CONTIG.
    pub attrs: Attrs,
    /// Where the leaf stands.
    pub level: Level,
    /// Whether it is part of a folded block.
    pub folded: bool,
    /// How many spaces have a table that is shared (`share`), 0 for any other table.
    pub sharers: u64,
}

/// The leaf that translates `va`, cut down to the page of `va`.
pub fn lookup<M: Machine>(mm: &Mm<M>, table: &PageTable, va: VirtAddr) -> Option<Leaf> {
    let va = va.align_down(PAGE_SIZE);
    let (mut at, mut level) = (table.root, Level::Pgd);
    loop {
        match (entry::read(mm, at, level.index(va), level), level.lower()) {
            (Entry::Table(next), Some(lower)) => (at, level) = (next, lower),
            (Entry::Shared(next), _) => return share::leaf_at(mm, next, va),
            (Entry::Leaf { .. }, _) => return leaf_at(mm, at, level, va, 1),
            _ => return None,
        }
    }
}

/// The table of `level` that holds the entry for `va`, if there is one; never one that is shared.
pub(super) fn table_at<M: Machine>(
    mm: &Mm<M>,
    space: &PageTable,
    va: VirtAddr,
    level: Level,
) -> Option<Pfn> {
    let (mut table, mut at) = (space.root, Level::Pgd);
    while at > level {
        let Entry::Table(next) = entry::read(mm, table, at.index(va), at) else {
            return None;
        };
        (table, at) = (next, at.lower()?);
    }
    Some(table)
}

/// The PTE table on the way to `va`, if there is one that is not shared. Each level for itself, so that its bits are constants.
#[inline]
pub(super) fn pte_table<M: Machine>(mm: &Mm<M>, space: &PageTable, va: VirtAddr) -> Option<Pfn> {
    let below = |table, level: Level| match entry::read(mm, table, level.index(va), level) {
        Entry::Table(next) => Some(next),
        _ => None,
    };
    let pud = below(space.root, Level::Pgd)?;
    below(below(pud, Level::Pud)?, Level::Pmd)
}

/// The leaf that the entry for `va` in `table` holds, from `va` on.
#[inline]
pub(super) fn leaf_at<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    level: Level,
    va: VirtAddr,
    pages: u64,
) -> Option<Leaf> {
    let index = level.index(va);
    let (pfn, attrs, _) = entry::read_leaf_at(mm, (table, index, level))?;
    let folded = level == Level::Pte && contpte::folded::<M>(attrs);
    Some(Leaf {
        va,
        pages,
        pfn: pfn + (va - va.align_down(level.bytes())) / PAGE_SIZE,
        attrs: if folded {
            contpte::seen(mm, table, index, attrs)
        } else {
            attrs
        },
        level,
        folded,
        sharers: 0,
    })
}

/// The indices of a table of `level` that `range` touches, when the table starts at or before `range.start`.
#[inline]
pub(super) fn indices(level: Level, range: VirtRange) -> Range<usize> {
    level.index(range.start)..level.index(VirtAddr(range.end.0 - 1)) + 1
}

/// The part of `range` that entry `index` of the table of `level` that holds `range` covers.
#[inline]
pub(super) fn part(level: Level, index: usize, range: VirtRange) -> VirtRange {
    let base = range.start.align_down(level.bytes() << 9).0 + ((index as u64) << level.shift());
    VirtRange {
        start: VirtAddr(range.start.0.max(base)),
        end: VirtAddr(range.end.0.min(base + level.bytes())),
    }
}

/// A table that holds leaves of a range: a PTE table, or a PMD table for one entry that is a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaves {
    pub table: Pfn,
    pub level: Level,
    /// Whether it is a PTE table that spaces share: [`super::unshare`] comes before any change.
    pub shared: bool,
    /// The part of the range that the PTE table or the leaf covers.
    pub part: VirtRange,
}

impl Leaves {
    /// The entry of the leaf, above the PTEs.
    pub fn entry(&self) -> (Pfn, usize, Level) {
        (self.table, self.level.index(self.part.start), self.level)
    }
}

/// Calls `f` for each PTE table and each leaf above that there is in `range`. `f` returns `Err` to stop.
pub(super) fn leaf_tables<M: Machine, E>(
    mm: &Mm<M>,
    table: &PageTable,
    range: VirtRange,
    f: &mut impl FnMut(Leaves) -> Result<(), E>,
) -> Result<(), E> {
    if range.is_empty() {
        return Ok(());
    }
    debug_assert!(
        Level::Pgd.index(VirtAddr(range.end.0 - 1)) < user_root_end::<M>(),
        "{range:?} is not in the user half"
    );
    descend(mm, (table.root, Level::Pgd), range, f)
}

/// As [`leaf_tables`], from a table above the PTEs on.
fn descend<M: Machine, E>(
    mm: &Mm<M>,
    (table, level): (Pfn, Level),
    range: VirtRange,
    f: &mut impl FnMut(Leaves) -> Result<(), E>,
) -> Result<(), E> {
    let lower = level.lower().expect("a PTE table holds leaves only");
    for index in indices(level, range) {
        let part = part(level, index, range);
        let (table, level, shared) = match entry::read(mm, table, index, level) {
            Entry::Table(child) if lower > Level::Pte => {
                descend(mm, (child, lower), part, f)?;
                continue;
            }
            Entry::Table(child) => (child, lower, false),
            Entry::Shared(child) => (child, lower, true),
            Entry::Leaf { .. } => (table, level, false),
            Entry::Absent => continue,
        };
        f(Leaves {
            table,
            level,
            shared,
            part,
        })?;
    }
    Ok(())
}

/// Calls `f` for each leaf in `range`.
pub fn for_each_leaf<M: Machine>(
    mm: &Mm<M>,
    table: &PageTable,
    range: VirtRange,
    f: &mut impl FnMut(Leaf),
) {
    let Ok(()) = leaf_tables(mm, table, range, &mut |leaves| {
        leaves_of(mm, &leaves, f);
        Ok::<_, Infallible>(())
    });
}

/// Calls `f` for each leaf in a table.
pub(super) fn leaves_of<M: Machine>(mm: &Mm<M>, leaves: &Leaves, f: &mut impl FnMut(Leaf)) {
    let (step, pages) = if leaves.level == Level::Pte {
        (PAGE_SIZE, 1)
    } else {
        (leaves.part.len(), leaves.part.pages())
    };
    let mut va = leaves.part.start;
    while va < leaves.part.end {
        let leaf = if leaves.shared {
            share::leaf_at(mm, leaves.table, va)
        } else {
            leaf_at(mm, leaves.table, leaves.level, va, pages)
        };
        if let Some(leaf) = leaf {
            f(leaf);
        }
        va += step;
    }
}

/// Clears the accessed bit in `range` (MADV_COLD). Without a flush: a TLB that still has the entry only delays the next
/// setting, and the bit is advice. A PMD leaf that reaches out of the range is used as one, so it is cleared too. Returns where
/// the rest begins, when the budget did not reach.
pub fn clear_accessed_some<M: Machine>(
    mm: &Mm<M>,
    table: &mut PageTable,
    range: VirtRange,
    budget: &mut Budget,
) -> Option<VirtAddr> {
    let clear = |_, attrs: Attrs| attrs - Attrs::ACCESSED;
    let Ok(stopped) = some_leaf_tables(mm, table, range, budget, &mut |leaves, budget| {
        budget.take_leaves(mm, &leaves);
        if leaves.level != Level::Pte {
            entry::modify_at(mm, leaves.entry(), clear);
            return Ok::<_, Infallible>(());
        }
        // It is advice, and no reason to copy a table.
        if leaves.shared {
            return Ok(());
        }
        for index in indices(Level::Pte, leaves.part) {
            entry::modify(mm, leaves.table, index, clear);
        }
        Ok(())
    });
    stopped
}

/// A table, for [`crate::check`].
pub(crate) struct Table {
    pub frame: Pfn,
    pub level: Level,
    /// What it translates.
    pub range: VirtRange,
    /// How many entries are not absent.
    pub live: u32,
    /// Whether the entry above says that spaces share it.
    pub shared: bool,
}

/// Every table under `table`, the root included, in walking order, for [`crate::check`].
pub(crate) fn for_each_table<M: Machine>(mm: &Mm<M>, table: &PageTable, f: &mut impl FnMut(Table)) {
    fn visit<M: Machine>(mm: &Mm<M>, mut table: Table, f: &mut impl FnMut(Table)) {
        let (frame, level) = (table.frame, table.level);
        for index in indices(level, table.range) {
            let range = part(level, index, table.range);
            let below = |frame, shared| Table {
                frame,
                level: level.lower().expect("a PTE is never a table"),
                range,
                live: 0,
                shared,
            };
            match entry::read(mm, frame, index, level) {
                Entry::Absent => continue,
                Entry::Table(child) => visit(mm, below(child, false), f),
                Entry::Shared(child) => visit(mm, below(child, true), f),
                Entry::Leaf { .. } => {}
            }
            table.live += 1;
        }
        f(table);
    }
    let root = Table {
        frame: table.root,
        level: Level::Pgd,
        range: VirtRange::new(VirtAddr(0), M::Pte::USER_END),
        live: 0,
        shared: false,
    };
    visit(mm, root, f);
}
