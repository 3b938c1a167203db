//! MADV_GUARD_INSTALL and MADV_GUARD_REMOVE.

use super::advise::{all_of_it, refusal};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::space::{AREA, AddressSpace, Advice, Areas, Error, Result};
use crate::table::Budget;
use crate::thp::PMD_ORDER;
use crate::thp::policy::block;
use crate::vma::{Slot, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// Installs guards in all of `range`, in the place of what is mapped there, or removes them,
    /// VMA by VMA. Errors as of [`Self::advise`]; what precedes the VMA that is refused is done.
    pub(super) fn advise_guards(&self, range: VirtRange, advice: Advice) -> Result {
        // With the claim: a fork between two steps has the VMAs as they were.
        let mut areas = self.areas()?;
        let mut budget = Budget::step(areas.mm());
        let (mut rest, mut covered) = (range, true);
        while !rest.is_empty()
            && let Some(slot) = areas.vmas.from(rest.start)
            && let Some(part) = areas.vmas.get(slot).range.intersection(&rest)
        {
            covered &= part.start == rest.start;
            if let Some(why) = refusal(areas.mm(), areas.vmas.get(slot), advice) {
                return Err(why);
            }
            rest.start = match advice {
                Advice::GuardInstall => areas.guard(slot, part, &mut budget)?,
                _ => areas.unguard(slot, part, &mut budget),
            };
            if rest.start == part.end && budget.take(AREA) {
                continue;
            }
            if areas.pause() {
                return Err(Error::Interrupted);
            }
            budget = Budget::step(areas.mm());
        }
        all_of_it(covered && rest.is_empty())
    }
}

impl<M: Machine> Areas<'_, M> {
    /// Installs guards from the start of a part of a VMA on, within the budget but at least one
    /// table's; returns where the rest begins.
    fn guard(&mut self, slot: Slot, part: VirtRange, budget: &mut Budget) -> Result<VirtAddr> {
        self.vmas.get_mut(slot).flags |= VmaFlags::GUARDED;
        let mut rest = part;
        while let Some(piece) = rest.intersection(&block(rest.start, PMD_ORDER)) {
            // One table, or a leaf, whatever the budget.
            self.drop_pages(slot, piece, false, &mut Budget::default())?;
            self.edit(|edit| edit.guard(piece, budget))?;
            rest.start = piece.end;
            if budget.is_spent() {
                break;
            }
        }
        Ok(rest.start)
    }

    /// Removes the guards from the start of a part of a VMA on; returns where the rest begins.
    fn unguard(&mut self, slot: Slot, part: VirtRange, budget: &mut Budget) -> VirtAddr {
        if !self.vmas.get(slot).flags.contains(VmaFlags::GUARDED) {
            return part.end;
        }
        let stopped = self.edit(|edit| edit.unguard_some(part, budget));
        stopped.unwrap_or(part.end)
    }
}
