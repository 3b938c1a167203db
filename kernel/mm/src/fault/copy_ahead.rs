//! Copies ahead of use: populate breaks copy-on-write of single pages in runs, so that one flush
//! serves for several, where each fault needs its own.

use super::Access;
use super::copying::{Copies, RUN_PAGES, pages_of};
use super::request::{Fault, Request};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::folio::Folio;
use crate::space::{Inner, Locked, Reading, Rss};
use crate::stat::Event;
use crate::table::Cursor;
use crate::thp::{PMD_ORDER, policy::block};
use crate::vma::Vma;

impl<M: Machine> Reading<'_, M> {
    /// Copies the private pages at `at`, before `end`, that are mapped read-only and may be
    /// written; returns how many. 0: the first one takes an ordinary fault.
    pub(super) fn copy_ahead(&self, vma: &Vma<M>, at: VirtAddr, end: VirtAddr) -> u64 {
        let (space, write) = (self.space, Request::new(at, Access::Write));
        let mut tables = self.table.as_reader();
        let mut cursor = Cursor::new(&space.mm, &mut tables, at);
        let _table = cursor.lock_table(Level::Pte);
        let mut rss = Rss::default();
        let pages = Fault::new(space, write, PMD_ORDER, vma, &mut rss).ahead(&mut cursor, end);
        self.add_anon(rss.anon);
        pages
    }
}

impl<M: Machine> Locked<'_, M> {
    /// [`Reading::copy_ahead`], as the writer.
    pub(super) fn copy_ahead(&mut self, at: VirtAddr, end: VirtAddr) -> u64 {
        let (space, write) = (self.space, Request::new(at, Access::Write));
        let Inner {
            vmas, table, rss, ..
        } = &mut **self;
        let Some(vma) = vmas.at(at) else {
            return 0;
        };
        let mut cursor = Cursor::new(&space.mm, table, at);
        Fault::new(space, write, PMD_ORDER, vma, rss).ahead(&mut cursor, end)
    }
}

impl<M: Machine> Fault<'_, M> {
    /// [`Reading::copy_ahead`]; the table of the cursor is locked, if it is one of PTEs. In VMAs
    /// where no more than entries change, whose history has begun.
    fn ahead(mut self, cursor: &mut Cursor<'_, M>, end: VirtAddr) -> u64 {
        if !self.vma.changes_only_entries() || !self.vma.has_anon || !cursor.is_at_pte() {
            return 0;
        }
        let range = VirtRange::new(self.va, end.min(block(self.va, PMD_ORDER).end));
        let mut copies = Copies::new();
        for va in pages_of(range).take(RUN_PAGES) {
            cursor.move_in_table(va);
            let Some(copy) = self.single_copy(cursor) else {
                break;
            };
            copies.push(copy);
        }
        let (copied, attrs) = (copies.len() as u64, self.attrs());
        self.replace(cursor, range, copies, |_| attrs);
        self.mm.count(Event::CowCopied, copied);
        copied
    }

    /// A copy of the page at the cursor, if that is single, read-only and not this space's alone,
    /// and there is memory. One of the zero page is a private page more.
    fn single_copy(&mut self, cursor: &Cursor<'_, M>) -> Option<Folio> {
        let (mm, leaf) = (self.mm, cursor.leaf()?);
        let stays = Attrs::WRITE | Attrs::MARKER | Attrs::NO_ACCESS | Attrs::UFFD_WP;
        if leaf.attrs.intersects(stays) {
            return None;
        }
        if leaf.pfn == mm.zero_page() {
            let copy = Folio::anon(mm).ok()?;
            self.rss.add_anon(1);
            return Some(copy);
        }
        mm.frames().single(leaf.pfn)?;
        let owner = &self.id.owner;
        let folio = mm.frames().folio(leaf.pfn);
        let alone = mm.owns_block(owner, &leaf, &folio) || mm.pinned_by(leaf.pfn, owner);
        (!alone)
            .then(|| Folio::copy_of(mm, leaf.pfn).ok())
            .flatten()
    }
}
