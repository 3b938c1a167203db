//! Zapping: everything in a range goes, and the tables that become empty with it.

use super::walk::{indices, part};
use super::{PageTable, entry};
use crate::addr::{PAGE_SIZE, Pfn, VirtRange};
use crate::arch::{Entry, Level, Machine};
use crate::frame::{Kind, Mm};
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
}

/// Takes out every page in `range`; the gather flushes and frees.
pub fn zap_range<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &mut Zap,
) {
    if !range.is_empty() {
        let root = space.root;
        zap_table(mm, space, (root, Level::Pgd), range, gather, zap);
    }
}

fn zap_table<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    (table, level): (Pfn, Level),
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &mut Zap,
) {
    let Some(lower) = level.lower() else {
        return zap_pages(mm, table, range, gather, zap);
    };
    let meta = mm.frames().get(table);
    for index in indices(level, range) {
        if meta.live() == 0 {
            break;
        }
        let Entry::Table(child) = entry::read(mm, table, index, level) else {
            continue;
        };
        let part = part(level, index, range);
        zap_table(mm, space, (child, lower), part, gather, zap);
        if mm.frames().get(child).live() == 0 && !zap.keep_tables {
            entry::clear(mm, table, index);
            meta.set_live(meta.live() - 1);
            space.pages -= 1;
            mm.count(Event::EntryWrites, 1);
            gather.table(part.start, lower, child);
        }
    }
}

fn zap_pages<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    range: VirtRange,
    gather: &mut Gather<'_, M>,
    zap: &mut Zap,
) {
    let meta = mm.frames().get(table);
    let before = meta.live();
    let mut live = before;
    for (i, index) in indices(Level::Pte, range).enumerate() {
        if live == 0 {
            break;
        }
        let Some((pfn, attrs, _)) = entry::read_leaf(mm, table, index) else {
            continue;
        };
        let kind = mm.frames().get(pfn).kind();
        match kind {
            Kind::Anon if zap.keep_anon => continue,
            Kind::Anon => zap.anon += 1,
            Kind::Object => zap.object += 1,
            _ => {}
        }
        if !zap.dead {
            // Only the walker's bits can have changed since: the space is locked. Zapped memory's bits interest nobody.
            let _ = entry::take_leaf(mm, table, index);
        }
        live -= 1;
        gather.removed(range.start + i as u64 * PAGE_SIZE, Removed { pfn, attrs });
    }
    meta.set_live(live);
    if !zap.dead {
        mm.count(Event::EntryWrites, u64::from(before - live));
    }
}
