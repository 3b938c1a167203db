//! The scheme of David Hildenbrand's series "mm: precise 'mapped shared' vs. 'mapped exclusively'
//! detection" (November 2023), kept for comparison: a reference count, a total mapcount, 1 to 6
//! values, and an atomic seqcount over the last two.
//!
//! # Sub-ids
//! For a folio of up to P pages let B = P + 1. Some bits b_0, b_1, .. of an id give the sub-id
//! ```text
//!     s(id) = b_0 + b_1 * B + b_2 * B^2 + ..
//! ```
//! that is, the bits read as digits to the base B. A value is the sum of the sub-ids of all
//! mappings. With at most P mappings no digit of that sum reaches B, so digit i says how many
//! mappings have bit i. The value is `mapcount * s(id)` exactly if that is `mapcount` where the id
//! has a 1, and 0 where it has a 0: every mapping has the id's bits. One value holds the bits for
//! which B^bits <= 2^64; more bits take more values, and all of them must agree.
//!
//! | orders | B | bits of a value | values |
//! |---|---|---|---|
//! | 1, 2 | 5 | 24 | 1 |
//! | 3..=5 | 33 | 12 | 2 |
//! | 6..=9 | 513 | 7 | 3 |
//! | 10 | 1025 | 6 | 4 |
//! | 11, 12 | 4097 | 5 | 5 |
//! | 13..=15 | 32769 | 4 | 6 |
//!
//! The series has 24 bits of ids, and for orders 6..=9 it takes 8 of them to a value. But 513^8 is
//! more than 2^64, sums wrap, and since 2 * (513 - 1)^7 = 2^64, some of them collide:
//! `tests/own_seed.rs` shows five address spaces for which that form answers wrongly. Here it is 7
//! bits, which is enough for the 15 that ids have in this kernel.
//!
//! # Where it stands
//! Head, first word: the references; second word: the seqcount. Part 1, first word: the total
//! mapcount; then the values, two to a part. Order 0 has only a plain count.
//!
//! # Many CPUs
//! Mapcount and values change in sections of the [`Seqcount`], so a reader sees a moment of both.
//! The references are counted before a section that adds, and dropped after one that subtracts: at
//! each moment there are at least as many as the mapcount says plus the plain ones. A reader that
//! finds them equal between its two looks at the seqcount has met a moment without plain
//! references.
//!
//! # Its stages
//! The series measures itself in stages; the switches make them again (`docs/ownership.md` has the
//! table): `subids=lookup` has at least 4 values (from order 2 on), looked up in tables of up to 64
//! sub-ids; `stored` takes 1, 2 or 3 where they do, worked out once for each address space.
//! `writer=exclusive` updates without read-modify-writes while no other writer is there, `seq=add`
//! finds that out by an add, not by a compare-exchange.

use crate::count::references;
use crate::counted::Counted;
use crate::pages::{self, By, Part, Writer};
use crate::seqcount::{Entry, Seqcount};
use crate::sync::{AtomicU64, Ordering};
use crate::{Book, MmId, Order, Owner, sums};

/// The scheme and its settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digits {
    /// 1, 2 or 3 values where they are enough, their sub-ids from [`Owner`]; else at least 4 from
    /// order 2 on, looked up.
    pub stored: bool,
    /// A writer that is the only one updates with plain loads and stores.
    pub exclusive: bool,
    /// It finds that out by an add, not by a compare-exchange.
    pub add: bool,
    /// Mappings of single pages are counted, too, in the same sections.
    pub pages: bool,
}

/// What becomes of the counts of single pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    Stay,
    Come,
    Go,
}

impl Default for Digits {
    /// All the stages.
    fn default() -> Self {
        Digits {
            stored: true,
            exclusive: true,
            add: true,
            pages: false,
        }
    }
}

/// How the values of an order are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    values: usize,
    /// Bits of an id in each value.
    bits: u32,
    base: u64,
}

