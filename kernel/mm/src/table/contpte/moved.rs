//! Blocks on their way to another address (mremap). No CPU walks the entries meanwhile, so that all
//! of a block can be written as it should be at its new place, with nothing to break.

use super::{USED, bytes, folded, one_folio, span};
use crate::addr::{Pfn, VirtAddr};
use crate::arch::{Attrs, Entry, Level, Machine, PteFormat};
use crate::manager::Mm;
use crate::mutant::{self, Mutant};
use crate::stat::Event;

/// Prepares entries that were taken from `from` on, where no folded block was cut, for a place `to`
/// that is not aligned as theirs was to blocks: folded ones become plain, used as any of the block
/// was.
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

/// Folds the blocks that entries which come to stand from `to` on make complete.
#[inline]
pub(in super::super) fn fold_carried<M: Machine>(mm: &Mm<M>, taken: &mut [u64], to: VirtAddr) {
    if mm.switches().contpte() {
        let folds = whole_blocks::<M>(taken, to).map(|block| u64::from(fold(mm, block)));
        mm.count(Event::ContpteFold, folds.sum());
    }
}

/// The blocks that lie whole in entries from `va` on.
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

/// Makes plain entries of a block if it is folded.
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
    // Mostly it is folded already, or the frame's number tells.
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

/// `attrs`, used as any of the block is.
fn used<M: Machine>(block: &[u64], attrs: Attrs) -> Attrs {
    let each = block.iter().filter_map(|raw| leaf::<M>(*raw));
    each.fold(attrs, |sum, (_, attrs)| sum | attrs & USED)
}

fn write<M: Machine>(block: &mut [u64], pfn: Pfn, attrs: Attrs) {
    for (i, raw) in block.iter_mut().enumerate() {
        *raw = M::Pte::leaf(pfn + i as u64, attrs, Level::Pte);
    }
}
