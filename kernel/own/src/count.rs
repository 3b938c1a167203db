//! A count of references that does not run over.

use crate::sync::{AtomicU64, Ordering};
use crate::{Account, Book, Meter, MmId, Order, Owner, Part, kept, sums};

/// The value of a count that ran over: as in [`crate::unified`], 3/4 of what fits; above half it is
/// never changed again.
const FULL: u64 = 3 << 62;

/// The references of a folio, in the schemes that keep them in a word of their own.
pub(crate) struct Count<'a>(pub &'a AtomicU64);

/// The references of a folio, in the first word of its head.
#[inline]
pub(crate) fn references(book: &impl Book) -> Count<'_> {
    Count(book.words(0).lo())
}

impl Count<'_> {
    /// `n` more.
    #[inline]
    pub fn add(&self, n: u32, order: Order) {
        let old = self.0.fetch_add(n.into(), Ordering::Relaxed);
        debug_assert!(old != 0, "{n} references to a folio that had none");
        if old.wrapping_add(n.into()).leading_zeros() == 0 {
            self.0.store(FULL, Ordering::Relaxed);
            if old.leading_zeros() != 0 {
                kept(order);
            }
        }
    }

    /// `n` less; whether none are left. Release: what their owner did to the pages comes before.
    /// Acquire: the one that drops the last reference sees all of it.
    #[inline]
    pub fn sub(&self, n: u32) -> bool {
        let old = self.0.fetch_sub(n.into(), Ordering::AcqRel);
        if old.leading_zeros() == 0 {
            self.0.store(FULL, Ordering::Relaxed);
            return false;
        }
        assert!(
            old >= n.into(),
            "{n} references are dropped and there were {old}"
        );
        old == n.into()
    }

    /// How many. Acquire pairs with the release in [`Count::sub`].
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Whether the count is this number, or ran over.
    pub fn agrees(&self, n: u64) -> bool {
        let count = self.get();
        count == n || count.leading_zeros() == 0
    }
}

/// The account of folios of order 0 in all schemes but [`crate::Unified`]: one reference can only
/// be the caller's own, so owners are not distinguished.
#[derive(Clone, Copy, Default, Debug)]
pub struct Single;

impl Single {
    #[inline]
    fn count(book: &impl Book) -> Count<'_> {
        debug_assert_eq!(book.order(), Order(0));
        references(book)
    }
}

impl Account for Single {
    #[inline]
    fn begin(&self, book: &impl Book, _: &Owner, part: Part, meter: &mut Meter) {
        meter.update(0);
        let count = Single::count(book);
        count.0.store(part.n.into(), Ordering::Relaxed);
    }
    #[inline(always)]
    fn refer(&self, book: &impl Book, _: &Owner, n: u32, meter: &mut Meter) {
        meter.update(1);
        Single::count(book).add(n, Order(0));
    }
    #[inline(always)]
    fn unrefer(&self, book: &impl Book, _: &Owner, n: u32, meter: &mut Meter) -> bool {
        meter.update(1);
        Single::count(book).sub(n)
    }
    #[inline]
    fn pass(&self, _: &impl Book, _: &Owner, _: &Owner, _: u32, meter: &mut Meter) {
        meter.update(0);
    }
    #[inline]
    fn references(&self, book: &impl Book) -> u64 {
        Single::count(book).get()
    }
    #[inline]
    fn all_are(&self, book: &impl Book, _: &Owner, plain: u64) -> bool {
        Single::count(book).get().wrapping_sub(plain) == 1
    }
    fn same_id(&self, _: &impl Book) -> Option<MmId> {
        None
    }
    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        Single::count(book).agrees(sums(held).0)
    }
}
