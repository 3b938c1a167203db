//! The walk over the VMAs of a range for work on their pages, in steps that bound the time under
//! the lock. VMAs may change between steps: they are seen as they are, or not.

use super::{AddressSpace, Error, Locked, Result};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::table::Budget;
use crate::vma::Slot;

/// Cost of a VMA in a step ([`Budget`]), besides its pages.
pub(crate) const AREA: u32 = 16;

/// Where the rest begins, if any.
type Stop = Result<Option<VirtAddr>>;

impl<M: Machine> AddressSpace<M> {
    /// Calls `f` with each VMA and its part of `range`, or the rest of it: `f` works within the
    /// budget and returns where the rest begins. Returns whether there was no gap.
    #[inline]
    pub(crate) fn area_by_area(
        &self,
        range: VirtRange,
        f: impl FnMut(&mut Locked<'_, M>, Slot, VirtRange, &mut Budget) -> Stop,
    ) -> Result<bool> {
        self.in_areas(range, |_| Ok(()), f)
    }

    /// [`Self::area_by_area`]; before each step `beside` takes from the range what it can do
    /// without the lock as a writer.
    #[inline]
    pub(crate) fn in_areas(
        &self,
        range: VirtRange,
        mut beside: impl FnMut(&mut VirtRange) -> Result,
        mut f: impl FnMut(&mut Locked<'_, M>, Slot, VirtRange, &mut Budget) -> Stop,
    ) -> Result<bool> {
        let (mut rest, mut covered) = (range, true);
        loop {
            beside(&mut rest)?;
            if rest.is_empty() {
                return Ok(covered);
            }
            let step = self.lock().some_areas(&mut rest, &mut covered, &mut f)?;
            if step.is_none() {
                return Ok(covered && rest.is_empty());
            }
            if self.mm.machine().breathe() {
                return Err(Error::Interrupted);
            }
        }
    }
}

impl<M: Machine> Locked<'_, M> {
    /// One step of [`AddressSpace::area_by_area`].
    #[inline]
    fn some_areas(
        &mut self,
        rest: &mut VirtRange,
        covered: &mut bool,
        f: &mut impl FnMut(&mut Self, Slot, VirtRange, &mut Budget) -> Stop,
    ) -> Stop {
        let mut budget = Budget::step(self.mm());
        while !rest.is_empty()
            && let Some(slot) = self.vmas.from(rest.start)
            && let Some(part) = self.vmas.get(slot).range.intersection(rest)
        {
            *covered &= part.start == rest.start;
            let stopped = f(self, slot, part, &mut budget)?;
            rest.start = stopped.unwrap_or(part.end);
            // The VMA last, so that each step completes a table.
            if stopped.is_some() || !budget.take(AREA) {
                return Ok(Some(rest.start));
            }
        }
        Ok(None)
    }
}
