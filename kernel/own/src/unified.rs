//! One word for each folio, one atomic add for each update, and an answer that is always exact.
//!
//! # The word
//! Split an id into k digits a(id) = (a_1 .. a_k). A reference weighs
//! ```text
//!     K(id) = 1 * 2^r  +  |a(id)|^2 * 2^q  +  sum over j of a_j(id) * 2^(d_j)         |a|^2 = a_1^2 + .. + a_k^2
//!
//!     fields, from the low bits up:   D_1 .. D_k | Q | R
//! ```
//! and the word W is the sum of the weights of all references, modulo 2^64 or 2^128. It is only
//! ever changed by wrapping adds. A plain reference has id 0: it weighs 1 * 2^r. R counts the
//! references.
//!
//! | word | orders | digits | D_j | Q | R |
//! |---|---|---|---|---|---|
//! | u64, [`AccountWords::lo`] | 0..=4 | 3 of 5 bits | 9 bits each | 16 | 21 |
//! | u128, [`AccountWords::wide`] | 5..=15 | 2 of 8 bits | 24 bits each | 40 | 40 |
//!
//! The fields hold at least what P = 2^order references can bring: D_j up to P times the largest
//! digit, Q up to P times the largest |a|^2. The wide word has room to spare, and Q has it, so that
//! R is the number of references up to 13 millions of them.
//!
//! # Why it answers
//! Take R <= P, so that no field overflows and all of them can be read. For any id
//! ```text
//!     sum over all references x of |a(x) - a(id)|^2  =  Q - 2 a(id).D + R |a(id)|^2
//! ```
//! If W = R * K(id), then D = R a(id) and Q = R |a(id)|^2, and the right side is 0. A sum of
//! squares is 0 only if each is: every reference is `id`'s. (The points a(x) with their squares lie
//! on a paraboloid: none is a mean of others.) In the same way, R * Q = |D|^2 holds only if all
//! a(x) are equal, so the owner can be read off as D / R.
//!
//! Above P, carries run from D and Q upwards and can only make R larger, so "R > P: shared" stays
//! right while R itself does not overflow. And sums do not forget: whatever happened above P, W is
//! exact again once there are P references or fewer. All MMs together ([`Ids::MOST`]) cannot bring
//! R to half of what it can hold; should anything else do (pins are not bounded), the folio is kept
//! for ever, as one with R there: it reads as shared and is never freed.
//!
//! Sources: as an algorithm, this is Ganguly's test for a stream of one item (S. Ganguly, "Counting
//! distinct items over update streams", 2007: 1-sparsity of non-negative streams); digits in convex
//! position are from F. A. Behrend, "On sets of integers which contain no three terms in
//! arithmetical progression" (1946). To our knowledge first applied here.
//!
//! # Many CPUs
//! References and owners are one word, so one acquire load sees a state that was. A reference count
//! beside the word would bring back the race that [`crate::Digits`] needs its seqcount for, and two
//! loads of 64 bits are not one of 128: from 4 pages up such a reader can put together an
//! "exclusive" that never was. (On x86_64 the one load of 128 bits is a cmpxchg16b itself; it is
//! not counted as a read-modify-write, since it changes nothing.)

use crate::AccountWords;
use crate::Order;
use crate::mutant::{self, Mutant};
use crate::sync::Ordering;
use crate::{Account, Book, Ids, Meter, MmId, Owner, Part, kept};

/// The fields of a word.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Bits of the word.
    bits: u32,
    /// Digits of an id.
    digits: u32,
    /// Bits of a digit.
    digit: u32,
    /// Bits of the sum of one digit, D_j.
    sum: u32,
    /// Bits of the sum of squares, Q.
    squares: u32,
}

/// The largest order that has a narrow word.
pub const NARROW_ORDERS: Order = Order(4);

/// The word of folios up to [`NARROW_ORDERS`].
pub const NARROW: Format = Format {
    bits: 64,
    digits: 3,
    digit: 5,
    sum: 9,
    squares: 16,
};

/// The largest order that has a word at all.
pub const WIDE_ORDERS: Order = Order(15);

/// The word of larger folios, up to [`WIDE_ORDERS`].
pub const WIDE: Format = Format {
    bits: 128,
    digits: 2,
    digit: 8,
    sum: 24,
    squares: 40,
};

const _: () = assert!(NARROW.holds(NARROW_ORDERS) && WIDE.holds(WIDE_ORDERS));

