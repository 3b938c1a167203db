//! /proc/PID/clear_refs: clears the accessed and soft-dirty state.

use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::space::{AREAS, AddressSpace, Error, Locked};
use crate::table::{Budget, clear_accessed_some};
use crate::vma::{Backing, Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// 4: clears soft-dirty (soft-dirty.rst). What is mapped, grown or moved later is soft-dirty.
    /// Out of memory, which only shared tables need: some pages stay soft-dirty.
    pub fn clear_soft_dirty(&self) -> Result<(), Error> {
        let mut areas = self.areas()?;
        // No merge here with a VMA not yet marked: both would count as written.
        let mut at = VirtAddr(0);
        for n in 1.. {
            let Some(slot) = areas.vmas.from(at) else {
                break;
            };
            let range = areas.vmas.get(slot).range;
            let track = |v: &mut Vma<M>| v.flags |= VmaFlags::TRACKED;
            areas.vmas.amend(range.start, track);
            at = range.end;
            if n % AREAS == 0 {
                areas.pause();
            }
        }
        drop(areas);
        let tracked = self.area_by_area(|inner, part, budget| {
            Ok(inner.edit(|edit| edit.track_some(part.range, budget))?)
        });
        tracked.map(|_| ())
    }

    /// 1, 2, 3: clears the accessed bits of all mappings, of private memory (`Some(false)`), or of
    /// files and shared memory (`Some(true)`).
    pub fn clear_referenced(&self, of_objects: Option<bool>) {
        // Only an early end of the thread stops it.
        let _ = self.area_by_area(|inner, part, budget| {
            if of_objects.is_some_and(|wanted| wanted != part.of_object) {
                return Ok(None);
            }
            let table = &mut inner.table;
            Ok(clear_accessed_some(&self.mm, table, part.range, budget))
        });
    }

    /// 5: resets the peak of resident pages to the current number.
    pub fn forget_peak(&self) {
        let rss = &mut self.lock().rss;
        rss.peak = rss.total();
    }

    /// Calls `f` with each VMA, or the rest of it: `f` works within the budget and returns where
    /// the rest begins. Releases the lock after each step.
    fn area_by_area(
        &self,
        mut f: impl FnMut(&mut Locked<'_, M>, Part, &mut Budget) -> Stop,
    ) -> Stop {
        let mut at = VirtAddr(0);
        loop {
            let next = self.lock().some_areas(at, &mut f)?;
            match next {
                None => return Ok(None),
                Some(_) if self.mm.machine().breathe() => return Err(Error::Interrupted),
                Some(next) => at = next,
            }
        }
    }
}

/// Cost of a VMA in a step ([`Budget`]), besides its pages.
const AREA: u32 = 16;

/// A VMA, or the rest of it.
struct Part {
    range: VirtRange,
    /// Whether it is a file or shared memory.
    of_object: bool,
}

/// Where the rest begins, if any.
type Stop = Result<Option<VirtAddr>, Error>;

impl<M: Machine> Locked<'_, M> {
    /// One step of [`AddressSpace::area_by_area`].
    fn some_areas(
        &mut self,
        mut at: VirtAddr,
        f: &mut impl FnMut(&mut Self, Part, &mut Budget) -> Stop,
    ) -> Stop {
        let mut budget = Budget::step(self.mm());
        while let Some(slot) = self.vmas.from(at) {
            let vma = self.vmas.get(slot);
            let part = Part {
                range: VirtRange::new(vma.range.start.max(at), vma.range.end),
                of_object: matches!(vma.backing, Backing::Object { .. }),
            };
            at = part.range.end;
            let stopped = f(self, part, &mut budget)?;
            if stopped.is_some() {
                return Ok(stopped);
            }
            // Last, so that each step completes a table.
            if !budget.take(AREA) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}
