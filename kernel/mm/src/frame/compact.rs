//! What compaction asks of the page allocator: which pageblock to empty and which to fill, and the
//! free frames of one, out of the reach of others.
//!
//! ```text
//!  the emptiest movable pageblock      the fullest one that has a free frame
//!  [x . . . x . . . . . x . . . . .]   [x x x x . x x x x x x x x x x x]
//!   free: taken and held                free: taken, as many as are to be moved
//! ```

use super::allocator::Allocator;
use super::buddy::{Buddy, largest_blocks};
use super::meta::Kind;
use super::pageblock::{Mobility, PAGEBLOCK};
use super::pcp::add;
use super::steal::blocks_in;
use super::table::FrameTable;
use super::zone::Zone;
use crate::addr::{Order, Pfn, PfnRange};

/// How many pageblocks are tried at most for who lacks a block.
pub const TRIES: u32 = 16;
/// So many frames are to be freed after compaction in vain before it is tried again.
pub const DEFERRED_FOR: u64 = 4 * PAGEBLOCK.pages();
/// The frames of a pageblock.
const FRAMES: usize = PAGEBLOCK.pages() as usize;

/// Frames of one pageblock that nobody else can get: the kernel's, by the allocator's figures.
pub struct Held {
    start: Pfn,
    /// A bit for each frame.
    frames: [u64; FRAMES / 64],
}

impl Held {
    /// None so far of the pageblock at `start`.
    pub fn of(start: Pfn) -> Self {
        Held {
            start,
            frames: [0; FRAMES / 64],
        }
    }
    /// The pageblock's first frame.
    pub fn start(&self) -> Pfn {
        self.start
    }
    /// Whether all of it is held.
    pub fn is_whole(&self) -> bool {
        self.frames == [!0; FRAMES / 64]
    }
    fn has(&self, n: u64) -> bool {
        self.frames[n as usize / 64] >> (n % 64) & 1 != 0
    }
    /// The first frame from `n` on that is not held; the number of frames if all are.
    pub fn next_other(&self, n: u64) -> u64 {
        (n..FRAMES as u64)
            .find(|n| !self.has(*n))
            .unwrap_or(FRAMES as u64)
    }
    fn put(&mut self, head: Pfn, order: Order) {
        let first = head - self.start;
        for n in first..first + order.pages() {
            self.frames[n as usize / 64] |= 1 << (n % 64);
        }
    }
    /// The frames in rows.
    fn rows(&self) -> impl Iterator<Item = PfnRange> {
        let mut next = 0;
        core::iter::from_fn(move || {
            let first = (next..FRAMES as u64).find(|n| self.has(*n))?;
            next = self.next_other(first);
            Some(PfnRange::new(self.start + first, self.start + next))
        })
    }
}

impl Buddy {
    /// Takes free blocks of the pageblock at `start` out of the lists, `most` frames at most, and
    /// calls `f` with each.
    fn isolate(
        &mut self,
        table: &FrameTable,
        start: Pfn,
        most: u64,
        f: &mut dyn FnMut(Pfn, Order),
    ) {
        let home = self.pageblocks.of(start);
        let mut left = most;
        for (pfn, meta) in blocks_in(table, start) {
            if left == 0 {
                break;
            }
            if !meta.is_free() {
                continue;
            }
            let whole = meta.order();
            let order = whole.min(Order(left.ilog2() as u8));
            self.unlink(table, pfn, whole, home);
            for half in (order.0..whole.0).map(Order) {
                self.push(table, pfn + half.pages(), half, home);
            }
            self.free -= order.pages();
            self.pageblocks.taken(pfn, order, whole);
            left -= order.pages();
            table.get(pfn).set_cached(order);
            f(pfn, order);
        }
    }
}

