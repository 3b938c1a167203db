//! Truncation of an object, and holes: pages that are gone are mapped nowhere when the call ends.

use crate::addr::PAGE_SIZE;
use crate::arch::Machine;
use crate::object::Object;
use crate::space::Pages;
use alloc::sync::Arc;
use core::ops::Range;

impl<M: Machine> Object<M> {
    /// Changes the size (ftruncate(2)): pages past it go, and their mappings everywhere, private
    /// copies included; the tail of the last page is zeroed. May pause, but completes also for a
    /// thread that is to end; the caller holds no lock.
    pub fn truncate(self: &Arc<Self>, len: u64) {
        let shrinks = len < self.len();
        while !self.set_len_step(len) {
            self.mm().machine().breathe();
        }
        if shrinks {
            let first = len.div_ceil(PAGE_SIZE);
            // Afterwards, or faults would map the pages again.
            self.zap(first..u64::MAX, false);
        }
    }

    /// Zeros `len` bytes from `from` on (FALLOC_FL_PUNCH_HOLE): pages that lie in them whole go,
    /// and their mappings everywhere, but for private copies. Pauses as [`Self::truncate`].
    pub fn punch(self: &Arc<Self>, from: u64, len: u64) {
        if len == 0 {
            return;
        }
        while !self.punch_step(from, len) {
            self.mm().machine().breathe();
        }
        let size = self.huge_order().unwrap_or_default();
        let end = from.saturating_add(len);
        let whole = from.div_ceil(size.bytes()) << size.0..(end / size.bytes()) << size.0;
        if whole.start < whole.end {
            self.zap(whole, true);
        }
    }

    /// Unmaps pages that are gone everywhere, and splits the large folios that are cut by them,
    /// unless a space maps the rest; with `keep_copies`, private copies stay.
    fn zap(self: &Arc<Self>, range: Range<u64>, keep_copies: bool) {
        // Of huge pages those that are gone whole.
        let size = self.huge_order().unwrap_or_default();
        let gone = Pages {
            // As in Linux, private copies of huge pages go with a hole, too.
            keep_copies: keep_copies && self.huge_order().is_none(),
            moves: false,
            ..Pages::new(
                self,
                range.start.next_multiple_of(size.pages())..range.end >> size.0 << size.0,
            )
        };
        if gone.range.is_empty() {
            return;
        }
        self.for_each_mapper(&mut |space| {
            space.zap(&gone);
            for folio in self.cut_by(range.clone()).into_iter().flatten() {
                space.zap(&Pages {
                    splits: true,
                    ..Pages::new(self, folio)
                });
            }
        });
    }
}
