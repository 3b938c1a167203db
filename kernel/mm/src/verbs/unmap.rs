//! munmap(2), and unmapping of an object's pages.

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Level, Machine, PteFormat};
use crate::frame::zone::Reserve;
use crate::manager::{OutOfMemory, Result};
use crate::mutant::{self, Mutant};
use crate::space::{AddressSpace, Areas, Error, Inner, Locked, Pages, user_pages};
use crate::table::{Budget, Detached, Zap};
use crate::tlb::Gather;
use crate::vma::{Taken, Vma};

impl<M: Machine> AddressSpace<M> {
    /// munmap(2); the range need not be mapped. EINVAL: misaligned, empty or not in user space;
    /// ENOMEM: a VMA would be split and there are too many; EPERM: a VMA is sealed.
    pub fn unmap(&self, start: VirtAddr, len: u64) -> Result<(), Error> {
        if len == 0 || !start.is_aligned(PAGE_SIZE) {
            return Err(Error::Inval);
        }
        let range = user_pages::<M>(start, len).ok_or(Error::Inval)?;
        let mut areas = self.areas()?;
        areas.check_seals(range)?;
        let removed = areas.remove(range);
        // Files are dropped after the lock.
        drop(areas);
        removed.map(drop).map_err(Error::from)
    }

    /// Unmaps pages of an object. No mapping moves, goes or comes by a fork meanwhile: one in
    /// progress is waited for.
    pub(crate) fn zap(&self, pages: &Pages<'_, M>) {
        let mut areas = self.areas_at_last();
        let mut at = VirtAddr(0);
        while let Some(next) = pages.zap(&mut areas, at) {
            at = next;
            if !areas.in_huge_page(at) {
                // No early end: the object has changed already, so its pages must not stay mapped.
                areas.pause();
            }
        }
    }
}

impl<M: Machine> AddressSpace<M> {
    /// Flushes, then drops what the tables map, as a reader of the space's lock: a writer that asks
    /// who maps a folio finds it as it is. Returns how many pages that were.
    fn drop_detached<'a>(&'a self, mut gather: Gather<'a, M>, mut tables: Detached<'a, M>) -> Zap {
        let mut reading = self.read_shared();
        if !mutant::on(Mutant::DropBeforeFlush) {
            gather.finish();
        }
        let mut dead = Gather::dead(&self.mm, &self.id);
        let mut zap = Zap {
            dead: true,
            ..Zap::default()
        };
        loop {
            zap.budget = Budget::step(&self.mm);
            tables.zap(&mut dead, &mut zap);
            dead.finish();
            drop(reading);
            if tables.is_empty() {
                // Only with the mutant anything is left to flush.
                gather.finish();
                return zap;
            }
            self.mm.machine().breathe();
            reading = self.read_shared();
        }
    }
}

