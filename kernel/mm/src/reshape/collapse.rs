//! Collapse of small folios into one of PMD size (MADV_COLLAPSE, khugepaged).

use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Attrs, Machine};
use crate::folio::Folio;
use crate::frame::zone::Reserve;
use crate::manager::OutOfMemory;
use crate::space::{AddressSpace, Collapse, Error, Inner, Locked, Result};
use crate::thp::policy::block;
use crate::thp::{CollapseLimits, Orders, PMD_ORDER, Stat};
use crate::vma::{Backing, Prot, Vma};

impl<M: Machine> AddressSpace<M> {
    /// Collapses the 2 MiB around `at` if large folios are enabled there: khugepaged's step. Absent
    /// pages read as zeros, as before.
    pub fn collapse(&self, at: VirtAddr, limits: CollapseLimits) -> Collapse {
        let (controls, permit) = (&self.mm.thp().controls, self.thp_permit());
        self.lock()
            .collapse(at, limits, |vma| vma.orders(controls, permit))
    }

    /// The first address in `range` with a mapping or a PTE table; what precedes it is empty.
    pub fn first_used(&self, range: VirtRange) -> Option<VirtAddr> {
        self.lock().root().first_used(range)
    }

    /// MADV_COLLAPSE of one 2 MiB range, whatever is enabled: EINVAL where the VMA or the process
    /// forbids it or nothing is mapped, EAGAIN while a page may be pinned, ENOMEM without a free
    /// folio.
    pub(crate) fn collapse_now(&self, at: VirtAddr) -> Result {
        let eligible = |vma: &Vma<M>| vma.flags.collapse_orders(self.thp_permit());
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
        let found = self.root().census(self.id(), range.start);
        // What is absent is the monitor's to fill.
        let asks = vma.flags.has_monitor() && found.anon != PMD_ORDER.pages() as u32;
        if found.marked || asks {
            return Collapse::NotEligible;
        }
        if found.other {
            return Collapse::Already;
        }
        if found.anon == 0 {
            return Collapse::Empty;
        }
        if PMD_ORDER.pages() as u32 - found.anon > limits.max_ptes_none {
            mm.count_folios(PMD_ORDER, Stat::CollapseExceedNonePte, 1);
            return Collapse::TooEmpty;
        }
        if found.shared > limits.max_ptes_shared {
            mm.count_folios(PMD_ORDER, Stat::CollapseExceedSharedPte, 1);
            return Collapse::TooShared;
        }
        if found.pinned > 0 {
            return Collapse::Pinned;
        }
        let Ok(folio) = Folio::large_unfilled(mm, PMD_ORDER) else {
            mm.count_folios(PMD_ORDER, Stat::CollapseAllocFailed, 1);
            return Collapse::NoMem;
        };
        mm.count_folios(PMD_ORDER, Stat::CollapseAlloc, 1);
        let mut attrs = vma.attrs() | Attrs::ACCESSED | Attrs::DIRTY;
        attrs.set(Attrs::WRITE, vma.prot.contains(Prot::WRITE));
        let start = range.start;
        if let Err(OutOfMemory) = self.edit(|edit| edit.unshare(start, Reserve::User)) {
            folio.free(mm);
            return Collapse::NoMem;
        }
        self.edit(|edit| edit.collapse(start, folio, attrs));
        let Inner { vmas, rss, .. } = &mut **self;
        vmas.prepare_write(slot);
        rss.add_anon(PMD_ORDER.pages() - u64::from(found.anon));
        Collapse::Done
    }
}
