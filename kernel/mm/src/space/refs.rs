//! /proc/PID/clear_refs: what was used and written is forgotten, to be seen anew.

use crate::addr::VirtAddr;
use crate::arch::Machine;
use crate::frame::OutOfMemory;
use crate::state::AddressSpace;
use crate::table::{clear_accessed, track_range};
use crate::tlb::Gather;
use crate::vma::{Backing, Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// 4: no page counts as written any more (soft-dirty.rst), until it is. What is mapped, grown or moved later counts as
    /// written. Out of memory (only tables that are shared need any): some still count as written.
    pub fn clear_soft_dirty(&self) -> Result<(), OutOfMemory> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        // No two become one here, of which one may not say so yet: the other would count as written, too.
        let mut at = VirtAddr(0);
        while let Some(slot) = inner.vmas.from(at) {
            let range = inner.vmas.get(slot).range;
            inner
                .vmas
                .amend(range.start, |v| v.flags |= VmaFlags::TRACKED);
            at = range.end;
        }
        let mut gather = Gather::new(&self.mm, &self.id);
        let result = inner
            .vmas
            .iter()
            .try_for_each(|vma| track_range(&self.mm, &mut inner.table, vma.range, &mut gather));
        gather.finish();
        result
    }

    /// 1, 2, 3: no page counts as used any more: of all mappings, of private memory (`Some(false)`), or of files and shared
    /// memory (`Some(true)`).
    pub fn clear_referenced(&self, of_objects: Option<bool>) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let object = |vma: &Vma<M>| matches!(vma.backing, Backing::Object { .. });
        for vma in inner.vmas.iter() {
            if of_objects.is_none_or(|wanted| wanted == object(vma)) {
                clear_accessed(&self.mm, &mut inner.table, vma.range);
            }
        }
    }

    /// 5: the peak of the resident pages is what there is now.
    pub fn forget_peak(&self) {
        let rss = &mut self.inner.lock().rss;
        rss.peak = rss.anon + rss.file + rss.shmem;
    }
}
