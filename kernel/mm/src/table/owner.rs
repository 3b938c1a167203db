//! Exclusive ownership of folios: the first mapping, and the test for it.

use super::Leaf;
use crate::addr::{Order, Pfn, VirtAddr};
use crate::arch::Machine;
use crate::frame::{Block, Kind};
use crate::manager::Mm;
use crate::own::{Account, By, Meter, Owner, Part};

/// Whether all references to the private folio of `leaf` are entries of the owner's space, or
/// long-term pins, whose holders must see its writes. Requires the lock of the space, which maps
/// the folio. Pages in shared tables are not exclusive. For a single page,
/// [`Mm::pinned_by`](crate::manager::Mm) may still allow a write.
#[inline]
pub fn owns<M: Machine>(mm: &Mm<M>, owner: &Owner, leaf: &Leaf) -> bool {
    owns_block(mm, owner, leaf, &mm.frames().folio(leaf.pfn))
}

/// [`owns`] of a leaf that maps `block` or a part of it.
#[inline]
pub fn owns_block<M: Machine>(mm: &Mm<M>, owner: &Owner, leaf: &Leaf, block: &Block) -> bool {
    let &Block { head, kind, order } = block;
    kind == Kind::Anon
        && leaf.sharers <= 1
        && (mm
            .account()
            .exclusive(&mm.frames().book(head, order), owner)
            || mm.long_term_pins() != 0 && mm.exclusive_but_long_term(head, order, owner))
}

/// Begins the account of a fresh private folio: the owner's space is about to map all of its pages
/// at `start` by entries of one kind.
#[inline(always)]
pub fn begin<M: Machine>(
    mm: &Mm<M>,
    (head, order): (Pfn, Order),
    owner: &Owner,
    start: VirtAddr,
    by: By,
) {
    let meta = mm.frames().get(head);
    debug_assert!(
        !mm.any_long_term(head, order.pages()),
        "a fresh folio is pinned: {meta:?}"
    );
    meta.anon().set_index(start.page());
    // Fast path: not `with_account`, whose closure may not be inlined.
    let (first, n) = (0, order.pages() as u32);
    let (book, mut meter) = (mm.frames().book(head, order), Meter::default());
    mm.account()
        .begin(&book, owner, Part { first, n, by }, &mut meter);
    mm.metered(meter);
}
