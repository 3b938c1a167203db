//! Resident pages by kind, and the checks of a new mapping against limits and memory.

use super::{Error, Inner, Locked, Result};
use crate::addr::PAGE_SIZE;
use crate::arch::Machine;
use crate::manager::{Mm, Policy};
use crate::table::Zap;
use crate::vma::{Backing, Vma, VmaTree};

/// Resident pages of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    /// Private, with those that are swapped.
    pub anon: u64,
    /// Those that are (VmSwap).
    pub swapped: u64,
    /// Of files (RssFile).
    pub file: u64,
    /// Shared anonymous (RssShmem).
    pub shmem: u64,
    /// In huge pages of hugetlb (HugetlbPages), which count in no other sum.
    pub hugetlb: u64,
    /// The peak of all (VmHWM).
    pub peak: u64,
}

impl Rss {
    /// Resident pages of all kinds.
    #[inline]
    pub fn total(&self) -> u64 {
        self.resident_anon() + self.file + self.shmem
    }
    /// Private pages that are resident (RssAnon).
    #[inline]
    pub fn resident_anon(&self) -> u64 {
        self.anon - self.swapped
    }
    /// Adds pages of a VMA.
    pub(crate) fn add<M: Machine>(&mut self, vma: &Vma<M>, anon: u64, object: u64) {
        self.anon += anon;
        *self.of_object(vma) += object;
        self.peak = self.peak.max(self.total());
    }
    /// Adds private pages.
    #[inline]
    pub(crate) fn add_anon(&mut self, pages: u64) {
        self.anon += pages;
        self.peak = self.peak.max(self.total());
    }
    /// Subtracts what was zapped in a VMA.
    pub(crate) fn sub<M: Machine>(&mut self, vma: &Vma<M>, zap: &Zap) {
        if vma.flags.is_hugetlb() {
            self.hugetlb -= zap.anon + zap.object;
            return;
        }
        self.anon -= zap.anon;
        self.swapped -= zap.swapped;
        *self.of_object(vma) -= zap.object;
    }
    fn of_object<M: Machine>(&mut self, vma: &Vma<M>) -> &mut u64 {
        match &vma.backing {
            Backing::Object { .. } if vma.flags.is_hugetlb() => &mut self.hugetlb,
            Backing::Object { file: Some(_), .. } => &mut self.file,
            _ => &mut self.shmem,
        }
    }
}

fn bytes(pages: u64) -> u64 {
    pages.saturating_mul(PAGE_SIZE)
}

impl<M: Machine> Locked<'_, M> {
    /// Checks a new VMA, `replaced` pages of which are mapped now, against limits and memory.
    pub(crate) fn may_map(&self, vma: &Vma<M>, replaced: u64) -> Result {
        let pages = vma.range.pages();
        if vma.flags.is_locked() && !self.may_lock(pages) {
            return Err(Error::Again);
        }
        self.may_expand(pages - replaced, vma)?;
        self.may_commit(pages, vma)
    }
    /// Whether `pages` more may be promised in a VMA like this one (vm.overcommit_memory, proc(5)).
    pub(crate) fn may_commit(&self, pages: u64, vma: &Vma<M>) -> Result {
        match !vma.is_accountable() || self.may_promise(pages) {
            true => Ok(()),
            false => Err(Error::NoMem),
        }
    }
    /// Whether a child may be promised what these VMAs come to.
    #[inline]
    pub(crate) fn may_copy(&self, vmas: &VmaTree<M>) -> Result {
        // With another policy each VMA may be what it was allowed to be.
        let never = self.mm().overcommit().policy() == Policy::Never;
        match never && !self.may_promise(vmas.figures().charged) {
            true => Err(Error::NoMem),
            false => Ok(()),
        }
    }
    /// Whether `pages` more may be promised, with what this verb has changed so far.
    #[inline]
    pub(crate) fn may_promise(&self, pages: u64) -> bool {
        let open = self.vmas.figures().charged.wrapping_sub(self.charged);
        self.mm().may_promise(pages, open as i64)
    }
}

impl<M: Machine> Inner<M> {
    /// Checks `pages` more in a VMA like this one: RLIMIT_AS and RLIMIT_DATA.
    pub(crate) fn may_expand(&self, pages: u64, vma: &Vma<M>) -> Result {
        if bytes(self.vmas.pages() + pages) > self.limits.address_space {
            return Err(Error::NoMem);
        }
        self.may_add_data(pages, vma)
    }
    /// Checks `pages` more in a VMA like this one: RLIMIT_DATA.
    pub(crate) fn may_add_data(&self, pages: u64, vma: &Vma<M>) -> Result {
        let data = vma.is_data() && self.limits.data != u64::MAX;
        if data && bytes(self.vmas.figures().data + pages) > self.limits.data {
            return Err(Error::NoMem);
        }
        Ok(())
    }
    /// Whether `pages` more may be locked.
    pub(crate) fn may_lock(&self, pages: u64) -> bool {
        let limit = self.limits.memlock;
        limit == u64::MAX || bytes(self.vmas.figures().locked + pages) <= limit
    }
    /// Tells the memory manager how many pages are promised here now.
    #[inline]
    pub(crate) fn settle_charge(&mut self, mm: &Mm<M>) {
        let now = self.vmas.figures().charged;
        if now != self.charged {
            mm.charge(now.wrapping_sub(self.charged));
            self.charged = now;
        }
    }
    /// Updates the peak of mapped pages.
    pub(crate) fn note_total(&mut self) {
        self.peak_total = self.peak_total.max(self.vmas.pages());
    }
}
