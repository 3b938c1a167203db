//! Pageblocks of 2 MiB, each for memory that could be moved or for memory that could not, so that
//! page tables and the kernel's own frames do not scatter: a pageblock with one of them in it
//! cannot become free as a whole.
//!
//! A pageblock that is free as a whole is movable. It becomes unmovable when the kernel needs
//! frames and its other pageblocks are full, and movable again when the last frame in it is freed;
//! one with a hole in it stays what it is.

use super::meta::Kind;
use crate::addr::{Order, Pfn, PfnRange};
use alloc::boxed::Box;

/// A pageblock is what one entry of a PMD table maps (Linux: pageblock_order).
pub const PAGEBLOCK: Order = Order(9);

/// Whether memory could be moved elsewhere (Linux: migrate type).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mobility {
    /// User memory: reached only through page tables, which could be made to point elsewhere.
    Movable = 0,
    /// The kernel's own and page tables: reached by address.
    Unmovable = 1,
}

impl Mobility {
    /// The number of values.
    pub const COUNT: usize = 2;
    /// All values.
    pub const ALL: [Mobility; Self::COUNT] = [Mobility::Movable, Mobility::Unmovable];

    /// The mobility of memory of a kind.
    #[inline]
    pub const fn of(kind: Kind) -> Mobility {
        match kind {
            Kind::Anon | Kind::Object | Kind::Hugetlb => Mobility::Movable,
            _ => Mobility::Unmovable,
        }
    }
    /// Linux's name in /proc/pagetypeinfo.
    pub const fn name(self) -> &'static str {
        match self {
            Mobility::Movable => "Movable",
            Mobility::Unmovable => "Unmovable",
        }
    }
}

/// The pageblocks of a range of frames.
pub struct Pageblocks {
    first: u64,
    count: u64,
    /// A bit for each: whether it is unmovable.
    unmovable: Box<[u64]>,
    /// A bit for each: whether compaction has found something in it that stays.
    stays: Box<[u64]>,
    /// Frames of each in free blocks below its size.
    free: Box<[u16]>,
}

/// The bytes of heap, at most, for the pageblocks of so many frames.
pub fn bytes(frames: u64) -> usize {
    let blocks = frames.div_ceil(PAGEBLOCK.pages()) as usize;
    blocks * size_of::<u16>() + blocks.div_ceil(64) * 2 * size_of::<u64>()
}

fn number(pfn: Pfn) -> u64 {
    pfn.0 >> PAGEBLOCK.0
}

impl Pageblocks {
    /// The pageblocks that `span` touches, all movable.
    pub fn new(span: PfnRange) -> Self {
        let first = number(span.start);
        let count = span.end.0.div_ceil(PAGEBLOCK.pages()) - first;
        let bits = || (0..count.div_ceil(64)).map(|_| 0).collect();
        Pageblocks {
            first,
            count,
            unmovable: bits(),
            stays: bits(),
            free: (0..count).map(|_| 0).collect(),
        }
    }

    fn place(&self, pfn: Pfn) -> (usize, u64) {
        let at = number(pfn) - self.first;
        ((at / 64) as usize, 1 << (at % 64))
    }
    /// The mobility of the pageblock of a frame.
    #[inline]
    pub fn of(&self, pfn: Pfn) -> Mobility {
        let (word, bit) = self.place(pfn);
        if self.unmovable[word] & bit == 0 {
            Mobility::Movable
        } else {
            Mobility::Unmovable
        }
    }
    /// Sets the mobility of the pageblocks that a block of `order` touches.
    pub fn set(&mut self, pfn: Pfn, order: Order, mobility: Mobility) {
        for n in 0..order.pages().div_ceil(PAGEBLOCK.pages()) {
            let (word, bit) = self.place(pfn + n * PAGEBLOCK.pages());
            match mobility {
                Mobility::Movable => self.unmovable[word] &= !bit,
                Mobility::Unmovable => self.unmovable[word] |= bit,
            }
        }
    }
    /// A block of order `taken` was taken out of a free one of order `found`; what is left of that
    /// is free.
    #[inline]
    pub(super) fn taken(&mut self, pfn: Pfn, taken: Order, found: Order) {
        if taken < PAGEBLOCK {
            // Of a larger block nothing was counted.
            let before = if found < PAGEBLOCK {
                0
            } else {
                PAGEBLOCK.pages()
            };
            let free = self.free_at(pfn);
            *free = free.wrapping_add((before.wrapping_sub(taken.pages())) as u16);
        }
    }
    /// A block of order `freed` is free, and by that one of order `merged`.
    #[inline]
    pub(super) fn freed(&mut self, pfn: Pfn, freed: Order, merged: Order) {
        if freed < PAGEBLOCK {
            let free = self.free_at(pfn);
            *free = match merged < PAGEBLOCK {
                true => free.wrapping_add(freed.pages() as u16),
                false => 0,
            };
        }
    }
    #[inline]
    fn free_at(&mut self, pfn: Pfn) -> &mut u16 {
        &mut self.free[(number(pfn) - self.first) as usize]
    }
    /// Notes whether something in the pageblock stays.
    pub(super) fn set_stays(&mut self, pfn: Pfn) {
        let (word, bit) = self.place(pfn);
        self.stays[word] |= bit;
    }
    /// All are looked at again.
    pub(super) fn forget_stays(&mut self) {
        self.stays.fill(0);
    }
    /// The movable pageblocks that are free in part: the first frame of each, how many of its
    /// frames are, and whether nothing is known that stays.
    pub(super) fn partly_free(&self) -> impl Iterator<Item = (Pfn, u16, bool)> {
        let set = |bits: &[u64], at: usize| bits[at / 64] >> (at % 64) & 1 != 0;
        let free = self.free.iter().enumerate();
        free.filter(move |(at, free)| **free != 0 && !set(&self.unmovable, *at))
            .map(move |(at, free)| {
                let pfn = Pfn((self.first + at as u64) << PAGEBLOCK.0);
                (pfn, *free, !set(&self.stays, at))
            })
    }
    /// The one of them with the fewest free frames.
    pub(super) fn fullest(&self) -> Option<Pfn> {
        let blocks = self.partly_free();
        let (start, ..) = blocks.min_by_key(|(_, free, _)| *free)?;
        Some(start)
    }
    /// The number of pageblocks by mobility.
    pub fn counts(&self) -> [u64; Mobility::COUNT] {
        let unmovable = self.unmovable.iter().map(|w| u64::from(w.count_ones()));
        let unmovable = unmovable.sum::<u64>();
        [self.count - unmovable, unmovable]
    }
}
