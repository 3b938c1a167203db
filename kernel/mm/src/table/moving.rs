//! Moving entries to another address (mremap): the pages stay where they are.

use super::walk::leaf_tables;
use super::{Cursor, PageTable, Zap, entry, zap_range};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Level, Machine};
use crate::frame::{Mm, OutOfMemory};
use crate::stat::Event;
use crate::tlb::Gather;

/// Moves every page of `from` to `to ..`, where nothing is mapped. All tables that are needed are made first, so it either
/// fails with nothing changed or does everything. Tables of `from` that became empty go too.
pub fn move_range<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    from: VirtRange,
    to: VirtAddr,
    gather: &mut Gather<'_, M>,
) -> Result<(), OutOfMemory> {
    let target = |va: VirtAddr| to + (va - from.start);
    let mut at = from;
    while let Some(va) = first_leaf(mm, space, at) {
        if Cursor::new(mm, space, target(va)).prepare().is_err() {
            // Nothing is mapped there, so this only takes back the tables.
            zap_range(
                mm,
                space,
                VirtRange {
                    start: to,
                    end: target(from.end),
                },
                gather,
                &mut Zap::default(),
            );
            return Err(OutOfMemory);
        }
        at.start = va + run(va, target(va), from.end);
    }
    let mut at = from;
    while let Some(va) = first_leaf(mm, space, at) {
        let len = run(va, target(va), from.end);
        move_run(mm, space, va, target(va), len, gather);
        at.start = va + len;
    }
    zap_range(mm, space, from, gather, &mut Zap::default());
    Ok(())
}

/// Bytes from `va` on that one source and one target table translate.
fn run(va: VirtAddr, target: VirtAddr, end: VirtAddr) -> u64 {
    let table = Level::Pmd.bytes();
    let left = |va: VirtAddr| table - (va.0 & (table - 1));
    left(va).min(left(target)).min(end - va)
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
    let mut moved = 0;
    for offset in (0..len).step_by(PAGE_SIZE as usize) {
        let index = Level::Pte.index(va + offset);
        if entry::read_leaf(mm, source, index).is_none() {
            continue;
        }
        if let Some((pfn, attrs)) = entry::take_leaf(mm, source, index) {
            gather.changed(va + offset);
            entry::write_leaf(
                mm,
                target,
                Level::Pte.index(to + offset),
                Level::Pte,
                pfn,
                attrs,
            );
            moved += 1;
        }
    }
    let (from, into) = (mm.frames().get(source), mm.frames().get(target));
    from.set_live(from.live() - moved);
    into.set_live(into.live() + moved);
    mm.count(Event::Moved, u64::from(moved));
    mm.count(Event::EntryWrites, 2 * u64::from(moved));
}

/// The first page that is mapped in `range`.
fn first_leaf<M: Machine>(mm: &Mm<M>, space: &PageTable, range: VirtRange) -> Option<VirtAddr> {
    leaf_tables(mm, space, range, &mut |table, part| {
        let first = Level::Pte.index(part.start);
        let pages = part.pages() as usize;
        match (0..pages).find(|i| entry::read_leaf(mm, table, first + i).is_some()) {
            Some(i) => Err(part.start + i as u64 * PAGE_SIZE),
            None => Ok(()),
        }
    })
    .err()
}
