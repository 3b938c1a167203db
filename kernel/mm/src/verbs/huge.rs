//! Areas of huge pages ([`crate::hugetlb`]): their reservations, and what verbs refuse there.

use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::manager::OutOfMemory;
use crate::mutant::{self, Mutant};
use crate::space::{Advice, Error, Locked};
use crate::vma::{Taken, Vma, VmaFlags};

impl<M: Machine> Locked<'_, M> {
    /// EINVAL if an end of `range` lies in a huge page.
    #[inline(always)]
    pub(super) fn check_cut(&self, range: VirtRange) -> Result<(), Error> {
        match self.refuses && self.cuts(range) {
            true => Err(Error::Inval),
            false => Ok(()),
        }
    }
    #[cold]
    #[inline(never)]
    fn cuts(&self, range: VirtRange) -> bool {
        let cuts = |at: VirtAddr| {
            let slot = self.vmas.find(at);
            let order = slot.and_then(|slot| self.vmas.get(slot).huge_order());
            order.is_some_and(|order| !at.is_aligned(order.bytes()))
        };
        !mutant::on(Mutant::CutHugePages) && (cuts(range.start) || cuts(range.end))
    }

    /// Gives the reservations back that private huge pages did not use, in VMAs that are unmapped.
    #[cold]
    #[inline(never)]
    pub(super) fn unclaim_all(&self, removed: &Taken<M>) {
        removed
            .iter()
            .for_each(|vma| vma.unclaim_huge(self.space.root()));
    }

    /// Prepares the area of huge pages that was entered last at `start`. A private one has pages of
    /// its own from its first fault on, whatever that is.
    #[cold]
    pub(super) fn begin_huge(&mut self, start: VirtAddr) {
        self.refuses = true;
        if let Some(slot) = self.vmas.find(start)
            && !self.vmas.get(slot).shared()
        {
            self.vmas.prepare_write(slot);
        }
    }
}

impl<M: Machine> Vma<M> {
    /// Reserves its pages, unless it is MAP_NORESERVE.
    #[cold]
    pub(super) fn claim_huge(&self) -> Result<(), OutOfMemory> {
        match self.object_page(self.range.start) {
            Some((object, first)) if !self.flags.contains(VmaFlags::NORESERVE) => {
                object.claim(first, self.range.pages())
            }
            _ => Ok(()),
        }
    }

    /// The part of `part` that page advice is for: of huge pages, those that it covers whole.
    /// EINVAL if it begins in one, or for advice that huge pages do not take.
    #[inline(always)]
    pub(super) fn advised_part(&self, part: VirtRange, advice: Advice) -> Result<VirtRange, Error> {
        match self.flags.contains(VmaFlags::HUGETLB) {
            true => self.huge_part(part, advice),
            false => Ok(part),
        }
    }
    #[cold]
    fn huge_part(&self, part: VirtRange, advice: Advice) -> Result<VirtRange, Error> {
        let size = self.huge_order().ok_or(Error::Inval)?.bytes();
        let drops = matches!(advice, Advice::DontNeed | Advice::DontNeedLocked);
        match drops && part.start.is_aligned(size) {
            true => Ok(VirtRange::new(part.start, part.end.align_down(size))),
            false => Err(Error::Inval),
        }
    }
}
