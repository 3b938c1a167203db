//! The queue of deferred splits: private folios of which a part is not mapped any more. Memory
//! pressure splits them, and what nobody maps becomes free.

use super::Mm;
use crate::addr::{Order, Pfn};
use crate::arch::Machine;
use crate::frame::meta::Kind;
use crate::frame::meta::NO_LINK;
use crate::frame::table::FrameTable;
use crate::sync::{Lock, rank};
use crate::thp::Stat;
use arrayvec::ArrayVec;

/// A doubly linked list through the first tails of its folios; a folio is on it while it has the
/// flag.
pub(super) struct Deferred(Lock<u32, { rank::DEFERRED }>);

/// What [`Mm::deferred`] shows at a time.
pub(crate) const BATCH: usize = 64;

impl Deferred {
    pub(super) fn new() -> Self {
        Deferred(Lock::new(NO_LINK))
    }

    /// Puts a folio on the queue; `false` when it is there.
    fn push(&self, frames: &FrameTable, pfn: Pfn) -> bool {
        let mut first = self.0.lock();
        let meta = frames.get(pfn);
        if meta.deferred() {
            return false;
        }
        meta.set_deferred(true);
        let here = frames.index(pfn + 1);
        frames.at(here).set_links(*first, NO_LINK);
        if *first != NO_LINK {
            frames.at(*first).set_prev(here);
        }
        *first = here;
        true
    }

    /// Takes a folio off the queue; `false` when it is not there.
    fn remove(&self, frames: &FrameTable, pfn: Pfn) -> bool {
        let mut first = self.0.lock();
        let meta = frames.get(pfn);
        if !meta.deferred() {
            return false;
        }
        meta.set_deferred(false);
        let (next, prev) = frames.get(pfn + 1).links();
        if next != NO_LINK {
            frames.at(next).set_prev(prev);
        }
        if prev != NO_LINK {
            frames.at(prev).set_next(next);
        } else {
            *first = next;
        }
        true
    }
}

impl<M: Machine> Mm<M> {
    /// Notes that entries of a large private folio went and others are left: once there are fewer
    /// references than pages, some page is surely not mapped, and the folio is queued. Whoever
    /// holds a reference keeps the folio from going meanwhile.
    #[inline]
    pub(crate) fn defer_split(&self, head: Pfn) {
        // Page by page, most of its unmaps find it there.
        if !self.frames.get(head).deferred() {
            self.defer_split_now(head);
        }
    }
    #[inline(never)]
    fn defer_split_now(&self, head: Pfn) {
        let meta = self.frames.get(head);
        let order = meta.order();
        let partly = self.references(head) < order.pages();
        if meta.kind() == Kind::Anon && partly && self.deferred.push(&self.frames, head) {
            self.thp().stats.add(order, Stat::SplitDeferred, 1);
            self.thp().stats.add(order, Stat::NrAnonPartiallyMapped, 1);
        }
    }
    /// Takes a folio off the queue, because it goes or is split.
    pub(crate) fn forget_deferred(&self, head: Pfn, order: Order) {
        if self.deferred.remove(&self.frames, head) {
            self.thp().stats.sub(order, Stat::NrAnonPartiallyMapped, 1);
        }
    }
    /// Up to [`BATCH`] folios of the queue, without the first `skip`.
    pub(crate) fn deferred(&self, skip: usize) -> ArrayVec<Pfn, BATCH> {
        let first = self.deferred.0.lock();
        let mut found = ArrayVec::new();
        let (mut at, mut place) = (*first, 0);
        while at != NO_LINK && !found.is_full() {
            if place >= skip {
                found.push(Pfn(self.frames.pfn(at).0 - 1));
            }
            place += 1;
            at = self.frames.at(at).links().0;
        }
        found
    }
}