impl Format {
    /// Whether the fields have room for all that references to 2^order pages can bring.
    const fn holds(&self, order: Order) -> bool {
        let (pages, digit) = (1u128 << order.0, (1u128 << self.digit) - 1);
        pages * digit < 1 << self.sum
            && pages * digit * digit * (self.digits as u128) < 1 << self.squares
            && Ids::MOST as u128 * (pages + 1) < 1 << (self.bits - self.count_at() - 1)
    }
    /// Where Q begins.
    const fn squares_at(&self) -> u32 {
        self.digits * self.sum
    }
    /// Where R begins; it has all the bits from here.
    const fn count_at(&self) -> u32 {
        self.squares_at() + self.squares
    }
    /// The word of a folio whose references ran over: that is so from half of what R can hold, when
    /// the top bit is set. This is 3/4: CPUs that are in the middle of an update move it by their
    /// few references, and the top bit stays.
    const fn full(&self) -> u128 {
        3 << (self.bits - 2)
    }
    /// Digit `j` of an id.
    const fn digit_of(&self, id: u16, j: u32) -> u128 {
        (id as u128) >> (j * self.digit) & ((1 << self.digit) - 1)
    }
    /// K(id): what one reference weighs.
    pub const fn weight(&self, id: u16) -> u128 {
        let mut weight = 1 << self.count_at();
        let mut j = 0;
        while j < self.digits {
            let digit = self.digit_of(id, j);
            weight += digit << (j * self.sum);
            weight += (digit * digit) << self.squares_at();
            j += 1;
        }
        weight
    }
    /// R.
    #[inline]
    const fn count(&self, word: u128) -> u128 {
        word >> self.count_at()
    }
    /// The owner of all references of a folio of this order, if there is one.
    fn owner(&self, word: u128, order: Order) -> Option<MmId> {
        let count = self.count(word);
        if count == 0 || count > order.pages().into() {
            return None;
        }
        let field = |at: u32, bits: u32| word >> at & ((1 << bits) - 1);
        let (mut id, mut squared) = (0, 0);
        for j in 0..self.digits {
            let sum = field(j * self.sum, self.sum);
            if !sum.is_multiple_of(count) {
                return None;
            }
            squared += sum * sum;
            id |= (sum / count) << (j * self.digit);
        }
        let squares = field(self.squares_at(), self.squares);
        if count * squares != squared {
            return None;
        }
        // Id 0: all references are plain.
        MmId::new(id as u16)
    }
}

/// The scheme.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unified;

/// The same steps in the width that the folio's order has: `$word` is the atomic, `$weight` what a
/// reference of an owner weighs.
macro_rules! in_its_width {
    ($book:expr, |$word:ident, $weight:ident, $format:ident| $steps:expr) => {
        if $book.order() <= NARROW_ORDERS {
            const $format: Format = NARROW;
            let ($word, $weight) = ($book.words(0).lo(), |who: &Owner| who.narrow);
            $steps
        } else {
            const $format: Format = WIDE;
            let ($word, $weight) = ($book.words(0).wide(), |who: &Owner| who.wide);
            $steps
        }
    };
}

/// The wide word by one acquire load.
#[inline]
fn load(words: &AccountWords) -> u128 {
    if mutant::on(Mutant::TornRead) {
        return words.torn();
    }
    words.wide().load(Ordering::Acquire)
}

impl Unified {
    /// The word, and its format.
    fn read(book: &impl Book) -> (u128, Format) {
        let words = book.words(0);
        if book.order() <= NARROW_ORDERS {
            (words.lo().load(Ordering::Acquire).into(), NARROW)
        } else {
            (load(words), WIDE)
        }
    }
}

impl Account for Unified {
    #[inline]
    fn begin(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        let (words, n) = (book.words(0), part.n);
        if book.order() <= NARROW_ORDERS {
            words
                .lo()
                .store(who.narrow * u64::from(n), Ordering::Relaxed);
        } else {
            words.set_wide(who.wide * u128::from(n));
        }
        meter.update(0);
    }

