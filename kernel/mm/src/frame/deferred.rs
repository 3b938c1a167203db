//! The queue of deferred splits: private folios of which a part is not mapped any more. Memory pressure splits them, and what
//! nobody maps becomes free.

use super::meta::Kind;
use super::table::FrameTable;
use super::{Mm, meta::NO_LINK};
use crate::addr::{Order, Pfn, Vpn};
use crate::arch::Machine;
use crate::sync::{Lock, rank};
use crate::thp::Stat;
use arrayvec::ArrayVec;

/// A doubly linked list through the frame table; a folio is on it while it has the flag.
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
        meta.set_next(*first);
        meta.set_prev(NO_LINK);
        if *first != NO_LINK {
            frames.get(frames.pfn(*first)).set_prev(frames.index(pfn));
        }
        *first = frames.index(pfn);
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
        let (next, prev) = meta.links();
        if next != NO_LINK {
            frames.get(frames.pfn(next)).set_prev(prev);
        }
        if prev != NO_LINK {
            frames.get(frames.pfn(prev)).set_next(next);
        } else {
            *first = next;
        }
        true
    }
}

impl<M: Machine> Mm<M> {
    /// Notes that entries of a large private folio went and others are left: once there are fewer references than pages, some
    /// page is surely not mapped, and the folio is queued. Whoever holds a reference keeps the folio from going meanwhile.
    pub(crate) fn defer_split(&self, head: Pfn) {
        let meta = self.frames.get(head);
        let order = meta.order();
        let partly = u64::from(meta.refs()) < order.pages();
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
    /// Up to [`BATCH`] folios of the queue, without the first `skip`, with the page where each is, or would be, mapped first.
    pub(crate) fn deferred(&self, skip: usize) -> ArrayVec<(Pfn, Vpn), BATCH> {
        let first = self.deferred.0.lock();
        let mut found = ArrayVec::new();
        let (mut at, mut place) = (*first, 0);
        while at != NO_LINK && !found.is_full() {
            let pfn = self.frames.pfn(at);
            if place >= skip {
                found.push((pfn, self.frames.get(pfn).index()));
            }
            place += 1;
            at = self.frames.get(pfn).links().0;
        }
        found
    }
}
