//! Copying entries to a child: table by table, no lookups per page.

use super::walk::{indices, leaf_tables};
use super::{Cursor, PageTable, entry};
use crate::addr::{PAGE_SIZE, Pfn, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::{Kind, Mm, OutOfMemory};
use crate::stat::Event;
use crate::tlb::Gather;

/// Shares the private pages of `range` with a child that nobody runs yet: both lose WRITE, each page gains a reference.
/// Returns how many private and object pages the child has now. On failure the child has some of them; the caller drops it.
pub fn copy_range<M: Machine>(
    mm: &Mm<M>,
    parent: &PageTable,
    child: &mut PageTable,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
) -> Result<(u64, u64), OutOfMemory> {
    let (mut anon, mut object) = (0, 0);
    leaf_tables(mm, parent, range, &mut |table, part| {
        if mm.frames().get(table).live() == 0 {
            return Ok(());
        }
        let mut to = Cursor::new(mm, child, part.start);
        to.prepare()?;
        copy_pages(
            mm,
            table,
            to.table(),
            part,
            gather,
            (&mut anon, &mut object),
        );
        Ok(())
    })?;
    Ok((anon, object))
}

fn copy_pages<M: Machine>(
    mm: &Mm<M>,
    from: Pfn,
    to: Pfn,
    part: VirtRange,
    gather: &mut Gather<'_, M>,
    (anon, object): (&mut u64, &mut u64),
) {
    let (meta, child) = (mm.frames().get(from), mm.frames().get(to));
    let (mut left, mut copied, mut protected) = (meta.live(), 0, 0);
    for (i, index) in indices(Level::Pte, part).enumerate() {
        if left == 0 {
            break;
        }
        let Some((pfn, attrs, raw)) = entry::read_leaf(mm, from, index) else {
            continue;
        };
        left -= 1;
        let mut attrs = attrs;
        if attrs.contains(Attrs::WRITE) {
            attrs = protect(mm, from, index, (pfn, attrs, raw));
            gather.changed(part.start + i as u64 * PAGE_SIZE);
            protected += 1;
        }
        let page = mm.frames().get(pfn);
        match page.kind() {
            Kind::Anon => *anon += 1,
            Kind::Object => *object += 1,
            _ => {}
        }
        if pfn != mm.zero_page() {
            page.get_ref();
        }
        entry::write_leaf(mm, to, index, Level::Pte, pfn, attrs);
        copied += 1;
    }
    child.set_live(child.live() + copied);
    mm.count(Event::ForkEntries, u64::from(copied));
    mm.count(Event::EntryWrites, u64::from(copied) + protected);
}

/// Takes WRITE from the parent's entry, keeping what the walker sets meanwhile; returns what it says now.
fn protect<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    index: usize,
    (pfn, mut attrs, mut raw): (Pfn, Attrs, u64),
) -> Attrs {
    while !entry::exchange(mm, table, index, raw, pfn, attrs - Attrs::WRITE) {
        if let Some((_, now, now_raw)) = entry::read_leaf(mm, table, index) {
            (attrs, raw) = (now, now_raw);
        }
    }
    attrs - Attrs::WRITE
}
