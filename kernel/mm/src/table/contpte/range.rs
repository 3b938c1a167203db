//! The blocks at the ends of a range that changes, and all that it touches.

use super::{blocks, bytes, fold, unfold};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::frame::Mm;
use crate::tlb::Gather;

/// Calls `change` with an address in each of the blocks, two at most, that `part` covers only partly.
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

/// Unfolds the blocks, two at most, that `part` (not empty, within one PTE table) covers only partly: before a range verb
/// changes what is in `part`. Blocks that it covers whole stay folded.
#[inline]
pub(in super::super) fn unfold_ends<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    part: VirtRange,
    gather: &mut Gather<'_, M>,
) {
    at_ends::<M>(part, |va| unfold(mm, table, va, gather));
}

/// Folds the blocks, two at most, that `part` (not empty, within one PTE table) covers only partly and that are complete now:
/// after entries came there.
#[inline]
pub(in super::super) fn fold_ends<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    part: VirtRange,
    gather: &mut Gather<'_, M>,
) {
    at_ends::<M>(part, |va| fold(mm, table, va, gather));
}

/// Folds every block that `part` (not empty, within one PTE table) touches and that is complete now.
#[inline]
pub(in super::super) fn fold_range<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    part: VirtRange,
    gather: &mut Gather<'_, M>,
) {
    at_each::<M>(part, |va| fold(mm, table, va, gather));
}

/// Unfolds every block that `part` (not empty, within one PTE table) touches.
#[inline]
pub(in super::super) fn unfold_range<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    part: VirtRange,
    gather: &mut Gather<'_, M>,
) {
    at_each::<M>(part, |va| unfold(mm, table, va, gather));
}
