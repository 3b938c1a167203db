//! Copying entries to a child: table by table, folio by folio, no lookups per page.

use super::batch::{self, Run, run_at};
use super::walk::{Leaves, indices, leaf_tables};
use super::{Cursor, PageTable, contpte, entry};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::{Kind, Mm, OutOfMemory};
use crate::stat::Event;
use crate::tlb::Gather;

/// Shares the private pages of `range` with a child that nobody runs yet: both lose WRITE, each folio gains as many
/// references as pages are copied. Returns how many private and object pages the child has now. On failure the child has some
/// of them; the caller drops it. No PMD leaf crosses an end of the range: VMAs that are cut split theirs.
pub fn copy_range<M: Machine>(
    mm: &Mm<M>,
    parent: &PageTable,
    child: &mut PageTable,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
) -> Result<(u64, u64), OutOfMemory> {
    let mut counts = (0, 0);
    leaf_tables(mm, parent, range, &mut |leaves| {
        if leaves.level != Level::Pte {
            return copy_leaf(mm, leaves, child, gather, &mut counts);
        }
        if mm.frames().get(leaves.table).live() == 0 {
            return Ok(());
        }
        let mut to = Cursor::new(mm, child, leaves.part.start);
        to.prepare(Level::Pte)?;
        copy_pages(
            mm,
            leaves.table,
            to.table(),
            leaves.part,
            gather,
            &mut counts,
        );
        Ok(())
    })?;
    Ok(counts)
}

/// Adds pages of a sort to the counts of private and object pages.
fn add(counts: &mut (u64, u64), kind: Kind, pages: u64) {
    match kind {
        Kind::Anon => counts.0 += pages,
        Kind::Object => counts.1 += pages,
        _ => {}
    }
}

/// Shares a PMD leaf whole.
fn copy_leaf<M: Machine>(
    mm: &Mm<M>,
    leaves: Leaves,
    child: &mut PageTable,
    gather: &mut Gather<'_, M>,
    counts: &mut (u64, u64),
) -> Result<(), OutOfMemory> {
    let mut to = Cursor::new(mm, child, leaves.part.start);
    to.prepare(leaves.level)?;
    let Some((pfn, mut attrs, _)) = entry::read_leaf_at(mm, leaves.entry()) else {
        return Ok(());
    };
    if attrs.contains(Attrs::WRITE) {
        attrs = protect(mm, leaves.entry()).unwrap_or(attrs);
        gather.changed_leaf(leaves.part.start, leaves.level);
        mm.count(Event::EntryWrites, 1);
    }
    if pfn == mm.huge_zero_page() {
        mm.share_huge_zero_page();
    } else {
        mm.frames()
            .get(pfn)
            .add_refs(leaves.level.order().pages() as u32);
        mm.count(Event::AccountUpdates, 1);
        mm.thp().pmd_mapped();
        add(counts, Kind::Anon, leaves.level.order().pages());
    }
    to.write_huge(pfn, attrs - Attrs::WRITE);
    mm.count(Event::ForkEntries, 1);
    Ok(())
}

fn copy_pages<M: Machine>(
    mm: &Mm<M>,
    from: Pfn,
    to: Pfn,
    part: VirtRange,
    gather: &mut Gather<'_, M>,
    counts: &mut (u64, u64),
) {
    contpte::unfold_ends(mm, from, part, gather);
    let (meta, child) = (mm.frames().get(from), mm.frames().get(to));
    let (mut left, mut copied) = (meta.live(), 0);
    let span = indices(Level::Pte, part);
    let mut index = span.start;
    while index < span.end && left > 0 {
        let Some(run) = run_at(mm, from, index, span.end) else {
            index += 1;
            continue;
        };
        let va = part.start + (index - span.start) as u64 * PAGE_SIZE;
        let used = protect_run(mm, from, va, &run, gather);
        if run.pfn != mm.zero_page() {
            mm.frames().get(run.head).add_refs(run.n as u32);
            mm.count(Event::AccountUpdates, 1);
        }
        add(counts, run.kind, run.n as u64);
        let attrs = (run.attrs - (Attrs::WRITE | Attrs::CONTIG)) | used;
        batch::install(mm, to, va, run.n, run.pfn, attrs);
        copied += run.n as u32;
        left -= run.n as u32;
        index += run.n;
    }
    child.set_live(child.live() + copied);
    mm.count(Event::ForkEntries, u64::from(copied));
    mm.count(Event::EntryWrites, u64::from(copied));
}

/// Takes WRITE from the parent's entries, if they have it; returns how any of them was used.
fn protect_run<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    va: VirtAddr,
    run: &Run,
    gather: &mut Gather<'_, M>,
) -> Attrs {
    let entries = run.index..run.index + run.n;
    let mut used = run.attrs;
    if run.attrs.contains(Attrs::WRITE) {
        for index in entries {
            used |= protect(mm, (table, index, Level::Pte)).unwrap_or(used);
        }
        gather.changed_range(va, run.n as u64 * PAGE_SIZE, Level::Pte);
        mm.count(Event::EntryWrites, run.n as u64);
    } else if run.n > 1 {
        for index in entries {
            used |= entry::read_leaf(mm, table, index).map_or(used, |(_, attrs, _)| attrs);
        }
    }
    used & (Attrs::ACCESSED | Attrs::DIRTY)
}

/// Takes WRITE from an entry, keeping what the walker sets meanwhile; returns what it says now.
fn protect<M: Machine>(mm: &Mm<M>, at: entry::At) -> Option<Attrs> {
    loop {
        let (pfn, attrs, raw) = entry::read_leaf_at(mm, at)?;
        if entry::exchange(mm, at, raw, pfn, attrs - Attrs::WRITE) {
            return Some(attrs - Attrs::WRITE);
        }
    }
}