    #[inline]
    fn refer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
        meter.update(1);
        in_its_width!(book, |word, weight, FORMAT| {
            let change = weight(who).wrapping_mul(n.into());
            let old = word.fetch_add(change, Ordering::Relaxed);
            debug_assert!(old != 0, "{n} references to a folio that had none");
            if old.wrapping_add(change).leading_zeros() == 0 {
                word.store(const { FORMAT.full() } as _, Ordering::Relaxed);
                if old.leading_zeros() != 0 {
                    kept(book.order());
                }
            }
        });
    }

    #[inline]
    fn unrefer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) -> bool {
        meter.update(1);
        in_its_width!(book, |word, weight, FORMAT| {
            let change = weight(who).wrapping_mul(n.into());
            // Release: what `who` did to the pages comes before. Acquire: the one that drops the
            // last reference sees all of it.
            let old = word.fetch_sub(change, Ordering::AcqRel);
            if old.leading_zeros() == 0 {
                word.store(const { FORMAT.full() } as _, Ordering::Relaxed);
                return false;
            }
            let count = old >> const { FORMAT.count_at() };
            assert!(
                old == change || count > n.into(),
                "{n} references of {:?} are dropped and there were {count}: {old:#x}",
                who.id()
            );
            old == change
        })
    }

    /// One word says all: which pages they are is nothing to it.
    #[inline(always)]
    fn map(&self, book: &impl Book, who: &Owner, of: Part, meter: &mut Meter) {
        self.refer(book, who, of.n, meter);
    }
    #[inline(always)]
    fn unmap(&self, book: &impl Book, who: &Owner, of: Part, meter: &mut Meter) -> bool {
        self.unrefer(book, who, of.n, meter)
    }

    #[inline]
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32, meter: &mut Meter) {
        meter.update(1);
        in_its_width!(book, |word, weight, FORMAT| {
            let change = weight(to).wrapping_sub(weight(from)).wrapping_mul(n.into());
            // Release, as in `unrefer`: `from` may have written the pages.
            let old = word.fetch_add(change, Ordering::Release);
            debug_assert!(old >> const { FORMAT.count_at() } >= n.into());
            // No reference is added, but a carry may be.
            if old.wrapping_add(change).leading_zeros() == 0 {
                word.store(const { FORMAT.full() } as _, Ordering::Relaxed);
                if old.leading_zeros() != 0 {
                    kept(book.order());
                }
            }
        });
    }

    #[inline]
    fn references(&self, book: &impl Book) -> u64 {
        let (word, format) = Unified::read(book);
        format.count(word) as u64
    }

    #[inline]
    fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
        let (words, pages) = (book.words(0), book.order().pages());
        // Acquire pairs with the release in `unrefer` and `pass`: an MM that may write in place
        // sees what the others did before.
        if book.order() <= NARROW_ORDERS {
            let plain = plain << const { NARROW.count_at() };
            let word = words.lo().load(Ordering::Acquire).wrapping_sub(plain);
            let count = word >> const { NARROW.count_at() };
            count != 0 && count <= pages && word == count * who.narrow
        } else {
            let plain = u128::from(plain) << const { WIDE.count_at() };
            let word = load(words).wrapping_sub(plain);
            let count = word >> const { WIDE.count_at() };
            count != 0 && count <= pages.into() && word == count * who.wide
        }
    }

    fn same_id(&self, book: &impl Book) -> Option<MmId> {
        let (word, format) = Unified::read(book);
        format.owner(word, book.order())
    }

    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        let (word, format) = Unified::read(book);
        let weight = |(who, n): &(Owner, u64)| format.weight(who.id).wrapping_mul((*n).into());
        let sum = held.iter().map(weight).fold(0, u128::wrapping_add);
        let cut = u128::MAX >> (u128::BITS - format.bits);
        word == sum & cut || word >> (format.bits - 1) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The proofs in `proof/coq` are about these words: the same fields, orders, ids and weights.
    #[test]
    fn the_proofs_have_the_same_constants() {
        let proofs = include_str!("../../../proof/coq/Layouts.v");
        let has = |line: &str| assert!(proofs.contains(line), "proof/coq/Layouts.v lacks: {line}");
        let last = MmId::COMMON.get();
        has(&std::format!("(id : Z) : Prop := 0 <= id <= {last}."));
        for (name, format, Order(order)) in [
            ("narrow", NARROW, NARROW_ORDERS),
            ("wide", WIDE, WIDE_ORDERS),
        ] {
            let Format {
                bits,
                digits,
                digit,
                sum,
                squares,
            } = format;
            has(&std::format!(
                "Definition {name} := layout {bits} {digits} {digit} {sum} {squares} {order}."
            ));
            for (which, id) in [("plain", 0), ("first", 1), ("last", last)] {
                let weight = format.weight(id);
                has(&std::format!(
                    "Example {name}_weight_{which} : K {name} {id} = {weight}."
                ));
            }
        }
    }
}
