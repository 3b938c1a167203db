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
use crate::thp::{PMD_ORDER, Stat};
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

    /// Puts a folio on the queue; `false` when nothing was to be done.
    fn join(&self, frames: &FrameTable, head: Pfn, order: Order) -> bool {
        let mut list = self.0.lock();
        let joins = frames.get(head).defer(order);
        if joins {
            list.push(frames, head + 1);
        }
        joins
    }
    /// Takes a folio off that has been marked ([`crate::frame::FrameMeta::end`]).
    fn leave(&self, frames: &FrameTable, head: Pfn) {
        self.0.lock().remove(frames, head + 1);
    }
}

impl<M: Machine> Mm<M> {
    /// Notes that entries of a large private folio went and others are left: once there are fewer
    /// references than pages, some page is surely not mapped, and the folio is queued.
    ///
    /// The caller may have no reference any more, so the frame may be anything by now. The last of
    /// several that drop references finds what is left: none is between it and the others. A folio
    /// that comes into its place meanwhile may be queued for nothing, which is harmless.
    #[inline]
    pub(crate) fn defer_split(&self, head: Pfn) {
        // Fast path: when a folio is unmapped page by page, all but the first find it there.
        if !self.frames().get(head).deferred() {
            self.defer_split_now(head);
        }
    }
    #[inline(never)]
    fn defer_split_now(&self, head: Pfn) {
        let (kind, order) = self.frames().get(head).kind_and_order();
        if kind != Kind::Anon || order == Order(0) || order > PMD_ORDER {
            return;
        }
        let book = self.frames().former_book(head, order);
        let references = self.account().references(&book);
        // What is in slots has one reference for all that they name.
        let in_slots = self.frames().get(head).former_slots().is_some();
        let partly = 0 < references && references < order.pages() && !in_slots;
        if partly && self.deferred.join(self.frames(), head, order) {
            self.count_folios(order, Stat::SplitDeferred, 1);
            self.count_folios(order, Stat::NrAnonPartiallyMapped, 1);
        }
    }
    /// Takes a folio that is about to be freed or split off the queue, which it does not join any
    /// more.
    #[inline]
    pub(crate) fn end_deferred(&self, head: Pfn, order: Order) {
        if self.frames().get(head).end(order) {
            self.forget_deferred(head, order);
        }
    }
    #[cold]
    #[inline(never)]
    fn forget_deferred(&self, head: Pfn, order: Order) {
        self.deferred.leave(self.frames(), head);
        self.uncount_folios(order, Stat::NrAnonPartiallyMapped, 1);
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
