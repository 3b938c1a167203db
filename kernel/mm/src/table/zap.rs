//! Zapping: everything in a range goes, and the tables that become empty with it.

use super::batch::run_at;
use super::walk::{self, indices, part};
use super::{Budget, PageTable, budget, contpte, entry, share, split_ends};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, PhysMem, PteFormat};
use crate::frame::zone::For;
use crate::frame::{Kind, Mm, OutOfMemory};
use crate::stat::Event;
use crate::tlb::{Gather, Removed};

/// What is zapped, and how many pages of each sort were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zap {
    /// Leave private pages alone (a hole punched in the object: what was copied is not the object's any more).
    pub keep_anon: bool,
    /// Leave empty tables: the range will be used again at once.
    pub keep_tables: bool,
    /// No CPU walks these tables any more: entries need not be made absent one by one.
    pub dead: bool,
    /// Private pages that went.
    pub anon: u64,
    /// Pages of objects that went.
    pub object: u64,
    /// What may be done before others are let in.
    pub budget: Budget,
}

impl Zap {
    /// Counts pages of a sort.
    #[inline]
    pub fn add(&mut self, kind: Kind, pages: u64) {
        match kind {
            Kind::Anon => self.anon += pages,
            Kind::Object => self.object += pages,
            _ => {}
        }
    }
}

/// Takes out every page in `range`; the gather flushes and frees. No PMD leaf and no shared table crosses an end of the range
/// ([`super::split_ends`]).
pub fn zap_range<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &mut Zap,
) {
    zap.budget = Budget::UNLIMITED;
    let stopped = zap_some(mm, space, range, gather, zap);
    debug_assert!(stopped.is_none(), "without a limit nothing is left");
}

/// [`zap_range`] within the budget; returns where the rest begins, if there is one.
#[must_use = "the rest is still mapped"]
pub fn zap_some<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &mut Zap,
) -> Option<VirtAddr> {
    if range.is_empty() {
        return None;
    }
    let root = space.root;
    zap_table(mm, space, (root, Level::Pgd), range, gather, zap)
}

/// [`super::split_ends`] and [`zap_some`] of a range whose tables stay. Out of memory: nothing was zapped.
#[inline]
pub fn zap_part<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &mut Zap,
) -> Result<Option<VirtAddr>, OutOfMemory> {
    debug_assert!(zap.keep_tables && !range.is_empty());
    let table = Level::Pmd.bytes();
    let near = (range.start.0 ^ (range.end.0 - 1)) < table;
    // Mostly it is a few pages of one table.
    if near && let Some(table) = walk::pte_table(mm, space, range.start) {
        zap_pages(mm, table, range, gather, zap);
        return Ok(None);
    }
    split_ends(mm, space, range, For::GivingBack, gather)?;
    Ok(zap_some(mm, space, range, gather, zap))
}

/// As [`zap_some`], from a table above the PTEs on.
fn zap_table<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    (table, level): (Pfn, Level),
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &mut Zap,
) -> Option<VirtAddr> {
    let lower = level.lower().expect("a PTE table is zapped whole");
    let (meta, span) = (mm.frames().get(table), indices(level, range));
    // Most of a sparse range is: that is seen before anything is reckoned.
    if entry::all_absent(mm, table, span.start, span.len()) {
        return None;
    }
    for index in span {
        if meta.live() == 0 {
            break;
        }
        if entry::is_absent(mm, table, index) {
            continue;
        }
        let part = part(level, index, range);
        let child = match entry::read(mm, table, index, level) {
            Entry::Absent => continue,
            Entry::Leaf { pfn, .. } => {
                if !zap.budget.take_leaf() {
                    return Some(part.start);
                }
                let kind = mm.frames().get(pfn).kind();
                debug_assert!(
                    part.len() == level.bytes(),
                    "a {level:?} leaf is cut by {range:?}"
                );
                if !(zap.keep_anon && kind == Kind::Anon) {
                    zap_leaf(mm, (table, index, level), part.start, gather);
                    zap.add(kind, part.pages());
                }
                continue;
            }
            // Here, and not at once: the rest of the row goes with it.
            Entry::Shared(_) => {
                if !zap.budget.take_leaf() {
                    return Some(part.start);
                }
                share::zap_row(mm, space, (table, index), range, gather, zap);
                continue;
            }
            Entry::Table(child) => child,
        };
        if lower > Level::Pte {
            let stopped = zap_table(mm, space, (child, lower), part, gather, zap);
            if stopped.is_some() {
                return stopped;
            }
        } else if zap.budget.is_spent() {
            return Some(part.start);
        } else {
            zap_whole_part(mm, child, part, gather, zap);
        }
        // Afterwards: a step that begins must come as far as a leaf.
        zap.budget.take(budget::TABLE);
        if mm.frames().get(child).live() == 0 && !zap.keep_tables {
            unhook(
                mm,
                space,
                (table, index),
                gather,
                (part.start, lower, child),
            );
        }
    }
    None
}

