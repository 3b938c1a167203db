//! mseal(2): VMAs that no later call may unmap, move, replace or protect in another way.
//!
//! A seal is a flag of the VMA; it is never taken back, and a child inherits it. Each verb asks
//! for the seals in its range before it changes anything there.

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::fault::{Access, refused_by_key};
use crate::manager::Mm;
use crate::space::{AddressSpace, Advice, Areas, Error, Result};
use crate::vma::{Backing, Prot, Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// mseal(2). EINVAL: misaligned, or the range wraps around; ENOMEM: a hole, and nothing is
    /// sealed.
    pub fn seal(&self, start: VirtAddr, len: u64) -> Result {
        if !start.is_aligned(PAGE_SIZE) {
            return Err(Error::Inval);
        }
        let end = start.checked_add(len).and_then(|e| e.align_up(PAGE_SIZE));
        let range = VirtRange::new(start, end.ok_or(Error::Inval)?);
        if range.is_empty() {
            return Ok(());
        }
        let mut areas = self.areas()?;
        if range.end > M::Pte::USER_END || areas.pages_of(range, |_| true) != range.pages() {
            return Err(Error::NoMem);
        }
        areas.check_cut(range)?;
        areas.vmas.reserve_update(range)?;
        areas.split_ends(range)?;
        areas.has_restricted_vmas = true;
        areas.in_parts(range, |inner, part| {
            inner.vmas.update(part, |v| v.flags |= VmaFlags::SEALED);
            true
        });
        Ok(())
    }
}

impl<M: Machine> Areas<'_, M> {
    /// EPERM if a VMA in `range` is sealed; EINVAL if an end of it lies in a huge page.
    #[inline(always)]
    pub(super) fn check_seals(&mut self, range: VirtRange) -> Result {
        // Fast path: few processes seal anything, or have huge pages.
        match self.has_restricted_vmas {
            true => self.find_seal(range),
            false => Ok(()),
        }
    }

    /// [`Self::check_seals`], out of line: inlined, it would spill the registers of every verb.
    #[cold]
    #[inline(never)]
    fn find_seal(&mut self, range: VirtRange) -> Result {
        match self.pages_of(range, Vma::is_sealed) {
            0 => self.check_cut(range),
            _ => Err(Error::Perm),
        }
    }
}

impl<M: Machine> Vma<M> {
    /// Whether a seal of it forbids the advice: to discard anonymous memory that could not be
    /// written over, by its rights or by its key. As in Linux, private copies of an object's pages
    /// may go.
    #[cold]
    pub(super) fn is_sealed_against(&self, mm: &Mm<M>, advice: Advice) -> bool {
        let writable =
            || self.prot.contains(Prot::WRITE) && !refused_by_key(mm, self, Access::Write);
        matches!(self.backing, Backing::Anon) && advice.discards() && !writable()
    }
}

impl Advice {
    /// Whether pages may lose their contents, here or in a child.
    fn discards(self) -> bool {
        matches!(
            self,
            Advice::DontNeed
                | Advice::DontNeedLocked
                | Advice::Free
                | Advice::Remove
                | Advice::DontFork
                | Advice::WipeOnFork
                | Advice::GuardInstall
        )
    }
}
