//! Areas of huge pages ([`crate::hugetlb`]): their reservations, and what verbs refuse there.

use crate::addr::{PAGE_SHIFT, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::frame::{Block, Kind};
use crate::manager::Result;
use crate::mutant::{self, Mutant};
use crate::object::Object;
use crate::space::{AddressSpace, Advice, Error, Locked};
use crate::table::Budget;
use crate::vma::{Prot, Slot, Taken, Vma, VmaFlags};
use alloc::sync::Arc;

impl<M: Machine> AddressSpace<M> {
    /// Takes the private huge page at `addr` away from the children that have it too, if this space
    /// has it reserved: a write that found none left ([`crate::fault::Resolution::Bus`]) is not to
    /// fail for a fork (Linux: HPAGE_RESV_OWNER). Returns whether one had it: then it may be tried
    /// again. The caller holds no lock.
    #[cold]
    pub fn take_huge_back(&self, addr: VirtAddr) -> bool {
        let Some((object, index)) = self.reserved_huge(addr) else {
            return false;
        };
        let mut taken = false;
        object.for_each_mapper(&mut |space| {
            if space.key != self.key {
                taken |= space.lose_huge(&object, index);
            }
        });
        taken
    }

    /// The object and the index of the private huge page at `addr`, if this space has it reserved.
    fn reserved_huge(&self, addr: VirtAddr) -> Option<(Arc<Object<M>>, u64)> {
        let inner = self.lock();
        let vma = inner.vmas.at(addr)?;
        let size = vma
            .huge_order()
            .filter(|_| vma.flags.reserves_privately())?;
        let (object, index) = vma.object_page(addr.align_down(size.bytes()))?;
        object
            .is_owned_by(self.root())
            .then(|| (object.clone(), index))
    }

    /// Unmaps the huge page `index` of an object wherever it is mapped here; what is not there in
    /// these areas is SIGBUS from now on. Returns whether it was mapped.
    fn lose_huge(&self, object: &Arc<Object<M>>, index: u64) -> bool {
        let (mut areas, mut lost) = (self.areas_at_last(), false);
        let all = VirtRange::new(VirtAddr(0), M::Pte::USER_END);
        areas.in_parts(all, |inner, part| {
            while let Some(page) = inner.mapped_huge(part, object, index) {
                inner.lose_huge_page(page);
                lost = true;
            }
            true
        });
        lost
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Where the huge page `index` of an object is mapped in `part`.
    fn mapped_huge(
        &self,
        part: VirtRange,
        object: &Arc<Object<M>>,
        index: u64,
    ) -> Option<VirtRange> {
        let areas = self.vmas.iter_in(part);
        let mut pages = areas.filter_map(|vma| vma.huge_page_of(object, index));
        pages.find(|page| self.root().lookup(page.start).is_some())
    }
    /// Unmaps a huge page, which does not come back.
    fn lose_huge_page(&mut self, page: VirtRange) {
        let lost = |vma: &mut Vma<M>| vma.flags |= VmaFlags::HUGE_LOST;
        self.vmas.change(page.start, lost);
        if let Some(vma) = self.vmas.at(page.start).cloned() {
            let mut gather = self.gather();
            let mut all = Budget::UNLIMITED;
            self.zap(&vma, page, &mut gather, &mut all);
            gather.finish();
        }
    }
    /// EINVAL if an end of `range` lies in a huge page.
    #[inline(always)]
    pub(super) fn check_cut(&self, range: VirtRange) -> Result<(), Error> {
        match self.has_restricted_vmas && self.cuts(range) {
            true => Err(Error::Inval),
            false => Ok(()),
        }
    }
    #[cold]
    #[inline(never)]
    fn cuts(&self, range: VirtRange) -> bool {
        let cuts = |at| self.in_huge_page(at);
        !mutant::on(Mutant::CutHugePages) && (cuts(range.start) || cuts(range.end))
    }
    /// Whether `at` is in a huge page, as [`Vma::in_huge_page`].
    #[cold]
    #[inline(never)]
    pub(super) fn in_huge_page(&self, at: VirtAddr) -> bool {
        let vma = self.has_restricted_vmas.then(|| self.vmas.at(at)).flatten();
        vma.is_some_and(|vma| vma.in_huge_page(at))
    }

    /// Gives the reservations back that private huge pages did not use, in VMAs that are unmapped.
    #[cold]
    #[inline(never)]
    pub(super) fn unclaim_all(&self, removed: &Taken<M>) {
        removed
            .iter()
            .for_each(|vma| vma.unclaim_huge(self.space.root()));
    }

    /// Page advice about a part of an area of huge pages, within the budget; returns where the rest
    /// begins. EINVAL, as [`Vma::huge_part`].
    #[cold]
    #[inline(never)]
    pub(super) fn advise_huge(
        &mut self,
        slot: Slot,
        part: VirtRange,
        advice: Advice,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>, Error> {
        let vma = self.vmas.get(slot);
        let mut rest = vma.huge_part(part, advice)?;
        let plain = !vma.flags.reserves_privately();
        let size = vma.huge_order().ok_or(Error::Inval)?.bytes();
        while !rest.is_empty()
            && let Some(at) = self.root().first_used(rest)
        {
            let start = at.align_down(size);
            if !budget.take_leaf() {
                return Ok(Some(start));
            }
            let page = VirtRange::new(start, start + size);
            match plain {
                true => self.drop_huge(slot, page, budget)?,
                false => self.drop_private_huge(slot, page, budget)?,
            }
            rest.start = page.end;
        }
        Ok(None)
    }

    /// Drops a huge page, or none, in one step.
    fn drop_huge(&mut self, slot: Slot, page: VirtRange, budget: &mut Budget) -> Result {
        let mut rest = Budget::UNLIMITED;
        let stopped = self.drop_pages(slot, page, true, &mut rest)?;
        debug_assert!(stopped.is_none(), "without a limit nothing is left");
        budget.take_all_but(rest);
        Ok(())
    }

    /// Drops a private huge page, or none. As in Linux, the space has it reserved again: what
    /// MADV_DONTNEED gives back is for nobody else.
    fn drop_private_huge(&mut self, slot: Slot, page: VirtRange, budget: &mut Budget) -> Result {
        let (mm, who) = (self.mm(), self.space.root());
        let leaf = self.root().lookup(page.start);
        let block = leaf.map(|leaf| mm.frames().folio(leaf.pfn));
        let kept = block.filter(|block| block.kind == Kind::Anon);
        if let Some(Block { head, order, .. }) = kept {
            // Up to the flush it must not be anybody's.
            mm.add_plain(head, order);
        }
        let dropped = self.drop_huge(slot, page, budget);
        let place = self.vmas.get(slot).object_page(page.start);
        if let (Some(block), Some((object, index))) = (kept, place) {
            object.take_back(index, who, block.head);
        }
        dropped
    }

    /// Prepares the area of huge pages that was entered last at `start`. A private one has pages of
    /// its own from its first fault on, whatever that is.
    #[cold]
    pub(super) fn begin_huge(&mut self, start: VirtAddr) {
        self.has_restricted_vmas = true;
        if let Some(slot) = self.vmas.find(start)
            && !self.vmas.get(slot).shared()
        {
            self.vmas.prepare_write(slot);
        }
    }
}

impl<M: Machine> Vma<M> {
    /// Where the huge page `index` of an object is in an area of it.
    fn huge_page_of(&self, object: &Arc<Object<M>>, index: u64) -> Option<VirtRange> {
        let (own, first) = self.object_page(self.range.start)?;
        let pages = index.checked_sub(first)?;
        let start = self.range.start + (pages << PAGE_SHIFT);
        let is_in = Arc::ptr_eq(own, object) && start < self.range.end;
        let size = self.huge_order().filter(|_| is_in)?;
        Some(VirtRange::new(start, start + size.bytes()))
    }
    /// Reserves its pages, unless it is MAP_NORESERVE.
    #[cold]
    pub(super) fn claim_huge(&self) -> Result {
        match self.object_page(self.range.start) {
            Some((object, first)) if !self.flags.contains(VmaFlags::NORESERVE) => {
                object.claim(first, self.range.pages())
            }
            _ => Ok(()),
        }
    }

    /// Makes its file as long as it reaches, if it is writable; as in Linux, once its pages are
    /// reserved.
    #[cold]
    pub(super) fn grow_huge_file(&self) {
        let writable = self.prot.contains(Prot::WRITE);
        if let Some((object, first)) = self.object_page(self.range.start).filter(|_| writable) {
            let end = first + self.range.pages();
            object.file_object().grow_to(end << PAGE_SHIFT);
        }
    }

    /// The part of `part` that page advice is for: the pages that it covers whole. EINVAL if it
    /// begins in one, or for advice that huge pages do not take.
    fn huge_part(&self, part: VirtRange, advice: Advice) -> Result<VirtRange, Error> {
        let size = self.huge_order().ok_or(Error::Inval)?.bytes();
        let drops = matches!(advice, Advice::DontNeed | Advice::DontNeedLocked);
        match drops && part.start.is_aligned(size) {
            true => Ok(VirtRange::new(part.start, part.end.align_down(size))),
            false => Err(Error::Inval),
        }
    }
}
