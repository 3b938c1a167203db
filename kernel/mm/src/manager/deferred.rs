//! The queue of deferred splits: private folios of which a part is not mapped any more. Memory
//! pressure splits them and frees the pages that are not mapped.

use super::Mm;
use crate::addr::{Order, Pfn, VirtAddr};
use crate::arch::Machine;
use crate::frame::list::FrameList;
use crate::frame::meta::Kind;
use crate::frame::table::FrameTable;
use crate::own::{Account, Owner};
use crate::sync::{Lock, rank};
use crate::thp::Stat;
use arrayvec::ArrayVec;

/// The list links the folios' first tails; a folio has a flag while it is on it.
pub(super) struct Deferred(Lock<FrameList, { rank::DEFERRED }>);

/// A folio on the queue.
pub(crate) struct Queued {
    pub order: Order,
    /// Where its first page was mapped when its mappings were last looked up.
    pub start: VirtAddr,
    pub references: u64,
    pub exclusive: bool,
}

/// The most folios that [`Mm::deferred`] returns at a time.
pub(crate) const BATCH: usize = 64;

impl Deferred {
    pub(super) fn new() -> Self {
        Deferred(Lock::new(FrameList::EMPTY))
    }

    /// Puts a folio on the queue, or takes it off; `false` when nothing was to be done.
    fn set(&self, frames: &FrameTable, head: Pfn, on: bool) -> bool {
        let mut list = self.0.lock();
        let meta = frames.get(head);
        if meta.deferred() == on {
            return false;
        }
        meta.anon().set_deferred(on);
        match on {
            true => list.push(frames, head + 1),
            false => list.remove(frames, head + 1),
        }
        true
    }
}

impl<M: Machine> Mm<M> {
    /// Notes that entries of a large private folio went and others are left: once there are fewer
    /// references than pages, some page is surely not mapped, and the folio is queued. A reference
    /// of the caller keeps the folio from being freed meanwhile.
    #[inline]
    pub(crate) fn defer_split(&self, head: Pfn) {
        // Fast path: when a folio is unmapped page by page, all but the first find it there.
        if !self.frames().get(head).deferred() {
            self.defer_split_now(head);
        }
    }
    #[inline(never)]
    fn defer_split_now(&self, head: Pfn) {
        let meta = self.frames().get(head);
        let order = meta.order();
        let partly = self.references(head) < order.pages();
        if meta.kind() == Kind::Anon && partly && self.deferred.set(self.frames(), head, true) {
            self.thp().stats.add(order, Stat::SplitDeferred, 1);
            self.thp().stats.add(order, Stat::NrAnonPartiallyMapped, 1);
        }
    }
    /// Takes a folio that is about to be freed or split off the queue.
    #[cold]
    #[inline(never)]
    pub(crate) fn forget_deferred(&self, head: Pfn, order: Order) {
        if self.deferred.set(self.frames(), head, false) {
            self.thp().stats.sub(order, Stat::NrAnonPartiallyMapped, 1);
        }
    }
    /// A folio of the queue, and whether `owner` maps it alone; `None` when it is not on the queue
    /// any more. Without the queue's lock it may be freed by another space meanwhile: what is freed
    /// leaves the queue first.
    pub(crate) fn queued(&self, head: Pfn, owner: &Owner) -> Option<Queued> {
        let _list = self.deferred.0.lock();
        let meta = self.frames().get(head);
        meta.deferred().then(|| Queued {
            order: meta.order(),
            start: meta.anon().index().start(),
            references: self.references(head),
            // The answer for a common id is about a folio that the space maps; it may not map this
            // one.
            exclusive: !owner.is_common()
                && self
                    .account()
                    .exclusive(&self.frames().book(head, meta.order()), owner),
        })
    }
    /// Up to [`BATCH`] folios of the queue, without the first `skip`.
    pub(crate) fn deferred(&self, skip: usize) -> ArrayVec<Pfn, BATCH> {
        let list = self.deferred.0.lock();
        let tails = list.iter(self.frames()).skip(skip).take(BATCH);
        tails.map(|tail| Pfn(tail.0 - 1)).collect()
    }
}
