//! The one zone: the buddy allocator under its lock, counts by use, and a reserve that user memory may not touch.

use super::buddy::Buddy;
use super::meta::{FrameTable, Kind};
use crate::addr::{Order, Pfn, PfnRange};
use crate::sync::{Lock, rank};

/// Who asks for frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum For {
    /// User memory and its page tables: leaves the reserve alone.
    User,
    /// The kernel itself: may take the last frame.
    Kernel,
}

struct Inner {
    buddy: Buddy,
    used: [u64; Kind::COUNT],
    total: u64,
    reserve: u64,
    /// Allocations that still succeed before one fails on purpose; `u64::MAX` for "never".
    fail_in: u64,
}

/// Frames that may be handed out.
pub struct Zone(Lock<Inner, { rank::ZONE }>);

impl Zone {
    /// A zone of the frames in `free`.
    pub fn new(table: &FrameTable, free: &[PfnRange]) -> Self {
        let mut buddy = Buddy::new();
        for range in free {
            buddy.add_range(table, *range);
        }
        let total = buddy.free_frames();
        // 1/256 of memory, at most 4 MiB: enough for the heap to grow and the kernel to clean up when users took the rest.
        let reserve = (total / 256).min(1024);
        Zone(Lock::new(Inner {
            buddy,
            used: [0; Kind::COUNT],
            total,
            reserve,
            fail_in: u64::MAX,
        }))
    }

    /// Takes 2^order frames with one reference; `None` when there are none (for `who`).
    pub fn alloc(&self, table: &FrameTable, order: Order, kind: Kind, who: For) -> Option<Pfn> {
        let mut zone = self.0.lock();
        if zone.fail_in != u64::MAX {
            if zone.fail_in == 0 {
                return None;
            }
            zone.fail_in -= 1;
        }
        if who == For::User && zone.buddy.free_frames() < order.pages() + zone.reserve {
            return None;
        }
        let pfn = zone.buddy.alloc(table, order, kind)?;
        zone.used[kind as usize] += order.pages();
        table.get(pfn).set_refs(1);
        Some(pfn)
    }

    /// Gives back blocks whose last reference is gone. Panics on a frame that is free or was never handed out.
    pub fn free(&self, table: &FrameTable, blocks: &[Pfn]) {
        let mut zone = self.0.lock();
        for &pfn in blocks {
            let meta = table.get(pfn);
            let (kind, order) = (meta.kind(), meta.order());
            assert!(
                !matches!(kind, Kind::Free | Kind::Reserved),
                "double free of {pfn:?} ({kind:?})"
            );
            debug_assert!(
                meta.refs() == 0,
                "{pfn:?} is freed with {} references",
                meta.refs()
            );
            zone.used[kind as usize] -= order.pages();
            zone.buddy.free(table, pfn, order);
        }
    }

    /// Frames by use: (total, free, used by [`Kind`]).
    pub fn counts(&self) -> (u64, u64, [u64; Kind::COUNT]) {
        let zone = self.0.lock();
        (zone.total, zone.buddy.free_frames(), zone.used)
    }

    /// Free blocks of each order.
    pub fn free_blocks(&self) -> [u64; super::buddy::ORDERS] {
        self.0.lock().buddy.blocks()
    }

    /// Lets `n` more allocations succeed and makes all after them fail, until it is called again; `None`: none fails.
    pub fn fail_after(&self, n: Option<u64>) {
        self.0.lock().fail_in = n.unwrap_or(u64::MAX);
    }

    /// [`Buddy::validate`], and that every frame is either free or counted as used.
    pub fn validate(&self, table: &FrameTable) {
        let zone = self.0.lock();
        zone.buddy.validate(table);
        let mut used = [0; Kind::COUNT];
        for (_, meta) in table
            .iter()
            .filter(|(_, m)| !matches!(m.kind(), Kind::Free | Kind::Reserved))
        {
            used[meta.kind() as usize] += meta.order().pages();
        }
        assert!(
            used == zone.used,
            "frames in use by kind: counted {:?}, marked {used:?}",
            zone.used
        );
        let sum = used.iter().sum::<u64>() + zone.buddy.free_frames();
        assert!(
            sum == zone.total,
            "{sum} frames are free or used, {} exist",
            zone.total
        );
    }
}