/// Takes an empty table out of the one above it.
pub(super) fn unhook<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    (table, index): (Pfn, usize),
    gather: &mut Gather<'_, M>,
    (va, lower, child): (VirtAddr, Level, Pfn),
) {
    entry::clear(mm, table, index);
    let meta = mm.frames().get(table);
    meta.set_live(meta.live() - 1);
    space.pages -= 1;
    mm.count(Event::EntryWrites, 1);
    gather.table(va, lower, child);
}

/// Takes a leaf out of a table above the PTEs.
pub(super) fn zap_leaf<M: Machine>(
    mm: &Mm<M>,
    (table, index, level): (Pfn, usize, Level),
    va: VirtAddr,
    gather: &mut Gather<'_, M>,
) {
    let Some((folio, _)) = entry::take_leaf_at(mm, (table, index, level)) else {
        unreachable!("a leaf goes only under the lock of its space");
    };
    let meta = mm.frames().get(table);
    meta.set_live(meta.live() - 1);
    mm.count(Event::EntryWrites, 1);
    if mm.frames().get(folio).kind() == Kind::Anon {
        mm.thp().pmd_unmapped();
    }
    let pages = level.order().pages() as u32;
    gather.removed(
        va,
        Removed {
            folio,
            first: folio,
            pages,
            level,
        },
    );
}

/// [`zap_pages`], out of line: inside the walk it would cost every table registers.
#[inline(never)]
pub(super) fn zap_whole_part<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &mut Zap,
) {
    zap_pages(mm, table, range, gather, zap);
}

#[inline(always)]
fn zap_pages<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &mut Zap,
) {
    let meta = mm.frames().get(table);
    let before = meta.live();
    if before == 0 {
        return;
    }
    if !zap.dead {
        contpte::unfold_ends(mm, table, range, gather);
    }
    let batch = mm.switches().zap_batch();
    let (mut live, span) = (before, indices(Level::Pte, range));
    let runs_before = gather.taken_over();
    let mut index = span.start;
    while index < span.end && live > 0 {
        let raw = mm.machine().mem().load(table, index);
        if raw == 0 {
            index += 1;
            continue;
        }
        // Single pages have a way of their own: there is nothing to find out about neighbours.
        let page = M::Pte::frame(raw);
        if !zap.keep_anon && mm.frames().single(page).is_some() {
            let va = range.start + (index - span.start) as u64 * PAGE_SIZE;
            if !zap.dead {
                entry::clear(mm, table, index);
            }
            zap.anon += 1;
            live -= 1;
            index += 1;
            gather.removed_page(va, page);
            continue;
        }
        let end = if batch { span.end } else { index + 1 };
        let Some(run) = run_at(mm, table, index, end) else {
            index += 1;
            continue;
        };
        let va = range.start + (index - span.start) as u64 * PAGE_SIZE;
        index += run.n;
        if run.kind == Kind::Anon && zap.keep_anon {
            continue;
        }
        zap.add(run.kind, run.n as u64);
        if mm.frames().get(run.head).copied_around() {
            mm.count(Event::CowWasted, clean(mm, table, run.index, run.n));
        }
        if !zap.dead {
            // Only the walker's bits can have changed since: the space is locked. Zapped memory's bits interest nobody.
            entry::clear_run(mm, table, run.index, run.n);
        }
        live -= run.n as u32;
        gather.removed(
            va,
            Removed {
                folio: run.head,
                first: run.pfn,
                pages: run.n as u32,
                level: Level::Pte,
            },
        );
    }
    meta.set_live(live);
    let runs = gather.taken_over() - runs_before;
    zap.budget.take(budget::of_runs(runs, before - live));
    if !zap.dead {
        mm.count(Event::EntryWrites, u64::from(before - live));
    }
}

/// How many of `n` entries in a row were not written.
#[cold]
fn clean<M: Machine>(mm: &Mm<M>, table: Pfn, first: usize, n: usize) -> u64 {
    let written = |index| {
        entry::read_leaf(mm, table, index).is_some_and(|(_, a, _)| a.contains(Attrs::DIRTY))
    };
    (first..first + n).filter(|index| !written(*index)).count() as u64
}
