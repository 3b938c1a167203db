//! The buddy allocator (Knuth, TAOCP 1, 2.5): free blocks of 2^order frames, naturally aligned, in
//! one list per order and mobility, linked by frame number through the frame table.
//!
//! Blocks below a pageblock's size are in the list of their pageblock's mobility; larger ones are
//! always movable.

use super::list::FrameList;
use super::meta::{FrameMeta, Kind, MAX_ORDER, ORDERS};
use super::pageblock::{Mobility, PAGEBLOCK, Pageblocks};
use super::pcp::Pieces;
use super::table::FrameTable;
use crate::addr::{Order, Pfn, PfnRange};

/// The lists of one mobility.
#[derive(Clone, Copy)]
pub(super) struct Lists {
    pub(super) free: [FrameList; ORDERS],
    /// Lengths of the lists.
    pub(super) blocks: [u64; ORDERS],
    /// One bit for each order whose list is not empty.
    pub(super) nonempty: u32,
}

/// The free lists. A value without a lock: [`super::zone::Zone`] has one around it.
pub struct Buddy {
    pub(super) lists: [Lists; Mobility::COUNT],
    pub(super) pageblocks: Pageblocks,
    pub(super) free: u64,
}

/// Whether a frame lies in a free block of whatever order.
fn in_free_block(table: &FrameTable, pfn: Pfn) -> bool {
    (0..=MAX_ORDER.0).map(Order).any(|order| {
        let head = Pfn(pfn.0 & !(order.pages() - 1));
        let free = |m: &FrameMeta| m.is_free() && m.order() >= order;
        table.near(head).is_some_and(free)
    })
}

/// The blocks of a range, each as large as alignment allows.
pub(super) fn largest_blocks(range: PfnRange) -> impl Iterator<Item = (Pfn, Order)> {
    let mut next = range.start;
    core::iter::from_fn(move || {
        let at = next;
        let fits = (range.end - at).checked_ilog2()?;
        let order = Order(at.0.trailing_zeros().min(fits).min(u32::from(MAX_ORDER.0)) as u8);
        next += order.pages();
        Some((at, order))
    })
}

impl Buddy {
    /// No frames at all; those that come will lie in `span`.
    pub fn new(span: PfnRange) -> Self {
        let none = Lists {
            free: [FrameList::EMPTY; ORDERS],
            blocks: [0; ORDERS],
            nonempty: 0,
        };
        Buddy {
            lists: [none; Mobility::COUNT],
            pageblocks: Pageblocks::new(span),
            free: 0,
        }
    }

    /// Free frames.
    #[inline]
    pub fn free_frames(&self) -> u64 {
        self.free
    }
    /// Whether a block of this order is free.
    pub fn has_block(&self, order: Order) -> bool {
        let has = |lists: &Lists| lists.nonempty >> order.0 != 0;
        self.lists.iter().any(has)
    }
    /// Free blocks by mobility and order.
    pub fn blocks(&self) -> [[u64; ORDERS]; Mobility::COUNT] {
        self.lists.map(|l| l.blocks)
    }
    /// What the pageblocks are for.
    pub fn pageblocks(&self) -> &Pageblocks {
        &self.pageblocks
    }

    /// Adds reserved frames, in blocks as large as alignment allows: a handful of steps for each
    /// GiB.
    pub fn add_range(&mut self, table: &FrameTable, range: PfnRange) {
        for (at, order) in largest_blocks(range) {
            assert!(!in_free_block(table, at), "frame {at:?} is handed in twice");
            self.free(table, at, order);
        }
    }

    /// Takes a block of 2^order frames for `kind`. Its head is marked
    /// [cached](FrameMeta::set_cached): the caller marks it once more, by the only store that makes
    /// it what it will be. As a private folio it could join the queue of deferred splits
    /// ([`super::FrameMeta::defer`]), and a second store would lose that.
    pub fn alloc(&mut self, table: &FrameTable, order: Order, kind: Kind) -> Option<Pfn> {
        let (pfn, _) = self.take(table, order, order, Mobility::of(kind))?;
        table.get(pfn).set_cached(order);
        Some(pfn)
    }

    /// Takes at least `enough` blocks of 2^order frames, fewer than twice as many, or all there
    /// are: in pieces as large as possible, so that the lists are touched once for each.
    pub(super) fn take_pieces(
        &mut self,
        table: &FrameTable,
        order: Order,
        mobility: Mobility,
        enough: usize,
        pieces: &mut Pieces,
    ) {
        let most = Order(order.0 + enough.max(1).ilog2() as u8).min(MAX_ORDER);
        let mut done = 0;
        while done < enough
            && let Some((pfn, got)) = self.take(table, order, most, mobility)
        {
            pieces.push((pfn, got));
            done += 1 << (got.0 - order.0);
        }
    }

