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

/// The mobility of each pageblock of a range of frames: one bit each, set for unmovable.
pub struct Pageblocks {
    first: u64,
    count: u64,
    unmovable: Box<[u64]>,
}

fn number(pfn: Pfn) -> u64 {
    pfn.0 >> PAGEBLOCK.0
}

impl Pageblocks {
    /// The pageblocks that `span` touches, all movable.
    pub fn new(span: PfnRange) -> Self {
        let first = number(span.start);
        let count = span.end.0.div_ceil(PAGEBLOCK.pages()) - first;
        Pageblocks {
            first,
            count,
            unmovable: (0..count.div_ceil(64)).map(|_| 0).collect(),
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
    /// The number of pageblocks by mobility.
    pub fn counts(&self) -> [u64; Mobility::COUNT] {
        let unmovable = self.unmovable.iter().map(|w| u64::from(w.count_ones()));
        let unmovable = unmovable.sum::<u64>();
        [self.count - unmovable, unmovable]
    }
}
