//! Aging: private pages that a space has not used lately are parked in swap slots, and what nobody
//! else maps is stored.

use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::manager::{Mm, OutOfMemory};
use crate::space::{AddressSpace, Locked};
use crate::table::{Budget, Which};

/// How often all spaces are looked at for pages that are not used: those that were become cold by
/// the first look, and are parked by the second.
const LOOKS: u32 = 2;
/// And then for pages that are. Each of them parks up to twice as many as the one before, so that
/// the last ones reach all of each space; what others take back meanwhile prolongs nothing.
const LAST_LOOKS: u32 = 12;

impl<M: Machine> Mm<M> {
    /// Stores cold private pages, `want` of them if there are as many; returns how many were. In
    /// steps: the caller holds no lock.
    pub fn reclaim(&self, want: u64) -> u64 {
        // Who lacks memory precedes who turns swap off.
        self.end_leaving(true);
        if self.slots().total() == 0 {
            return 0;
        }
        let mut stored = self.store_pages(want);
        for look in 0..LOOKS + LAST_LOOKS {
            // Before there is no memory at all, what is in use goes, too; and more of each space,
            // until that of what several have is the same.
            let (which, most) = match look < LOOKS {
                true => (Which::Cold, want),
                false => (Which::All, want << (look - LOOKS)),
            };
            let (from, mut parked) = (self.aged_to(), 0);
            let mut nearest: Option<u64> = None;
            self.for_each_space(&mut |space| {
                if stored < want {
                    let (pages, distance) = space.age(from, most, which);
                    parked += pages;
                    nearest = nearest.into_iter().chain(distance).min();
                    stored += self.store_pages(want - stored);
                }
            });
            if let Some(distance) = nearest {
                self.set_aged_to(VirtAddr((from.0 + distance) % M::Pte::USER_END.0));
            }
            let is_enough = stored >= want || look + 1 >= LOOKS && stored > 0;
            let is_all = which == Which::All && parked == 0;
            if is_enough || is_all || self.machine().breathe() {
                break;
            }
        }
        stored
    }
}

impl<M: Machine> AddressSpace<M> {
    /// Parks private pages from an address on, and behind the last one from the first, until `want`
    /// are or all were looked at. Returns how many, and in how many bytes of the space it found
    /// enough. In steps: the caller holds no lock.
    fn age(&self, from: VirtAddr, want: u64, which: Which) -> (u64, Option<u64>) {
        let end = M::Pte::USER_END;
        let (mut parked, mut reached) = (0, None);
        for (part, before) in [
            (VirtRange::new(from, end), 0),
            (VirtRange::new(VirtAddr(0), from), end - from),
        ] {
            // Only an early end of the thread, or no memory for a table, stops it.
            let _ = self.area_by_area(part, |inner, slot, area, budget| {
                let vma = inner.vmas.get(slot);
                let stays = vma.flags.is_locked() || vma.flags.is_hugetlb();
                if vma.shared() || !vma.has_anon || stays || parked >= want {
                    return Ok(None);
                }
                let rest = inner.park(area, budget, which, &mut parked)?;
                if parked >= want {
                    reached = Some(before + (rest.unwrap_or(area.end) - part.start));
                }
                Ok(rest)
            });
        }
        (parked, reached)
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Parks private pages of `part` within the budget ([`crate::table::Edit::park_some`]) and adds
    /// them to `parked`; returns where the rest begins.
    pub(super) fn park(
        &mut self,
        part: VirtRange,
        budget: &mut Budget,
        which: Which,
        parked: &mut u64,
    ) -> Result<Option<VirtAddr>, OutOfMemory> {
        let before = *parked;
        let stopped = self.edit(|edit| edit.park_some(part, budget, which, parked));
        self.rss.swapped += *parked - before;
        stopped
    }
}
