//! Collapse of small folios into one of PMD size (MADV_COLLAPSE, khugepaged).

use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Attrs, Machine};
use crate::folio::Folio;
use crate::frame::zone::Reserve;
use crate::manager::OutOfMemory;
use crate::space::{AddressSpace, Collapse, Error, Inner, Locked};
use crate::table::{Zap, census, first_used};
use crate::thp::policy::{self, block};
use crate::thp::{CollapseLimits, Orders, PMD_ORDER, Stat};
use crate::vma::{Backing, Prot, Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// Collapses the 2 MiB around `at` if large folios are enabled there: khugepaged's step. Absent
    /// pages read as zeros, as before.
    pub fn collapse(&self, at: VirtAddr, limits: CollapseLimits) -> Collapse {
        let eligible = |vma: &Vma<M>| {
            let has = |flag| vma.flags.contains(flag);
            policy::allowed(
                &self.mm.thp().controls,
                has(VmaFlags::HUGEPAGE),
                has(VmaFlags::NOHUGEPAGE),
                self.thp_permit(),
            )
        };
        self.lock().collapse(at, limits, eligible)
    }

    /// The first address in `range` with a mapping or a PTE table; what precedes it is empty.
    pub fn first_used(&self, range: VirtRange) -> Option<VirtAddr> {
        first_used(&self.mm, &self.lock().table, range)
    }

    /// MADV_COLLAPSE of one 2 MiB range, whatever is enabled: EINVAL where the VMA or the process
    /// forbids it or nothing is mapped, EAGAIN while a page may be pinned, ENOMEM without a free
    /// folio.
    pub(crate) fn collapse_now(&self, at: VirtAddr) -> Result<(), Error> {
        let eligible = |vma: &Vma<M>| {
            // The call itself is advice.
            match vma.flags.contains(VmaFlags::NOHUGEPAGE) {
                true => Orders::NONE,
                false => self.thp_permit().orders_of(true),
            }
        };
        let limits = CollapseLimits::ANY;
        match self.lock().collapse(at, limits, eligible) {
            Collapse::Done | Collapse::Already => Ok(()),
            Collapse::NoMem => Err(Error::NoMem),
            Collapse::Pinned => Err(Error::Again),
            _ => Err(Error::Inval),
        }
    }
}

impl<M: Machine> Locked<'_, M> {
    fn collapse(
        &mut self,
        at: VirtAddr,
        limits: CollapseLimits,
        eligible: impl Fn(&Vma<M>) -> Orders,
    ) -> Collapse {
        let (mm, range) = (self.mm(), block(at, PMD_ORDER));
        let Some(slot) = self.vmas.find(at) else {
            return Collapse::NotEligible;
        };
        let vma = self.vmas.get(slot);
        if !vma.range.covers(&range)
            || !matches!(vma.backing, Backing::Anon)
            || !eligible(vma).contains(PMD_ORDER)
        {
            return Collapse::NotEligible;
        }
        let found = census(mm, &self.table, &self.id().owner, range.start);
        let stats = &mm.thp().stats;
        if found.other {
            return Collapse::Already;
        }
        if found.anon == 0 {
            return Collapse::Empty;
        }
        if PMD_ORDER.pages() as u32 - found.anon > limits.max_ptes_none {
            stats.add(PMD_ORDER, Stat::CollapseExceedNonePte, 1);
            return Collapse::TooEmpty;
        }
        if found.shared > limits.max_ptes_shared {
            stats.add(PMD_ORDER, Stat::CollapseExceedSharedPte, 1);
            return Collapse::TooShared;
        }
        if found.pinned > 0 {
            return Collapse::Pinned;
        }
        let Ok(folio) = Folio::large_unfilled(mm, PMD_ORDER) else {
            stats.add(PMD_ORDER, Stat::CollapseAllocFailed, 1);
            return Collapse::NoMem;
        };
        stats.add(PMD_ORDER, Stat::CollapseAlloc, 1);
        let mut attrs = vma.attrs() | Attrs::ACCESSED | Attrs::DIRTY;
        attrs.set(Attrs::WRITE, vma.prot.contains(Prot::WRITE));
        let mut gather = self.gather();
        let mut edit = self.table.edit(&mut gather);
        if let Err(OutOfMemory) = edit.unshare(range.start, Reserve::User) {
            gather.finish();
            folio.free(mm);
            return Collapse::NoMem;
        }
        edit.collapse(range.start, folio, attrs);
        gather.finish();
        let gone = Zap {
            anon: u64::from(found.anon),
            ..Zap::default()
        };
        if self.vmas.get(slot).anon_vma.is_none() {
            self.vmas.prepare_anon(slot);
        }
        let Inner { vmas, rss, .. } = &mut **self;
        let vma = vmas.get_mut(slot);
        vma.has_anon = true;
        rss.sub(vma, &gone);
        rss.add(vma, PMD_ORDER.pages(), 0);
        Collapse::Done
    }
}
