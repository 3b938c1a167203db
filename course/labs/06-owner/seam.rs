//! Lab 6: the account of large folios by the student's code. References are counted beside it, so
//! that a wrong answer is told, in words that a student can go on with, before anything is freed.
//!
//! ```text
//!     head, first word: references     second word: the student's     part 1, first word: whether the student said "free"
//! ```

use super::{Account, Book, Meter, MmId, Order, Owner, Part, Single};
use crate::switch::Switches;
use crate::sync::{AtomicU64, Ordering, panicking};
use core::cell::Cell;
use labs::owner::{Account as _, Solution, Word, referee};

/// The scheme.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Lab;

/// A large folio, and what was done to the student's word.
struct Folio<'a, B> {
    book: &'a B,
    rmws: Cell<u32>,
}

impl<'a, B: Book> Folio<'a, B> {
    fn new(book: &'a B) -> Self {
        let rmws = Cell::new(0);
        Folio { book, rmws }
    }
    fn counted(&self) -> &AtomicU64 {
        self.book.words(0).lo()
    }
    fn word(&self) -> &AtomicU64 {
        self.book.words(0).hi()
    }
    fn free(&self) -> &AtomicU64 {
        self.book.words(1).lo()
    }
    /// All words as they are when nobody refers to the folio.
    fn clear(&self) {
        self.counted().store(0, Ordering::Relaxed);
        self.word().store(0, Ordering::Relaxed);
        self.free().store(0, Ordering::Relaxed);
    }
    fn one_more(&self) {
        self.rmws.set(self.rmws.get() + 1);
    }
}

/// Acquire and release: what the account leads to, a write in place or a free folio, comes after
/// what others did to the pages.
impl<B: Book> Word for Folio<'_, B> {
    fn load(&self) -> u64 {
        self.word().load(Ordering::Acquire)
    }
    fn add(&self, n: u64) -> u64 {
        self.one_more();
        self.word().fetch_add(n, Ordering::AcqRel)
    }
    fn exchange(&self, old: u64, new: u64) -> Result<(), u64> {
        self.one_more();
        let exchanged = self
            .word()
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
        exchanged.map(|_| ())
    }
}

impl<B: Book> referee::Folio for Folio<'_, B> {
    fn pages(&self) -> u64 {
        self.book.order().pages()
    }
    fn references(&self) -> u64 {
        self.counted().load(Ordering::Acquire)
    }
    fn count(&self, n: u64) {
        self.counted().fetch_add(n, Ordering::Relaxed);
    }
    fn uncount(&self, n: u64) -> u64 {
        self.counted().fetch_sub(n, Ordering::AcqRel)
    }
    fn set_free(&self) -> bool {
        self.free().fetch_add(1, Ordering::AcqRel) != 0
    }
    fn is_free(&self) -> bool {
        self.free().load(Ordering::Acquire) != 0
    }
}

/// The student's number of an address space. All that share an id have the last one.
fn number(who: &Owner) -> u8 {
    who.id()
        .map_or(0, |id| id.get().min(Switches::LAB_IDS + 1) as u8)
}

impl Account for Lab {
    fn begin(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        if book.order() == Order(0) {
            return Single.begin(book, who, part, meter);
        }
        Folio::new(book).clear();
        self.refer(book, who, part.n, meter);
    }

    fn refer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
        if book.order() == Order(0) {
            return Single.refer(book, who, n, meter);
        }
        let folio = Folio::new(book);
        // After a wrong answer the simulated machine ends in order.
        match panicking() {
            true => referee::Folio::count(&folio, n.into()),
            false => referee::add(&Solution, &folio, number(who), n.into()),
        }
        meter.updates += 1;
        meter.rmws += folio.rmws.get();
    }

    fn unrefer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) -> bool {
        if book.order() == Order(0) {
            return Single.unrefer(book, who, n, meter);
        }
        let folio = Folio::new(book);
        let last = match panicking() {
            true => referee::Folio::uncount(&folio, n.into()) == u64::from(n),
            false => referee::remove(&Solution, &folio, number(who), n.into()),
        };
        if last {
            folio.clear();
        }
        meter.updates += 1;
        meter.rmws += folio.rmws.get();
        last
    }

    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32, meter: &mut Meter) {
        self.refer(book, to, n, meter);
        let last = self.unrefer(book, from, n, meter);
        debug_assert!(!last, "others' references are there");
    }

    fn references(&self, book: &impl Book) -> u64 {
        book.words(0).lo().load(Ordering::Acquire)
    }

    fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
        if book.order() == Order(0) {
            return Single.all_are(book, who, plain);
        }
        let (folio, pages) = (Folio::new(book), book.order().pages());
        !panicking() && Solution.reuse(&folio, pages, number(who), plain)
    }

    fn same_id(&self, _: &impl Book) -> Option<MmId> {
        None
    }

    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        let all: u64 = held.iter().map(|(_, n)| n).sum();
        let agrees = self.references(book) == all;
        if agrees && book.order() != Order(0) {
            let told = |(who, n): &(Owner, u64)| (!who.is_common()).then(|| (number(who), *n));
            let held: alloc::vec::Vec<_> = held.iter().filter_map(told).collect();
            referee::audit(&Solution, &Folio::new(book), &held);
        }
        agrees
    }
}
