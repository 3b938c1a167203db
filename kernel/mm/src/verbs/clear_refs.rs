//! /proc/PID/clear_refs: clears the accessed and soft-dirty state.

use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::space::{AREAS, AddressSpace, Result};
use crate::vma::{Backing, Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// 4: clears soft-dirty (soft-dirty.rst). What is mapped, grown or moved later is soft-dirty.
    /// Out of memory, which only shared tables need: some pages stay soft-dirty.
    pub fn clear_soft_dirty(&self) -> Result {
        let mut areas = self.areas()?;
        // No merge here with a VMA not yet marked: both would count as written.
        let mut at = VirtAddr(0);
        for n in 1.. {
            let Some(slot) = areas.vmas.from(at) else {
                break;
            };
            let range = areas.vmas.get(slot).range;
            let track = |v: &mut Vma<M>| v.flags |= VmaFlags::TRACKED;
            areas.vmas.change(range.start, track);
            at = range.end;
            if n % AREAS == 0 {
                areas.pause();
            }
        }
        drop(areas);
        self.area_by_area(all::<M>(), |inner, _, part, budget| {
            Ok(inner.edit(|edit| edit.track_some(part, budget))?)
        })
        .map(|_| ())
    }

    /// 1, 2, 3: clears the accessed bits of all mappings, of private memory (`Some(false)`), or of
    /// files and shared memory (`Some(true)`).
    pub fn clear_referenced(&self, of_objects: Option<bool>) {
        // Only an early end of the thread stops it.
        let _ = self.area_by_area(all::<M>(), |inner, slot, part, budget| {
            let of_object = matches!(inner.vmas.get(slot).backing, Backing::Object { .. });
            if of_objects.is_some_and(|wanted| wanted != of_object) {
                return Ok(None);
            }
            Ok(inner.edit(|edit| edit.clear_accessed_some(part, budget)))
        });
    }

    /// 5: resets the peak of resident pages to the current number.
    pub fn forget_peak(&self) {
        let rss = &mut self.lock().rss;
        rss.peak = rss.total();
    }
}

/// All of user memory.
fn all<M: Machine>() -> VirtRange {
    VirtRange::new(VirtAddr(0), M::Pte::USER_END)
}
