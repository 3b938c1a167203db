//! Pins that last: a device reads and writes the page for as long as it likes, so the process that pinned it must go on seeing the
//! same page, whatever it forks and protects meanwhile.
//!
//! Each is a plain reference in the account, and is counted with the folio as well: then the account can be asked whether the
//! rest is one space's ([`Account::exclusive_but`]). Both change together, under one lock, or an answer might take off a
//! reference that is gone already.

use super::Mm;
use crate::addr::{Order, Pfn};
use crate::arch::Machine;
use crate::own::{Account, Owner};
use crate::sync::{Lock, rank};

/// Held while pins that last come and go, and while somebody counts on them.
pub(super) type Lasting = Lock<(), { rank::LASTING }>;

impl<M: Machine> Mm<M> {
    /// One more pin that lasts, of a private folio that the caller maps, under the lock of its space.
    pub(crate) fn add_lasting(&self, head: Pfn) {
        let _held = self.lasting.lock();
        let meta = self.frames.get(head);
        self.with_account((head, meta.order()), |account, book, meter| {
            account.add(book, &Owner::PLAIN, 1, meter)
        });
        meta.set_lasting(meta.lasting() + 1);
    }

    /// One less; returns whether it was the folio's last reference, so that the caller frees it.
    pub(crate) fn sub_lasting(&self, head: Pfn) -> bool {
        let _held = self.lasting.lock();
        let meta = self.frames.get(head);
        meta.set_lasting(meta.lasting() - 1);
        self.with_account((head, meta.order()), |account, book, meter| {
            account.sub(book, &Owner::PLAIN, 1, meter)
        })
    }

    /// Whether all references of a private folio but its pins that last are mappings by `owner`, who maps it and asks under the
    /// lock of its space.
    #[cold]
    pub(crate) fn exclusive_but_lasting(&self, head: Pfn, order: Order, owner: &Owner) -> bool {
        let _held = self.lasting.lock();
        let pins = self.frames.get(head).lasting().into();
        let book = self.frames.book(head, order);
        self.account().exclusive_but(&book, owner, pins)
    }
}
