//! A reference count and a total mapcount, the baseline: the MMs that map a folio are not recorded,
//! so a large one that was mapped a second time (by fork or otherwise) is never again taken for one
//! MM's own.
//!
//! ```text
//!     head, first word: references     second word: the total mapcount, and the bit ADDED
//! ```
//! Order 0 has only a plain count. While ADDED is not set, all mappings are those of
//! [`Account::begin`]: their number only falls, and a caller that maps the folio is that MM.

use crate::count::references;
use crate::counted::Counted;
use crate::sync::{AtomicU64, Ordering};
use crate::{Book, Owner, Part, sums};

/// The scheme.
#[derive(Clone, Copy, Default, Debug)]
pub struct Total;

/// A mapping was added after the first ones.
const ADDED: u64 = 1 << 63;

fn mapcount(book: &impl Book) -> &AtomicU64 {
    book.words(0).hi()
}

/// `n` mappings more. Returns the read-modify-writes.
fn map(book: &impl Book, n: u32) -> u32 {
    // The bit first: a reader that finds it missing on both sides of its look has not met these
    // mappings.
    let set = mapcount(book).load(Ordering::Relaxed) & ADDED == 0;
    if set {
        mapcount(book).fetch_or(ADDED, Ordering::Relaxed);
    }
    mapcount(book).fetch_add(n.into(), Ordering::Relaxed);
    1 + u32::from(set)
}

/// `n` mappings less. Returns the read-modify-writes.
fn unmap(book: &impl Book, n: u32) -> u32 {
    // Release pairs with the acquire in `all_are`.
    mapcount(book).fetch_sub(n.into(), Ordering::Release);
    1
}

impl Counted for Total {
    #[inline]
    fn begin(&self, book: &impl Book, who: &Owner, part: Part) {
        mapcount(book).store(u64::from(part.n) * who.mapped(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn enter(&self, book: &impl Book, who: &Owner, part: Part) -> u32 {
        match who.id {
            0 => 0,
            _ => map(book, part.n),
        }
    }

    #[inline(always)]
    fn enter_again(&self, book: &impl Book, who: &Owner, part: Part) -> u32 {
        if who.id == 0 {
            return 0;
        }
        mapcount(book).fetch_add(part.n.into(), Ordering::Relaxed);
        1
    }

    #[inline(always)]
    fn leave(&self, book: &impl Book, who: &Owner, part: Part) -> u32 {
        match who.id {
            0 => 0,
            _ => unmap(book, part.n),
        }
    }

    #[inline]
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32) -> u32 {
        match (from.id, to.id) {
            (from, to) if from == to => 0,
            (_, 0) => unmap(book, n),
            (0, _) => map(book, n),
            // The total stays; the folio has another mapper now.
            _ => map(book, 0),
        }
    }

    #[inline(always)]
    fn end(&self, book: &impl Book) {
        mapcount(book).store(0, Ordering::Relaxed);
    }

    fn all_are(&self, book: &impl Book, _: &Owner, plain: u64) -> bool {
        let rest = || references(book).get().wrapping_sub(plain);
        let mapped = mapcount(book).load(Ordering::Acquire);
        let all = rest();
        // The same twice, without ADDED: nothing was mapped or unmapped between, and the references
        // were counted in that time.
        mapped & ADDED == 0
            && all == mapped
            && all <= book.order().pages()
            && mapcount(book).load(Ordering::Relaxed) == mapped
    }

    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        mapcount(book).load(Ordering::Relaxed) & !ADDED == sums(held).1
    }
}
