//! Moving entries to another address (mremap): the pages stay where they are.

use super::batch::run_at;
use super::walk::{self, leaf_tables};
use super::{Cursor, PageTable, Zap, contpte, entry, split_leaf, zap_range};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::{Kind, Mm, OutOfMemory};
use crate::stat::Event;
use crate::tlb::Gather;

/// Moves every page of `from` to `to ..`, where nothing is mapped. All tables that are needed are made first, so it either
/// fails with nothing changed or does everything. Tables of `from` that became empty go too. No PMD leaf crosses an end of
/// the range; one whose new place is not aligned alike is split.
pub fn move_range<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    from: VirtRange,
    to: VirtAddr,
    gather: &mut Gather<'_, M>,
) -> Result<(), OutOfMemory> {
    let target = |va: VirtAddr| to + (va - from.start);
    let mut at = from;
    while let Some((va, level)) = first_leaf(mm, space, at) {
        let huge = level == Level::Pmd && target(va).is_aligned(Level::Pmd.bytes());
        if prepare(mm, space, va, target(va), huge, gather).is_err() {
            // Nothing is mapped there, so this only takes back the tables.
            let made = VirtRange {
                start: to,
                end: target(from.end),
            };
            zap_range(mm, space, made, gather, &mut Zap::default());
            return Err(OutOfMemory);
        }
        at.start = va + run(va, target(va), from.end);
    }
    let mut at = from;
    while let Some((va, level)) = first_leaf(mm, space, at) {
        let len = run(va, target(va), from.end);
        if level == Level::Pmd {
            move_leaf(mm, space, va, target(va), gather);
        } else {
            move_run(mm, space, va, target(va), len, gather);
        }
        at.start = va + len;
    }
    zap_range(mm, space, from, gather, &mut Zap::default());
    Ok(())
}

/// Makes the tables at `to` for what stands at `va`: a PMD leaf that stays one, or PTEs.
fn prepare<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    va: VirtAddr,
    to: VirtAddr,
    huge: bool,
    gather: &mut Gather<'_, M>,
) -> Result<(), OutOfMemory> {
    if huge {
        let mut cursor = Cursor::new(mm, space, to);
        cursor.prepare(Level::Pmd)?;
        cursor.remove_empty_table(gather);
        return Ok(());
    }
    split_leaf(mm, space, va, gather)?;
    Cursor::new(mm, space, to).prepare(Level::Pte)
}

/// Bytes from `va` on that one source and one target table translate.
fn run(va: VirtAddr, target: VirtAddr, end: VirtAddr) -> u64 {
    let table = Level::Pmd.bytes();
    let left = |va: VirtAddr| table - (va.0 & (table - 1));
    left(va).min(left(target)).min(end - va)
}

fn move_leaf<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    va: VirtAddr,
    to: VirtAddr,
    gather: &mut Gather<'_, M>,
) {
    let Some((pfn, attrs)) = Cursor::new(mm, space, va).lift_huge() else {
        return;
    };
    gather.changed_leaf(va, Level::Pmd);
    if mm.frames().get(pfn).kind() == Kind::Anon {
        mm.frames().get(pfn).set_index(to.page());
    }
    Cursor::new(mm, space, to).write_huge(pfn, attrs);
    mm.count(Event::Moved, 1);
}

fn move_run<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    va: VirtAddr,
    to: VirtAddr,
    len: u64,
    gather: &mut Gather<'_, M>,
) {
    let source = Cursor::new(mm, space, va).table();
    let target = Cursor::new(mm, space, to).table();
    contpte::unfold_range(
        mm,
        source,
        VirtRange {
            start: va,
            end: va + len,
        },
        gather,
    );
    let (first, pages) = (Level::Pte.index(va), (len / PAGE_SIZE) as usize);
    let (mut i, mut moved) = (0, 0);
    while i < pages {
        let Some(run) = run_at(mm, source, first + i, first + pages) else {
            i += 1;
            continue;
        };
        let (here, there) = (va + i as u64 * PAGE_SIZE, to + i as u64 * PAGE_SIZE);
        for k in 0..run.n {
            if let Some((pfn, attrs)) = entry::take_leaf(mm, source, run.index + k) {
                let index = Level::Pte.index(there) + k;
                entry::write_leaf(mm, target, index, Level::Pte, pfn, attrs - Attrs::CONTIG);
            }
        }
        gather.changed_range(here, run.n as u64 * PAGE_SIZE, Level::Pte);
        if run.kind == Kind::Anon {
            let start = there.0.wrapping_sub((run.pfn - run.head) * PAGE_SIZE);
            mm.frames().get(run.head).set_index(VirtAddr(start).page());
        }
        moved += run.n as u32;
        i += run.n;
    }
    let (from, into) = (mm.frames().get(source), mm.frames().get(target));
    from.set_live(from.live() - moved);
    into.set_live(into.live() + moved);
    mm.count(Event::Moved, u64::from(moved));
    mm.count(Event::EntryWrites, 2 * u64::from(moved));
    contpte::fold_range(
        mm,
        target,
        VirtRange {
            start: to,
            end: to + len,
        },
        gather,
    );
}

/// The first leaf that is mapped in `range`: its address and its level.
fn first_leaf<M: Machine>(
    mm: &Mm<M>,
    space: &PageTable,
    range: VirtRange,
) -> Option<(VirtAddr, Level)> {
    leaf_tables(mm, space, range, &mut |leaves| {
        let mut va = leaves.part.start;
        while va < leaves.part.end {
            if walk::leaf_at(mm, leaves.table, leaves.level, va, 1).is_some() {
                return Err((va, leaves.level));
            }
            va += PAGE_SIZE;
        }
        Ok(())
    })
    .err()
}
