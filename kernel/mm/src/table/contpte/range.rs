//! Fold and unfold of the blocks at the ends of a range, and of all that it overlaps.

use super::{blocks, bytes};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::table::edit::Entries;

/// Calls `change` with an address in each of the two blocks at most that `part` covers partly.
#[inline]
pub(super) fn at_ends<M: Machine>(part: VirtRange, mut change: impl FnMut(VirtAddr)) {
    if M::Pte::CONTIG_ORDER.is_none() {
        return;
    }
    if !part.start.is_aligned(bytes::<M>()) {
        change(part.start);
    }
    if !part.end.is_aligned(bytes::<M>()) {
        change(VirtAddr(part.end.0 - PAGE_SIZE));
    }
}

/// `part` is never empty.
impl<M: Machine> Entries<'_, '_, M> {
    /// Unfolds the two blocks at most that `part` covers partly, before a range verb changes
    /// `part`. Whole blocks stay folded.
    #[inline]
    pub fn unfold_ends(&mut self, part: VirtRange) {
        at_ends::<M>(part, |va| self.unfold(va));
    }
    /// Folds the two blocks at most that `part` covers partly and new entries have completed.
    #[inline]
    pub fn fold_ends(&mut self, part: VirtRange) {
        at_ends::<M>(part, |va| self.fold(va));
    }
    /// Folds every complete block that `part` overlaps.
    #[inline]
    pub fn fold_range(&mut self, part: VirtRange) {
        blocks::<M>(part).for_each(|va| self.fold(va));
    }
    /// Unfolds every block that `part` overlaps.
    #[inline]
    pub fn unfold_range(&mut self, part: VirtRange) {
        blocks::<M>(part).for_each(|va| self.unfold(va));
    }
}
