//! Walking: one address, or every PTE table of a range. Nothing here changes a translation.

use super::{PageTable, entry, user_root_end};
use crate::addr::{Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, TABLE_ENTRIES};
use crate::frame::Mm;
use core::ops::Range;

/// The entry that translates `va`, or the absent one where the walk ends, with its level.
pub fn lookup<M: Machine>(mm: &Mm<M>, table: &PageTable, va: VirtAddr) -> (Entry, Level) {
    let (mut at, mut level) = (table.root, Level::Pgd);
    loop {
        match (entry::read(mm, at, level.index(va), level), level.lower()) {
            (Entry::Table(next), Some(lower)) => (at, level) = (next, lower),
            (entry, _) => return (entry, level),
        }
    }
}

/// The indices of a table of `level` that `range` touches, when the table starts at or before `range.start`.
pub(super) fn indices(level: Level, range: VirtRange) -> Range<usize> {
    level.index(range.start)..level.index(VirtAddr(range.end.0 - 1)) + 1
}

/// The part of `range` that entry `index` of the table of `level` that holds `range` covers.
pub(super) fn part(level: Level, index: usize, range: VirtRange) -> VirtRange {
    let base = range.start.align_down(level.bytes() << 9).0 + ((index as u64) << level.shift());
    VirtRange {
        start: VirtAddr(range.start.0.max(base)),
        end: VirtAddr(range.end.0.min(base + level.bytes())),
    }
}

/// Calls `f(table, part)` for each PTE table that exists in `range`, with the part of the range that it covers.
/// `f` returns `Err` to stop.
pub(super) fn leaf_tables<M: Machine, E>(
    mm: &Mm<M>,
    table: &PageTable,
    range: VirtRange,
    f: &mut impl FnMut(Pfn, VirtRange) -> Result<(), E>,
) -> Result<(), E> {
    if range.is_empty() {
        return Ok(());
    }
    debug_assert!(
        Level::Pgd.index(VirtAddr(range.end.0 - 1)) < user_root_end::<M>(),
        "{range:?} is not in the user half"
    );
    descend(mm, table.root, Level::Pgd, range, f)
}

fn descend<M: Machine, E>(
    mm: &Mm<M>,
    table: Pfn,
    level: Level,
    range: VirtRange,
    f: &mut impl FnMut(Pfn, VirtRange) -> Result<(), E>,
) -> Result<(), E> {
    let Some(lower) = level.lower() else {
        return f(table, range);
    };
    for index in indices(level, range) {
        if let Entry::Table(child) = entry::read(mm, table, index, level) {
            descend(mm, child, lower, part(level, index, range), f)?;
        }
    }
    Ok(())
}

/// Calls `f(va, pfn, attrs)` for each page that is mapped in `range`.
pub fn for_each_leaf<M: Machine>(
    mm: &Mm<M>,
    table: &PageTable,
    range: VirtRange,
    f: &mut impl FnMut(VirtAddr, Pfn, Attrs),
) {
    let Ok(()) = leaf_tables(mm, table, range, &mut |table, part| {
        for (i, index) in indices(Level::Pte, part).enumerate() {
            if let Some((pfn, attrs, _)) = entry::read_leaf(mm, table, index) {
                f(part.start + i as u64 * crate::addr::PAGE_SIZE, pfn, attrs);
            }
        }
        Ok::<_, core::convert::Infallible>(())
    });
}

/// Clears the accessed bit in `range` (MADV_COLD). Without a flush: a TLB that still has the entry only delays the next
/// setting, and the bit is advice.
pub fn clear_accessed<M: Machine>(mm: &Mm<M>, table: &mut PageTable, range: VirtRange) {
    let Ok(()) = leaf_tables(mm, table, range, &mut |table, part| {
        for index in indices(Level::Pte, part) {
            entry::modify(mm, table, index, |_, attrs| attrs - Attrs::ACCESSED);
        }
        Ok::<_, core::convert::Infallible>(())
    });
}

/// Every table under `table` with its level, the root included, in walking order, for [`crate::check`].
pub(crate) fn for_each_table<M: Machine>(
    mm: &Mm<M>,
    table: &PageTable,
    f: &mut impl FnMut(Pfn, Level, u32),
) {
    fn visit<M: Machine>(
        mm: &Mm<M>,
        table: Pfn,
        level: Level,
        end: usize,
        f: &mut impl FnMut(Pfn, Level, u32),
    ) {
        let mut live = 0;
        for index in 0..end {
            match entry::read(mm, table, index, level) {
                Entry::Absent => continue,
                Entry::Table(child) => visit(
                    mm,
                    child,
                    level.lower().expect("a PTE is never a table"),
                    TABLE_ENTRIES,
                    f,
                ),
                Entry::Leaf { .. } => {}
            }
            live += 1;
        }
        f(table, level, live);
    }
    visit(mm, table.root, Level::Pgd, user_root_end::<M>(), f);
}