const fn shape(values: usize, bits: u32, base: u64) -> Shape {
    // The largest sum, base^bits - 1, fits.
    assert!((base as u128).pow(bits) <= 1 << 64);
    assert!(values as u32 * bits >= MmId::BITS);
    Shape { values, bits, base }
}

const SHAPES: [Shape; 6] = [
    shape(1, 24, 5),
    shape(2, 12, 33),
    shape(3, 7, 513),
    shape(4, 6, 1025),
    shape(5, 5, 4097),
    shape(6, 4, 32769),
];

impl Shape {
    /// Value `i`'s bits of an id.
    #[inline]
    const fn part(&self, id: u16, i: usize) -> usize {
        (id as usize) >> (i as u32 * self.bits) & ((1 << self.bits) - 1)
    }
    /// The bits read as digits to the base.
    const fn spread(&self, bits: usize) -> u64 {
        let (mut sum, mut place, mut left) = (0, 1u64, bits);
        while left != 0 {
            if left & 1 != 0 {
                sum += place;
            }
            left >>= 1;
            place = place.wrapping_mul(self.base);
        }
        sum
    }
    const fn table<const N: usize>(&self) -> [u64; N] {
        let mut table = [0; N];
        let mut bits = 0;
        while bits < N {
            table[bits] = self.spread(bits);
            bits += 1;
        }
        table
    }
}

/// The sub-ids of an id for 1, 2 and 3 values.
pub(crate) type Stored = [[u64; 3]; 3];

/// Works them out.
pub(crate) const fn stored(id: u16) -> Stored {
    let mut all = [[0; 3]; 3];
    let mut row = 0;
    while row < 3 {
        let mut i = 0;
        while i <= row {
            all[row][i] = SHAPES[row].spread(SHAPES[row].part(id, i));
            i += 1;
        }
        row += 1;
    }
    all
}

static OF_6_BITS: [u64; 64] = SHAPES[3].table();
static OF_5_BITS: [u64; 32] = SHAPES[4].table();
static OF_4_BITS: [u64; 16] = SHAPES[5].table();

/// Sub-id `i` of an owner.
#[inline]
fn subid(shape: &Shape, who: &Owner, i: usize) -> u64 {
    let bits = shape.part(who.id, i);
    match shape.values {
        row @ 1..=3 => who.subids[row - 1][i],
        4 => OF_6_BITS[bits],
        5 => OF_5_BITS[bits],
        _ => OF_4_BITS[bits],
    }
}

#[inline]
fn seqcount(book: &impl Book) -> Seqcount<'_> {
    Seqcount(book.words(0).hi())
}
#[inline]
fn mapcount(book: &impl Book) -> &AtomicU64 {
    book.words(1).lo()
}
#[inline]
fn value(book: &impl Book, i: usize) -> &AtomicU64 {
    let words = book.words(1 + i.div_ceil(2));
    if i.is_multiple_of(2) {
        words.hi()
    } else {
        words.lo()
    }
}

impl Digits {
    #[inline]
    fn shape(&self, order: Order) -> &'static Shape {
        let row = match order.0 {
            ..=2 => 0,
            3..=5 => 1,
            6..=9 => 2,
            10 => 3,
            11..=12 => 4,
            _ => 5,
        };
        // Two frames have no room for more than one value.
        let looked_up = !self.stored && order > Order(1);
        let row = if looked_up { row.max(3) } else { row };
        &SHAPES[row]
    }

    #[inline]
    fn entry(&self) -> Entry {
        match (self.exclusive, self.add) {
            (false, _) => Entry::Share,
            (true, false) => Entry::Exchange,
            (true, true) => Entry::Add,
        }
    }

    /// As many mappings as pages of `part`, of the first owner, become the second one's; where one
    /// of them is plain, they come or go. Returns the read-modify-writes.
    #[inline]
    fn change(&self, book: &impl Book, [from, to]: [&Owner; 2], part: Part, pages: Pages) -> u32 {
        let counted = self.pages && pages != Pages::Stay && part.by != By::Nothing;
        if from.id == to.id && !counted {
            return 0;
        }
        let n = u64::from(part.n);
        let shape = self.shape(book.order());
        let mut section = seqcount(book).write(self.entry());
        if from.mapped() != to.mapped() {
            let more = to.mapped().wrapping_sub(from.mapped());
            section.add(mapcount(book), more.wrapping_mul(n));
        }
        for i in 0..shape.values {
            let more = subid(shape, to, i).wrapping_sub(subid(shape, from, i));
            // Small ids have no bits for the last values.
            if more != 0 {
                section.add(value(book, i), more.wrapping_mul(n));
            }
        }
        if counted {
            let mut writer = Writer::Section(&mut section);
            match pages {
                Pages::Go => writer.unmap(book, part),
                _ => writer.map(book, part),
            }
        }
        section.end()
    }
}