impl<M: Machine> Areas<'_, M> {
    /// Unmaps `range` and returns its VMAs, to be dropped after the lock. May pause, but always
    /// completes. Out of memory: no change, or, with very many VMAs, the first ones are gone.
    pub(super) fn remove(&mut self, range: VirtRange) -> Result<Taken<M>> {
        let mut rest = range;
        while let Some(cut) = self.cut(rest) {
            let taken = self.remove_few(VirtRange::new(rest.start, cut))?;
            rest.start = cut;
            self.pause_to(|| drop(taken));
        }
        self.remove_few(rest)
    }

    fn remove_few(&mut self, range: VirtRange) -> Result<Taken<M>> {
        if self.vmas.is_clear(range) {
            return Ok(Taken::one(None));
        }
        self.vmas.reserve_take(range, 0)?;
        let mut gather = self.gather();
        let mut edit = self.table.edit(&mut gather);
        let split = edit.split_ends(range, Reserve::GivingBack);
        let removed = split.and_then(|()| self.vmas.take(range));
        let Ok(removed) = removed else {
            gather.finish();
            return Err(OutOfMemory);
        };
        if self.has_restricted_vmas {
            self.unclaim_all(&removed);
        }
        let mut budget = Budget::step(self.mm());
        for vma in removed.iter() {
            self.zap_whole(vma, &mut gather, &mut budget);
        }
        gather.finish();
        Ok(removed)
    }

    /// Zaps the pages of a VMA that is out of the tree, in steps.
    #[inline]
    pub(super) fn zap_whole(
        &mut self,
        vma: &Vma<M>,
        gather: &mut Gather<'_, M>,
        budget: &mut Budget,
    ) {
        if vma.range.len() >= Level::Pmd.bytes() && self.space.is_shared() {
            gather.finish();
            return self.zap_detached(vma);
        }
        let mm = self.mm();
        let mut rest = vma.range;
        while let Some(next) = self.zap(vma, rest, gather, budget) {
            rest.start = next;
            gather.finish();
            self.pause();
            *budget = Budget::step(mm);
        }
    }

    /// [`Self::zap_whole`] while other threads run: they are kept waiting for little, and flushes
    /// are few.
    #[cold]
    fn zap_detached(&mut self, vma: &Vma<M>) {
        let mut rest = vma.range;
        loop {
            let (mut gather, mut tables) = (self.gather(), Detached::new());
            let full = self.table.edit(&mut gather).detach(rest, &mut tables);
            let part = VirtRange::new(rest.start, full.unwrap_or(rest.end));
            let mut budget = Budget::step(self.mm());
            let stopped = self.zap(vma, part, &mut gather, &mut budget).or(full);
            if tables.is_empty() && stopped.is_none() {
                return gather.finish();
            }
            let (space, mut dropped) = (self.space, Zap::default());
            // The claim keeps other mappings away from the VMA until the flush.
            gather.before_open();
            self.pause_to(|| dropped = space.drop_detached(gather, tables));
            self.rss.sub(vma, &dropped);
            let Some(next) = stopped else {
                return;
            };
            rest.start = next;
        }
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Splits the PMD leaves at the ends of `range`, before a VMA is split there or partly changes.
    pub(crate) fn split_ends(&mut self, range: VirtRange) -> Result {
        self.edit(|edit| edit.split_ends(range, Reserve::User))
    }

    /// Zaps the pages of `range`, which lies in `vma`, within the budget; returns where the rest
    /// begins.
    pub(super) fn zap(
        &mut self,
        vma: &Vma<M>,
        range: VirtRange,
        gather: &mut Gather<'_, M>,
        budget: &mut Budget,
    ) -> Option<VirtAddr> {
        let mut zap = Zap {
            budget: *budget,
            ..Zap::default()
        };
        let stopped = self.table.edit(gather).zap(range, &mut zap);
        self.rss.sub(vma, &zap);
        *budget = zap.budget;
        stopped
    }
}

impl<M: Machine> Pages<'_, M> {
    /// One step of [`AddressSpace::zap`] at `start`; returns where the next one begins.
    fn zap(&self, space: &mut Locked<'_, M>, start: VirtAddr) -> Option<VirtAddr> {
        let mut gather = space.gather();
        let mut budget = Budget::step(space.mm());
        let Inner {
            vmas, table, rss, ..
        } = &mut **space;
        let (mut stopped, mut untracked) = (None, None);
        for vma in vmas.iter_in(VirtRange::new(start, M::Pte::USER_END)) {
            if !budget.take(1) {
                stopped = Some(vma.range.start.max(start));
                break;
            }
            let Some(range) = self.mapped_by(vma) else {
                continue;
            };
            let mut zap = Zap {
                keep_anon: self.keep_copies,
                keep_guards: true,
                budget,
                ..Zap::default()
            };
            let range = VirtRange::new(range.start.max(start), range.end.max(start));
            let mut edit = table.edit(&mut gather);
            let range = edit.around_leaves(range);
            // As in Linux, write protection of huge pages goes with them, unless they come back.
            let marks = self.moves || !vma.flags.is_hugetlb();
            stopped = match vma.keeps_marks() && marks {
                // Without memory for its markers a huge page stays mapped, and is not moved.
                true => edit
                    .zap_for_markers(range, false, &mut zap)
                    .unwrap_or_default(),
                false => edit.zap(range, &mut zap),
            };
            rss.sub(vma, &zap);
            budget = zap.budget;
            if self.moves && zap.object > 0 && vma.flags.is_tracked() {
                // The entry is gone that said whether it was written: all of the VMA was.
                untracked = Some(vma.range.start);
                stopped = stopped.or(Some(vma.range.end));
            }
            if stopped.is_some() {
                break;
            }
        }
        gather.finish();
        if let Some(slot) = untracked.and_then(|at| space.vmas.find(at)) {
            space.vmas.get_mut(slot).flags.count_as_written();
        }
        if self.splits && stopped.is_none() {
            // While faults of this space wait.
            self.object.split(self.range.clone());
        }
        stopped
    }
}
