//! Blocks that move to another address (mremap). No CPU walks the entries meanwhile, so a block is
//! written in its final state without break-before-make.

use super::{USED, bytes, folded, one_folio, span};
use crate::addr::{Pfn, VirtAddr};
use crate::arch::{Attrs, Entry, Level, Machine, PteFormat};
use crate::manager::Mm;
use crate::mutant::{self, Mutant};
use crate::stat::Event;

/// Unfolds entries taken from `from`, where no folded block was cut, if `to` has a different block
/// alignment; each keeps the block's ACCESSED and DIRTY.
#[inline]
pub(in super::super) fn unfold_carried<M: Machine>(
    taken: &mut [u64],
    from: VirtAddr,
    to: VirtAddr,
) {
    let alike = (from.0 ^ to.0) & (bytes::<M>() - 1) == 0;
    if !alike && !mutant::on(Mutant::MoveFolded) {
        whole_blocks::<M>(taken, from).for_each(unfold::<M>);
    }
}

/// Folds the complete blocks among entries destined for `to`.
#[inline]
pub(in super::super) fn fold_carried<M: Machine>(mm: &Mm<M>, taken: &mut [u64], to: VirtAddr) {
    if mm.switches().contpte() {
        let folds = whole_blocks::<M>(taken, to).map(|block| u64::from(fold(mm, block)));
        mm.count(Event::ContpteFold, folds.sum());
    }
}

/// The whole blocks among entries from `va` on.
#[inline]
fn whole_blocks<M: Machine>(entries: &mut [u64], va: VirtAddr) -> impl Iterator<Item = &mut [u64]> {
    let span = span::<M>();
    let first = (span - Level::Pte.index(va) % span) % span;
    let first = first.min(entries.len());
    entries[first..].chunks_exact_mut(span)
}

fn leaf<M: Machine>(raw: u64) -> Option<(Pfn, Attrs)> {
    match M::Pte::decode(raw, Level::Pte) {
        Entry::Leaf { pfn, attrs } => Some((pfn, attrs)),
        _ => None,
    }
}

/// Unfolds a block if it is folded.
fn unfold<M: Machine>(block: &mut [u64]) {
    let Some((pfn, attrs)) = leaf::<M>(block[0]).filter(|(_, attrs)| folded::<M>(*attrs)) else {
        return;
    };
    let attrs = used::<M>(block, attrs) - Attrs::CONTIG;
    write::<M>(block, pfn, attrs);
}

/// Folds a block if it is complete and not folded; returns whether it did.
#[inline]
fn fold<M: Machine>(mm: &Mm<M>, block: &mut [u64]) -> bool {
    // Fast path: usually it is folded already, or its first frame is misaligned.
    let Some((pfn, attrs)) = leaf::<M>(block[0]) else {
        return false;
    };
    let plain = !attrs.intersects(Attrs::CONTIG | Attrs::NO_ACCESS);
    plain && pfn.0.is_multiple_of(span::<M>() as u64) && fold_complete(mm, block, pfn, attrs)
}

fn fold_complete<M: Machine>(mm: &Mm<M>, block: &mut [u64], pfn: Pfn, attrs: Attrs) -> bool {
    let follows = |(i, raw): (usize, &u64)| {
        leaf::<M>(*raw)
            .is_some_and(|(page, other)| page == pfn + i as u64 && (other - USED) == (attrs - USED))
    };
    let complete = M::Pte::CONTIG_ORDER.is_some_and(|order| one_folio(mm, pfn, order))
        && block.iter().enumerate().all(follows);
    if complete {
        let attrs = used::<M>(block, attrs) | Attrs::CONTIG;
        write::<M>(block, pfn, attrs);
    }
    complete
}

/// `attrs` with the block's ACCESSED and DIRTY.
fn used<M: Machine>(block: &[u64], attrs: Attrs) -> Attrs {
    let each = block.iter().filter_map(|raw| leaf::<M>(*raw));
    each.fold(attrs, |sum, (_, attrs)| sum | attrs & USED)
}

fn write<M: Machine>(block: &mut [u64], pfn: Pfn, attrs: Attrs) {
    for (i, raw) in block.iter_mut().enumerate() {
        *raw = M::Pte::leaf(pfn + i as u64, attrs, Level::Pte);
    }
}
