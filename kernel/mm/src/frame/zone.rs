//! A zone: a range of physical memory with its buddy allocator under a lock, and the watermarks
//! that keep a reserve.

use super::buddy::Buddy;
use super::meta::Kind;
use super::pageblock::Mobility;
use super::pcp::Pieces;
use super::table::FrameTable;
use crate::addr::{Order, Pfn, PfnRange};
use crate::sync::{AtomicBool, AtomicU64, Lock, Ordering, rank};

/// How far into the reserve of free frames an allocation may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reserve {
    /// User memory and its page tables: leaves the reserve alone.
    User,
    /// Page tables and copies needed to give memory back, when a part of a folio or table goes: may
    /// take a quarter of the reserve. The verb fails when that is used up, and may be repeated once
    /// there is memory.
    GivingBack,
    /// User memory for a fault that cannot wait for free memory, and page tables for what is
    /// reclaimed: leaves half of the reserve alone.
    Urgent,
    /// The kernel itself: may take the last frame.
    Kernel,
}

/// The parameters of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocRequest {
    /// The CPU that runs.
    pub cpu: usize,
    /// log2 of the frames.
    pub order: Order,
    /// What they are for.
    pub kind: Kind,
    /// How far into the reserve it may go.
    pub reserve: Reserve,
}

/// Watermarks, in free frames of the zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// User allocations leave that much for the kernel.
    pub min: u64,
    /// Memory is tight below.
    pub low: u64,
    /// Memory is not tight any more above.
    pub high: u64,
}

impl Marks {
    /// The lowest for a zone of `managed` frames, at boot. As Linux's min_free_kbytes it is the
    /// square root of 16 times its size in kB, at most 4 MiB: enough for the heap to grow and the
    /// kernel to clean up when users took the rest. Below 16 MiB, where that would be a large part,
    /// it is 1/256.
    fn lowest(managed: u64) -> u64 {
        match managed {
            0..4096 => managed / 256,
            _ => (2 * managed.isqrt()).min(1024),
        }
    }
    /// Those above the lowest. The distances are Linux's, too: a quarter and a half more.
    fn above(min: u64) -> Marks {
        Marks {
            min,
            low: min + min / 4,
            high: min + min / 2,
        }
    }
}

/// A range of physical memory.
pub struct Zone {
    /// Linux's name for it.
    pub name: &'static str,
    /// The frames between its first and its last, holes included.
    pub span: PfnRange,
    /// The frames it was given.
    pub managed: u64,
    /// The lowest watermark ([`Zone::marks`]).
    min: AtomicU64,
    /// Free frames fell below the low mark and did not yet rise above the high one.
    tight: AtomicBool,
    /// Free frames of the buddy lists, for readers without the lock.
    free: AtomicU64,
    pub(super) buddy: Lock<Buddy, { rank::ZONE }>,
}

impl Zone {
    /// The zone `span`, with the frames in `free` that lie in it.
    pub fn new(name: &'static str, span: PfnRange, table: &FrameTable, free: &[PfnRange]) -> Self {
        let mut buddy = Buddy::new(span);
        free.iter()
            .filter_map(|range| range.intersection(&span))
            .for_each(|range| buddy.add_range(table, range));
        let managed = buddy.free_frames();
        Zone {
            name,
            span,
            managed,
            min: AtomicU64::new(Marks::lowest(managed)),
            tight: AtomicBool::new(false),
            free: AtomicU64::new(managed),
            buddy: Lock::new(buddy),
        }
    }

    /// The watermarks.
    #[inline]
    pub fn marks(&self) -> Marks {
        // Relaxed: a number that stands for itself.
        Marks::above(self.min.load(Ordering::Relaxed))
    }
    /// Changes them: `min` is the lowest, in frames.
    pub(super) fn set_min(&self, min: u64) {
        let buddy = self.buddy.lock();
        self.min.store(min, Ordering::Relaxed);
        self.note(&buddy);
    }

    /// Whether free memory fell below the low mark and is not yet above the high one.
    #[inline]
    pub fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Relaxed)
    }
    /// Free frames that user memory may take.
    pub fn for_users(&self) -> u64 {
        self.available(&self.buddy.lock(), Reserve::User)
    }
    /// Whether they can have a block of this order.
    pub fn has_block(&self, order: Order) -> bool {
        let buddy = self.buddy.lock();
        self.available(&buddy, Reserve::User) >= order.pages() && buddy.has_block(order)
    }
    /// Free frames, without the lock: as of a moment ago, where other CPUs allocate and free.
    pub fn free_frames(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }
    /// Calls `f` with the free lists, under the lock.
    pub fn look<R>(&self, f: impl FnOnce(&Buddy) -> R) -> R {
        f(&self.buddy.lock())
    }

    /// Takes a block ([`Buddy::alloc`]); `None` when there is none so far into the reserve.
    pub(super) fn alloc(&self, table: &FrameTable, request: AllocRequest) -> Option<Pfn> {
        let mut buddy = self.buddy.lock();
        if self.available(&buddy, request.reserve) < request.order.pages() {
            return None;
        }
        let pfn = buddy.alloc(table, request.order, request.kind);
        self.note(&buddy);
        pfn
    }
    /// Takes pieces of at most `most` blocks like the one requested, for a CPU's list to cut: at
    /// least half of `most`, if there are as many. The reserve gives one block, not a batch that
    /// users could take afterwards.
    pub(super) fn take_pieces(
        &self,
        table: &FrameTable,
        request: AllocRequest,
        most: usize,
        pieces: &mut Pieces,
    ) {
        let mut buddy = self.buddy.lock();
        let wanted = self.wanted(&buddy, request, most);
        let mobility = Mobility::of(request.kind);
        // All after one that is cut to fit would be small ones: there is room for the last whole.
        buddy.take_pieces(table, request.order, mobility, wanted.div_ceil(2), pieces);
        self.note(&buddy);
    }
    /// How many blocks like the one requested a CPU's list may have, of at most `most`.
    #[inline]
    pub(super) fn wanted(&self, buddy: &Buddy, request: AllocRequest, most: usize) -> usize {
        let AllocRequest { order, reserve, .. } = request;
        let users = self.available(buddy, Reserve::User) >> order.0;
        let least =
            u64::from(reserve != Reserve::User && self.available(buddy, reserve) >> order.0 > 0);
        users.max(least).min(most as u64) as usize
    }
    /// Gives back blocks of 2^order frames, by their indices in the table.
    pub(super) fn free(&self, table: &FrameTable, order: Order, blocks: impl Iterator<Item = u32>) {
        let mut buddy = self.buddy.lock();
        buddy.free_many(table, order, blocks.map(|index| table.pfn(index)));
        self.note(&buddy);
    }

    /// Free frames that `reserve` may take.
    #[inline]
    fn available(&self, buddy: &Buddy, reserve: Reserve) -> u64 {
        let min = self.marks().min;
        let kept = match reserve {
            Reserve::User => min,
            Reserve::GivingBack => min - min / 4,
            Reserve::Urgent => min / 2,
            Reserve::Kernel => 0,
        };
        buddy.free_frames().saturating_sub(kept)
    }
    /// Notes how many frames are free, and whether memory is tight. Relaxed: hints, changed under
    /// the lock.
    #[inline]
    pub(super) fn note(&self, buddy: &Buddy) {
        self.free.store(buddy.free_frames(), Ordering::Relaxed);
        let marks = self.marks();
        let mark = if self.is_tight() {
            marks.high
        } else {
            marks.low
        };
        self.tight
            .store(buddy.free_frames() < mark, Ordering::Relaxed);
    }
}
