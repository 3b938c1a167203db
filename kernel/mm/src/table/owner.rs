//! Exclusive ownership of folios: the first mapping, and the test for it.

use super::Leaf;
use crate::addr::VirtAddr;
use crate::arch::Machine;
use crate::frame::{Block, Kind};
use crate::manager::Mm;
use crate::own::{Account, Book, By, Meter, Owner, Part};

impl<M: Machine> Mm<M> {
    /// Whether all references to the private folio of `leaf` are entries of the owner's space, or
    /// long-term pins, whose holders must see its writes. Requires the lock of the space, which
    /// maps the folio. Pages in shared tables are not exclusive. For a single page,
    /// [`Mm::pinned_by`] may still allow a write.
    #[inline]
    pub(crate) fn owns(&self, owner: &Owner, leaf: &Leaf) -> bool {
        self.owns_block(owner, leaf, &self.frames().folio(leaf.pfn))
    }

    /// [`Mm::owns`] of a leaf that maps `block` or a part of it.
    #[inline]
    pub(crate) fn owns_block(&self, owner: &Owner, leaf: &Leaf, block: &Block) -> bool {
        let &Block { head, kind, order } = block;
        kind == Kind::Anon
            && leaf.sharers <= 1
            && (self
                .account()
                .exclusive(&self.frames().book(head, order), owner)
                || self.long_term_pins() != 0 && self.exclusive_but_long_term(head, order, owner))
    }

    /// Begins the account of a fresh private folio: the owner's space is about to map all of its
    /// pages at `start` by entries of one kind.
    #[inline(always)]
    pub(crate) fn begin(&self, folio: Block, owner: &Owner, start: VirtAddr, by: By) {
        let Block { head, order, .. } = folio;
        let book = self.frames().book(head, order);
        debug_assert!(
            !self.any_long_term(head, order.pages()),
            "a fresh folio is pinned: {:?}",
            book.meta
        );
        book.meta.anon().set_index(start.page());
        // Fast path: not `with_account`, whose closure may not be inlined.
        let n = Book::order(&book).pages() as u32;
        let (first, mut meter) = (0, Meter::default());
        self.account()
            .begin(&book, owner, Part { first, n, by }, &mut meter);
        self.metered(meter);
    }
}
