//! Copies ahead of use: populate breaks copy-on-write of single pages in runs, so that one flush
//! serves for several, where each fault needs its own.

use super::Access;
use super::copying::break_first;
use super::request::attrs;
use crate::addr::{PAGE_SIZE, VirtAddr};
use crate::arch::{Attrs, Level, Machine};
use crate::folio::Folio;
use crate::manager::{Mm, SpaceId};
use crate::space::{Inner, Locked, Reading, Rss};
use crate::stat::Event;
use crate::table::Cursor;
use crate::thp::{PMD_ORDER, policy::block};
use crate::tlb::Gather;
use crate::vma::Vma;
use arrayvec::ArrayVec;

/// Pages of a run, at most.
const RUN: usize = 16;

impl<M: Machine> Reading<'_, M> {
    /// Copies the private pages at `at`, before `end`, that are mapped read-only and may be
    /// written; returns how many. 0: the first one takes an ordinary fault.
    pub(super) fn copy_ahead(&self, vma: &Vma<M>, at: VirtAddr, end: VirtAddr) -> u64 {
        if !may_run(vma) {
            return 0;
        }
        let mut tables = self.table.as_reader();
        let mut cursor = Cursor::new(&self.space.mm, &mut tables, at);
        let Some(_table) = cursor.lock_table(Level::Pte) else {
            return 0;
        };
        let mut rss = Rss::default();
        let pages = copy_ahead(&self.space.id, vma, &mut cursor, end, &mut rss);
        self.add_anon(rss.anon);
        pages
    }
}

impl<M: Machine> Locked<'_, M> {
    /// [`Reading::copy_ahead`], as the writer.
    pub(super) fn copy_ahead(&mut self, at: VirtAddr, end: VirtAddr) -> u64 {
        let space = self.space;
        let Inner {
            vmas, table, rss, ..
        } = &mut **self;
        let Some(vma) = vmas
            .find(at)
            .map(|slot| vmas.get(slot))
            .filter(|vma| may_run(vma))
        else {
            return 0;
        };
        let mut cursor = Cursor::new(&space.mm, table, at);
        copy_ahead(&space.id, vma, &mut cursor, end, rss)
    }
}

/// Whether no more than entries change in the VMA, whose history has begun.
fn may_run<M: Machine>(vma: &Vma<M>) -> bool {
    vma.changes_only_entries() && vma.has_anon
}

/// The table of the cursor is locked.
fn copy_ahead<M: Machine>(
    id: &SpaceId,
    vma: &Vma<M>,
    cursor: &mut Cursor<'_, M>,
    end: VirtAddr,
    rss: &mut Rss,
) -> u64 {
    if !cursor.is_at_pte() {
        return 0;
    }
    let (mm, first) = (cursor.mm(), cursor.va());
    let end = end.min(block(first, PMD_ORDER).end);
    let pages = (first.0..end.0).step_by(PAGE_SIZE as usize).map(VirtAddr);
    let mut copies = ArrayVec::<Folio, RUN>::new();
    for va in pages.clone().take(RUN) {
        cursor.move_in_table(va);
        let Some(copy) = copy(mm, id, cursor) else {
            break;
        };
        copies.push(copy);
    }
    let mut gather = Gather::new(mm, id);
    for va in pages.clone().take(copies.len()) {
        cursor.move_in_table(va);
        if cursor.leaf().is_some_and(|leaf| leaf.pfn == mm.zero_page()) {
            rss.add_anon(1);
        }
        cursor.edit(&mut gather).take();
    }
    break_first(&mut gather);
    let copied = copies.len() as u64;
    for (va, folio) in pages.zip(copies) {
        cursor.move_in_table(va);
        cursor.install_anon(folio, attrs(vma, Access::Write), &id.owner);
    }
    gather.finish();
    mm.count(Event::CowCopied, copied);
    copied
}

/// A copy of the page at the cursor, if that is single, read-only and not this space's alone, and
/// there is memory.
fn copy<M: Machine>(mm: &Mm<M>, id: &SpaceId, cursor: &Cursor<'_, M>) -> Option<Folio> {
    let leaf = cursor.leaf()?;
    let stays = Attrs::WRITE | Attrs::MARKER | Attrs::NO_ACCESS | Attrs::UFFD_WP;
    if leaf.attrs.intersects(stays) {
        return None;
    }
    if leaf.pfn == mm.zero_page() {
        return Folio::anon(mm).ok();
    }
    mm.frames().single(leaf.pfn)?;
    let folio = mm.frames().folio(leaf.pfn);
    let alone = mm.owns_block(&id.owner, &leaf, &folio) || mm.pinned_by(leaf.pfn, &id.owner);
    (!alone)
        .then(|| Folio::copy_of(mm, leaf.pfn).ok())
        .flatten()
}
