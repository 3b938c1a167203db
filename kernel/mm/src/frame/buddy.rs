//! The buddy allocator (Knuth, TAOCP 1, 2.5): free blocks of 2^order frames, naturally aligned, in one list per order,
//! linked by frame number through the frame table.

use super::meta::{FrameMeta, FrameTable, Kind};
use crate::addr::{Order, Pfn, PfnRange};

/// The largest block: 2^18 frames, 1 GiB, what one entry of a PUD table maps.
pub const MAX_ORDER: Order = Order(18);
pub(crate) const ORDERS: usize = MAX_ORDER.0 as usize + 1;
const NONE: u32 = u32::MAX;

/// The free lists. A value without a lock: [`super::zone::Zone`] has one around it.
pub struct Buddy {
    heads: [u32; ORDERS],
    /// Lengths of the lists.
    blocks: [u64; ORDERS],
    free: u64,
}

impl Default for Buddy {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a frame lies in a free block of whatever order.
fn in_free_block(table: &FrameTable, pfn: Pfn) -> bool {
    (0..=MAX_ORDER.0).map(Order).any(|order| {
        let head = Pfn(pfn.0 & !(order.pages() - 1));
        let free = |m: &FrameMeta| m.kind() == Kind::Free && m.order() >= order;
        table.try_get(head).is_some_and(free)
    })
}

impl Buddy {
    /// No frames at all.
    pub const fn new() -> Self {
        Buddy {
            heads: [NONE; ORDERS],
            blocks: [0; ORDERS],
            free: 0,
        }
    }

    /// Free frames.
    pub fn free_frames(&self) -> u64 {
        self.free
    }

    /// Free blocks of each order.
    pub fn blocks(&self) -> [u64; ORDERS] {
        self.blocks
    }

    /// Adds reserved frames, in blocks as large as alignment allows: a handful of steps for each GiB.
    pub fn add_range(&mut self, table: &FrameTable, range: PfnRange) {
        let mut at = range.start;
        while at < range.end {
            let fits = (range.end - at).ilog2();
            let order = Order(at.0.trailing_zeros().min(fits).min(u32::from(MAX_ORDER.0)) as u8);
            assert!(!in_free_block(table, at), "frame {at:?} is handed in twice");
            self.free(table, at, order);
            at += order.pages();
        }
    }

    /// Takes a block of 2^order frames; its head is marked `kind`.
    pub fn alloc(&mut self, table: &FrameTable, order: Order, kind: Kind) -> Option<Pfn> {
        let from = (order.0..=MAX_ORDER.0).find(|&o| self.heads[o as usize] != NONE)?;
        let pfn = table.pfn(self.heads[from as usize]);
        self.unlink(table, pfn, Order(from));
        // The upper halves of what is too large go back, largest first.
        for half in (order.0..from).rev().map(Order) {
            self.push(table, pfn + half.pages(), half);
        }
        self.free -= order.pages();
        table.get(pfn).set(kind, order);
        Some(pfn)
    }

    /// Gives back a block, merging it with its buddies. The caller has checked that it is not free already.
    pub fn free(&mut self, table: &FrameTable, pfn: Pfn, order: Order) {
        debug_assert!(
            pfn.0 & (order.pages() - 1) == 0,
            "block {pfn:?} is not aligned to order {}",
            order.0
        );
        self.free += order.pages();
        let (mut pfn, mut order) = (pfn, order);
        while order < MAX_ORDER {
            let buddy = Pfn(pfn.0 ^ order.pages());
            if !table
                .try_get(buddy)
                .is_some_and(|m| m.kind() == Kind::Free && m.order() == order)
            {
                break;
            }
            self.unlink(table, buddy, order);
            // Only the head of the merged block may look free.
            let tail = pfn.max(buddy);
            table.get(tail).set(Kind::Reserved, Order(0));
            pfn = pfn.min(buddy);
            order = Order(order.0 + 1);
        }
        self.push(table, pfn, order);
    }

    fn push(&mut self, table: &FrameTable, pfn: Pfn, order: Order) {
        let (index, head) = (table.index(pfn), self.heads[order.0 as usize]);
        let meta = table.get(pfn);
        meta.set(Kind::Free, order);
        meta.set_next(head);
        meta.set_prev(NONE);
        if head != NONE {
            table.get(table.pfn(head)).set_prev(index);
        }
        self.heads[order.0 as usize] = index;
        self.blocks[order.0 as usize] += 1;
    }

    fn unlink(&mut self, table: &FrameTable, pfn: Pfn, order: Order) {
        let meta: &FrameMeta = table.get(pfn);
        let (next, prev) = meta.links();
        if next != NONE {
            table.get(table.pfn(next)).set_prev(prev);
        }
        if prev != NONE {
            table.get(table.pfn(prev)).set_next(next);
        } else {
            self.heads[order.0 as usize] = next;
        }
        self.blocks[order.0 as usize] -= 1;
        meta.set(Kind::Reserved, Order(0));
    }

    /// Walks every list: links agree both ways, blocks are aligned, marked free and not mergeable, sums match.
    /// Panics with what is wrong.
    pub fn validate(&self, table: &FrameTable) {
        let mut sum = 0;
        for order in (0..=MAX_ORDER.0).map(Order) {
            let (mut at, mut before) = (self.heads[order.0 as usize], NONE);
            while at != NONE {
                let pfn = table.pfn(at);
                let meta = table.get(pfn);
                assert!(
                    meta.kind() == Kind::Free && meta.order() == order,
                    "{pfn:?} in list {} is {:?}",
                    order.0,
                    meta.kind()
                );
                assert!(
                    pfn.0 & (order.pages() - 1) == 0,
                    "{pfn:?} is not aligned to order {}",
                    order.0
                );
                let (next, prev) = meta.links();
                assert!(
                    prev == before,
                    "the list of order {} is broken at {pfn:?}",
                    order.0
                );
                let buddy = table.try_get(Pfn(pfn.0 ^ order.pages()));
                let mergeable = buddy.is_some_and(|b| b.kind() == Kind::Free && b.order() == order);
                assert!(
                    order == MAX_ORDER || !mergeable,
                    "{pfn:?} of order {} was not merged",
                    order.0
                );
                sum += order.pages();
                (before, at) = (at, next);
            }
        }
        assert!(
            sum == self.free,
            "{sum} frames are in the lists, {} are counted",
            self.free
        );
        let heads: u64 = table
            .iter()
            .filter(|(_, m)| m.kind() == Kind::Free)
            .map(|(_, m)| m.order().pages())
            .sum();
        assert!(
            heads == sum,
            "{heads} frames are marked free, {sum} are in the lists"
        );
    }
}