    /// Takes a block of at least order `least`, the smallest there is, and puts back what exceeds
    /// order `most`.
    fn take(
        &mut self,
        table: &FrameTable,
        least: Order,
        most: Order,
        want: Mobility,
    ) -> Option<(Pfn, Order)> {
        let (pfn, found) = match self.smallest(table, least, want) {
            Some((pfn, order)) => {
                self.unlink(table, pfn, order, want);
                (pfn, order)
            }
            None => self.fall_back(table, least, want)?,
        };
        let order = found.min(most);
        if want == Mobility::Unmovable && found >= PAGEBLOCK {
            self.pageblocks.set(pfn, order, want);
        }
        // The upper halves of what is too large go back, largest first.
        for half in (order.0..found.0).rev().map(Order) {
            let upper = pfn + half.pages();
            self.push(table, upper, half, self.home(upper, half));
        }
        self.free -= order.pages();
        self.pageblocks.taken(pfn, order, found);
        Some((pfn, order))
    }

    /// Gives back a block, merging it with its buddies. The caller has checked that it is not free
    /// already.
    pub fn free(&mut self, table: &FrameTable, pfn: Pfn, order: Order) {
        debug_assert!(
            pfn.0 & (order.pages() - 1) == 0,
            "block {pfn:?} is not aligned to order {}",
            order.0
        );
        self.free += order.pages();
        if order >= PAGEBLOCK {
            self.pageblocks.set(pfn, order, Mobility::Movable);
        }
        let freed = (pfn, order);
        let (mut pfn, mut order, mut home) = (pfn, order, self.home(pfn, order));
        while order < MAX_ORDER {
            let buddy = Pfn(pfn.0 ^ order.pages());
            if !table.near(buddy).is_some_and(|m| m.is(Kind::Free, order)) {
                break;
            }
            self.unlink(table, buddy, order, home);
            // Only the head of the merged block may look free.
            table.get(pfn.max(buddy)).set(Kind::Reserved, Order(0));
            pfn = pfn.min(buddy);
            order = Order(order.0 + 1);
            if order == PAGEBLOCK {
                home = Mobility::Movable;
                self.pageblocks.set(pfn, order, home);
            }
        }
        self.push(table, pfn, order, home);
        self.pageblocks.freed(freed.0, freed.1, order);
    }

    /// Gives back blocks of 2^order frames. What lies side by side goes in pieces as large as
    /// possible, as `take_pieces` took it: the lists are touched once for each piece.
    pub(super) fn free_many(
        &mut self,
        table: &FrameTable,
        order: Order,
        blocks: impl Iterator<Item = Pfn>,
    ) {
        let mut blocks = blocks.peekable();
        while let Some(start) = blocks.next() {
            if blocks.peek().is_none() {
                return self.free(table, start, order);
            }
            let mut run = PfnRange::new(start, start + order.pages());
            while blocks.next_if_eq(&run.end).is_some() {
                // Only the head of a piece may look free.
                table.get(run.end).set(Kind::Reserved, Order(0));
                run.end += order.pages();
            }
            largest_blocks(run).for_each(|(at, order)| self.free(table, at, order));
        }
    }
    /// The list that a free block belongs to.
    #[inline]
    pub(super) fn home(&self, pfn: Pfn, order: Order) -> Mobility {
        if order >= PAGEBLOCK {
            Mobility::Movable
        } else {
            self.pageblocks.of(pfn)
        }
    }
    /// The first block of a list that is not empty.
    pub(super) fn head(&self, table: &FrameTable, order: Order, of: Mobility) -> Pfn {
        let list = self.lists[of as usize].free[order.0 as usize];
        list.first(table)
            .expect("a list that is marked as not empty")
    }
    /// The first block of the lowest list from `least` on that is not empty.
    #[inline]
    pub(super) fn smallest(
        &self,
        table: &FrameTable,
        least: Order,
        of: Mobility,
    ) -> Option<(Pfn, Order)> {
        let fits = self.lists[of as usize].nonempty >> least.0 << least.0;
        let order = Order(fits.trailing_zeros() as u8);
        (fits != 0).then(|| (self.head(table, order, of), order))
    }

    /// Puts a free block in a list.
    #[inline]
    pub(super) fn push(&mut self, table: &FrameTable, pfn: Pfn, order: Order, home: Mobility) {
        table.get(pfn).set(Kind::Free, order);
        let lists = &mut self.lists[home as usize];
        lists.free[order.0 as usize].push(table, pfn);
        lists.blocks[order.0 as usize] += 1;
        lists.nonempty |= 1 << order.0;
    }

    /// Takes a block out of its list.
    #[inline]
    pub(super) fn unlink(&mut self, table: &FrameTable, pfn: Pfn, order: Order, home: Mobility) {
        let lists = &mut self.lists[home as usize];
        lists.free[order.0 as usize].remove(table, pfn);
        lists.blocks[order.0 as usize] -= 1;
        if lists.free[order.0 as usize].is_empty() {
            lists.nonempty &= !(1 << order.0);
        }
        table.get(pfn).set(Kind::Reserved, Order(0));
    }
}