impl Counted for Digits {
    #[inline]
    fn counts_pages(&self) -> bool {
        self.pages
    }

    #[inline]
    fn begin(&self, book: &impl Book, who: &Owner, part: Part) {
        let n = u64::from(part.n);
        let shape = self.shape(book.order());
        seqcount(book).0.store(0, Ordering::Relaxed);
        mapcount(book).store(n * who.mapped(), Ordering::Relaxed);
        for i in 0..shape.values {
            value(book, i).store(n * subid(shape, who, i), Ordering::Relaxed);
        }
        if self.pages {
            pages::begin(book, part);
        }
    }

    #[inline(always)]
    fn enter(&self, book: &impl Book, who: &Owner, part: Part) -> u32 {
        self.change(book, [&Owner::PLAIN, who], part, Pages::Come)
    }

    #[inline(always)]
    fn leave(&self, book: &impl Book, who: &Owner, part: Part) -> u32 {
        self.change(book, [who, &Owner::PLAIN], part, Pages::Go)
    }

    #[inline]
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32) -> u32 {
        self.change(book, [from, to], Part::nothing(n), Pages::Stay)
    }

    #[inline(always)]
    fn end(&self, book: &impl Book) {
        // No reader is left: the sequence begins anew.
        seqcount(book).0.store(0, Ordering::Relaxed);
    }

    fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
        let rest = || references(book).get().wrapping_sub(plain);
        let all = rest();
        if all > book.order().pages() {
            return false;
        }
        let shape = self.shape(book.order());
        seqcount(book).read(|| {
            let mapped = mapcount(book).load(Ordering::Relaxed);
            let its = |i| value(book, i).load(Ordering::Relaxed) == mapped * subid(shape, who, i);
            mapped <= book.order().pages() && rest() == mapped && (0..shape.values).all(its)
        })
    }

    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        let shape = self.shape(book.order());
        let sum = |i| {
            let parts = held
                .iter()
                .map(|(who, n)| n.wrapping_mul(subid(shape, who, i)));
            parts.fold(0, u64::wrapping_add)
        };
        mapcount(book).load(Ordering::Relaxed) == sums(held).1
            && (0..shape.values).all(|i| value(book, i).load(Ordering::Relaxed) == sum(i))
    }

    fn split_leaf(&self, book: &impl Book) -> u32 {
        if !self.pages {
            return 0;
        }
        let mut section = seqcount(book).write(self.entry());
        pages::split_leaf(book, &mut Writer::Section(&mut section));
        section.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    /// The proofs in `proof/coq` are about these shapes.
    #[test]
    fn the_proofs_have_the_same_shapes() {
        let proofs = include_str!("../../../proof/coq/Seed.v");
        for Shape { values, bits, base } in SHAPES {
            let order = (base - 1).ilog2();
            assert_eq!(base, (1 << order) + 1, "up to 2^order mappings");
            let form = format!("form_fits {order} {bits} {values} ");
            assert!(proofs.contains(&form), "proof/coq/Seed.v lacks: {form}");
        }
    }
}
