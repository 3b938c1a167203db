#[cfg(feature = "lab-mremap")]
mod lab;

use super::edit::Edit;
use super::{Cursor, Zap};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Level, Machine, PteFormat};
use crate::frame::zone::Reserve;
use crate::manager::OutOfMemory;
use crate::stat::Event;

impl<M: Machine> Edit<'_, '_, M> {
    /// Moves everything mapped in `from`, which is not empty, to `to ..`, which is unmapped. All
    /// tables are allocated first, so a failure changes nothing. Empty source tables are freed.
    /// `all_whole`: it is of huge pages, which are not for the lab.
    pub fn move_range(
        &mut self,
        from: VirtRange,
        to: VirtAddr,
        all_whole: bool,
    ) -> Result<(), OutOfMemory> {
        #[cfg(feature = "lab-mremap")]
        if !all_whole && self.mm().switches().lab(lab::LAB) {
            return lab::move_range(self, from, to);
        }
        let _ = all_whole;
        let target = |va: VirtAddr| to + (va - from.start);
        for part in parts(from) {
            if let Err(OutOfMemory) = self.prepare(part, target(part.start)) {
                self.free_tables(VirtRange::new(to, target(from.end)));
                return Err(OutOfMemory);
            }
        }
        for part in parts(from) {
            self.move_pages(part, target(part.start));
        }
        self.free_tables(from);
        Ok(())
    }

    /// Makes the tables for a part of a table, if there is one.
    fn prepare(&mut self, part: VirtRange, to: VirtAddr) -> Result<(), OutOfMemory> {
        let Some(pmd) = self.root().table_at(part.start, Level::Pmd) else {
            return Ok(());
        };
        self.open(pmd, part.start, Reserve::User)?;
        if pmd.below(part.start).is_some() {
            for to in [to, to + (part.len() - PAGE_SIZE)] {
                Cursor::new(pmd.mm, self.space, to).prepare(Level::Pte)?;
            }
        } else if !pmd.is_absent(pmd.index(part.start)) {
            Cursor::new(pmd.mm, self.space, to).prepare(Level::Pmd)?;
        }
        Ok(())
    }

    /// Moves the pages of a part of a table, one by one: no table moves.
    fn move_pages(&mut self, part: VirtRange, to: VirtAddr) {
        let Some(table) = self.root().table_at(part.start, Level::Pte) else {
            return self.move_huge_page(part, to);
        };
        self.entries(table.ptes()).unfold_ends(part);
        let all = table.indices(part);
        let hidden = table.freeze_run(all.start, all.len());
        table.mm.count(Event::EntryWrites, u64::from(hidden));
        self.gather.moved(part, Level::Pte);
        self.gather.flush();
        if M::Pte::CONTIG_ORDER.is_some() {
            table.ptes().refold(part, to, true);
        }
        for index in all {
            let to = to + (table.part(index, part).start - part.start);
            if let Some(target) = self.root().table_at(to, Level::Pte) {
                debug_assert!(table.is_absent(index) || table.is_frozen(index));
                table.move_run(index, 1, true, target, target.index(to));
            }
        }
        for at in [to, to + (part.len() - PAGE_SIZE)] {
            if let Some(target) = self.root().table_at(at, Level::Pte) {
                let page = VirtRange::new(at, at + PAGE_SIZE);
                self.entries(target.ptes()).fold_ends(page);
            }
        }
    }

    /// Moves a huge page, if there is one.
    fn move_huge_page(&mut self, page: VirtRange, to: VirtAddr) {
        let pmd = |edit: &Self, at| edit.root().table_at(at, Level::Pmd);
        let Some(table) = pmd(self, page.start).filter(|pmd| !pmd.is_absent(pmd.index(page.start))) else {
            return;
        };
        let index = table.index(page.start);
        let hidden = table.freeze_run(index, 1);
        table.mm.count(Event::EntryWrites, u64::from(hidden));
        self.gather.moved(page, Level::Pmd);
        self.gather.flush();
        if let Some(target) = pmd(self, to) {
            table.move_run(index, 1, true, target, target.index(to));
        }
    }

    /// Frees the tables of a range that maps nothing.
    pub(crate) fn free_tables(&mut self, range: VirtRange) {
        let stopped = self.zap_some(range, &mut Zap::default());
        debug_assert!(stopped.is_none(), "without a limit nothing is left");
    }
}

/// The parts of a range that lie in one PTE table each.
fn parts(range: VirtRange) -> impl Iterator<Item = VirtRange> {
    let first = range.start.align_down(Level::Pmd.bytes()).0;
    let starts = (first..range.end.0).step_by(Level::Pmd.bytes() as usize);
    starts.map(move |at| VirtRange {
        start: VirtAddr(at).max(range.start),
        end: VirtAddr(at + Level::Pmd.bytes()).min(range.end),
    })
}