impl Zone {
    /// Whether a pageblock can be emptied without making memory tight.
    pub fn may_compact(&self) -> bool {
        self.free_frames() >= self.marks().high + PAGEBLOCK.pages()
    }
    /// The movable pageblock with the most free frames, of those of which nothing is known that
    /// stays. `None`: there is none for whose pages the others have room.
    pub fn emptiest(&self) -> Option<Pfn> {
        self.look(|buddy| {
            let blocks = || buddy.pageblocks.partly_free();
            let goes = blocks().filter(|(start, _, goes)| *goes && self.has_whole(*start));
            let (start, ..) = goes.max_by_key(|(_, free, _)| *free)?;
            let all = blocks().map(|(_, free, _)| u64::from(free)).sum::<u64>();
            // The others' is all but its own, and its pages are all but what is free.
            (all >= PAGEBLOCK.pages()).then_some(start)
        })
    }
    fn has_whole(&self, start: Pfn) -> bool {
        let block = PfnRange::new(start, start + PAGEBLOCK.pages());
        self.span.covers(&block)
    }
    /// Something in the pageblock stays.
    pub fn note_stays(&self, start: Pfn) {
        self.buddy.lock().pageblocks.set_stays(start);
    }
    /// What is known of that is forgotten.
    pub fn forget_stays(&self) {
        self.buddy.lock().pageblocks.forget_stays();
    }
}

impl Allocator {
    /// Holds what is free of a pageblock of this zone, too, if it is movable.
    pub fn hold_free(&self, cpu: usize, zone: &Zone, held: &mut Held) {
        let mut buddy = zone.buddy.lock();
        if buddy.pageblocks.of(held.start) == Mobility::Movable {
            let start = held.start;
            buddy.isolate(&self.table, start, FRAMES as u64, &mut |pfn, order| {
                self.take_for(cpu, pfn, order, Kind::Kernel);
                held.put(pfn, order);
            });
        }
        zone.note(&buddy);
    }
    /// Holds a block in use of the pageblock, too, to which nobody has a reference.
    pub fn hold_used(&self, cpu: usize, held: &mut Held, pfn: Pfn, kind: Kind, order: Order) {
        self.make_other(cpu, pfn, order, kind, Kind::Kernel);
        held.put(pfn, order);
    }
    /// Gives the frames back.
    pub fn let_go(&self, cpu: usize, held: &Held) {
        for row in held.rows() {
            add(&self.cpus[cpu].freed[Kind::Kernel as usize], row.len());
            for n in 0..row.len() {
                let meta = self.table.get(row.start + n);
                meta.set(Kind::Reserved, Order(0));
                meta.set_refs(0);
            }
            for (pfn, order) in largest_blocks(row) {
                self.table.get(pfn).set_cached(order);
                self.give(order, core::iter::once(self.table.index(pfn)));
            }
        }
    }

    /// Takes up to `most` free frames of the fullest movable pageblocks, and calls `f` with each,
    /// which has one reference.
    pub fn fill_up(&self, cpu: usize, zone: &Zone, most: u64, f: &mut dyn FnMut(Pfn)) {
        let (mut buddy, mut left) = (zone.buddy.lock(), most);
        while left != 0
            && let Some(start) = buddy.pageblocks.fullest()
        {
            buddy.isolate(&self.table, start, left, &mut |pfn, order| {
                left -= order.pages();
                for page in (0..order.pages()).map(|n| pfn + n) {
                    self.take_for(cpu, page, Order(0), Kind::Anon);
                    f(page);
                }
            });
        }
        zone.note(&buddy);
    }
    /// Takes a free block of this order, below a pageblock's, of a pageblock that is free in part,
    /// with one reference.
    pub fn fill_up_with(&self, cpu: usize, zone: &Zone, order: Order) -> Option<Pfn> {
        let mut buddy = zone.buddy.lock();
        let (_, smallest) = buddy.smallest(&self.table, order, Mobility::Movable)?;
        let block = (smallest < PAGEBLOCK).then(|| buddy.alloc(&self.table, order, Kind::Anon));
        zone.note(&buddy);
        let block = block??;
        self.take_for(cpu, block, order, Kind::Anon);
        Some(block)
    }

    fn take_for(&self, cpu: usize, pfn: Pfn, order: Order, kind: Kind) {
        add(&self.cpus[cpu].allocated[kind as usize], order.pages());
        let meta = self.table.get(pfn);
        meta.set(kind, order);
        meta.set_refs(1);
    }
}
