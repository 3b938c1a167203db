//! The blocks at the ends of a range that changes, and all that it touches.

use super::{blocks, bytes, fold, unfold};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::frame::Mm;
use crate::tlb::Gather;

/// Unfolds the blocks, two at most, that `part` (not empty, within one PTE table) covers only partly: before a range verb
/// changes what is in `part`. Blocks that it covers whole stay folded.
#[inline]
pub(in super::super) fn unfold_ends<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    part: VirtRange,
    gather: &mut Gather<'_, M>,
) {
    if M::Pte::CONTIG_ORDER.is_none() {
        return;
    }
    if !part.start.is_aligned(bytes::<M>()) {
        unfold(mm, table, part.start, gather);
    }
    if !part.end.is_aligned(bytes::<M>()) {
        unfold(mm, table, VirtAddr(part.end.0 - PAGE_SIZE), gather);
    }
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
    if M::Pte::CONTIG_ORDER.is_none() {
        return;
    }
    if !part.start.is_aligned(bytes::<M>()) {
        fold(mm, table, part.start, gather);
    }
    if !part.end.is_aligned(bytes::<M>()) {
        fold(mm, table, VirtAddr(part.end.0 - PAGE_SIZE), gather);
    }
}

/// Folds every block that `part` (not empty, within one PTE table) touches and that is complete now.
#[inline]
pub(in super::super) fn fold_range<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    part: VirtRange,
    gather: &mut Gather<'_, M>,
) {
    if M::Pte::CONTIG_ORDER.is_none() {
        return;
    }
    for va in blocks::<M>(part) {
        fold(mm, table, va, gather);
    }
}

/// Unfolds every block that `part` (not empty, within one PTE table) touches.
#[inline]
pub(in super::super) fn unfold_range<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    part: VirtRange,
    gather: &mut Gather<'_, M>,
) {
    if M::Pte::CONTIG_ORDER.is_none() {
        return;
    }
    for va in blocks::<M>(part) {
        unfold(mm, table, va, gather);
    }
}
