//! Who has a folio: the first mappings, and whether a space has it for itself.

use super::Leaf;
use crate::addr::{Order, Pfn, VirtAddr};
use crate::arch::Machine;
use crate::frame::{Block, Kind};
use crate::manager::Mm;
use crate::own::{Account, By, Meter, Owner, Part};

/// Whether all references of the private folio that `leaf` maps are entries of the owner's space,
/// or long-term pins, whose holders are to see what it writes. To be asked under the lock of the
/// space, which maps the folio. A page in a table that others share is theirs, too. What is asked
/// about one page alone may be granted all the same: [`Mm::pinned_by`](crate::manager::Mm).
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

/// Begins the account of a private folio that nobody else has: all of its pages are about to be
/// mapped by the owner's space, from `start` on, by entries of one kind.
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
    // Not by `with_account`: a closure might stay one, and this is on the way of each fault.
    let (first, n) = (0, order.pages() as u32);
    let (book, mut meter) = (mm.frames().book(head, order), Meter::default());
    mm.account()
        .begin(&book, owner, Part { first, n, by }, &mut meter);
    mm.metered(meter);
}
