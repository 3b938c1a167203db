//! The blocks at the ends of a range that changes, and all that it touches.

use super::{blocks, bytes};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::table::edit::Entries;

/// Calls `change` with an address in each of the blocks, two at most, that `part` covers only
/// partly.
#[inline]
fn at_ends<M: Machine>(part: VirtRange, mut change: impl FnMut(VirtAddr)) {
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

/// Calls `change` with an address in each block that `part` touches.
#[inline]
fn at_each<M: Machine>(part: VirtRange, change: impl FnMut(VirtAddr)) {
    if M::Pte::CONTIG_ORDER.is_some() {
        blocks::<M>(part).for_each(change);
    }
}

/// Of a `part` that is not empty.
impl<M: Machine> Entries<'_, '_, M> {
    /// Unfolds the blocks, two at most, that `part` covers only partly: before a range verb changes
    /// what is in `part`. Blocks that it covers whole stay folded.
    #[inline]
    pub fn unfold_ends(&mut self, part: VirtRange) {
        at_ends::<M>(part, |va| self.unfold(va));
    }

    /// Folds the blocks, two at most, that `part` covers only partly and that are complete now:
    /// after entries came there.
    #[inline]
    pub fn fold_ends(&mut self, part: VirtRange) {
        at_ends::<M>(part, |va| self.fold(va));
    }

    /// Folds every block that `part` touches and that is complete now.
    #[inline]
    pub fn fold_range(&mut self, part: VirtRange) {
        at_each::<M>(part, |va| self.fold(va));
    }

    /// Unfolds every block that `part` touches.
    #[inline]
    pub fn unfold_range(&mut self, part: VirtRange) {
        at_each::<M>(part, |va| self.unfold(va));
    }
}
