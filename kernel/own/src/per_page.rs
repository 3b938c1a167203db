//! References, and a count for each page ([`crate::pages`]): as in Linux before the total mapcount.
//! The MMs that map a folio are not recorded, so a folio of several pages that was mapped again
//! after its first mappings is never taken for one MM's own.
//!
//! ```text
//!     head, first word: references     second word: ADDED, once a mapping came after those of `begin`
//! ```
//! Order 0 has only a plain count.

use crate::count::Count;
use crate::mutant::{self, Mutant};
use crate::pages::{self, By, Part, Writer};
use crate::sync::{AtomicU64, Ordering};
use crate::{Account, Book, Meter, MmId, Order, Owner, Single, sums};

/// The scheme.
#[derive(Clone, Copy, Default, Debug)]
pub struct PerPage;

const ADDED: u64 = 1;

fn references(book: &impl Book) -> Count<'_> {
    Count(book.words(0).lo())
}
fn added(book: &impl Book) -> &AtomicU64 {
    book.words(0).hi()
}

/// A mapping came, or changed hands.
#[inline]
fn note_added(book: &impl Book) {
    if mutant::on(Mutant::NoNote) {
        return;
    }
    if added(book).load(Ordering::Relaxed) != ADDED {
        added(book).store(ADDED, Ordering::Relaxed);
    }
}

impl Account for PerPage {
    #[inline]
    fn counts_pages(&self) -> bool {
        true
    }

    #[inline]
    fn begin(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        if book.order() == Order(0) {
            return Single.begin(book, who, part, meter);
        }
        meter.update(0);
        references(book).0.store(part.n.into(), Ordering::Relaxed);
        added(book).store(0, Ordering::Relaxed);
        pages::begin(book, part);
    }
    #[inline(always)]
    fn refer(&self, book: &impl Book, _: &Owner, n: u32, meter: &mut Meter) {
        meter.update(1);
        references(book).add(n, book.order());
    }
    #[inline(always)]
    fn enter(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        if book.order() != Order(0) && part.by != By::Nothing {
            // Before the entry: a reader that finds nothing added has not met it.
            note_added(book);
        }
        self.enter_again(book, who, part, meter);
    }
    #[inline(always)]
    fn enter_again(&self, book: &impl Book, _: &Owner, part: Part, meter: &mut Meter) {
        if book.order() != Order(0) {
            let mut writer = Writer::Atomic(0);
            writer.map(book, part);
            meter.more(writer.rmws());
        }
    }
    #[inline(always)]
    fn leave(&self, book: &impl Book, _: &Owner, part: Part, meter: &mut Meter) {
        if book.order() != Order(0) {
            let mut writer = Writer::Atomic(0);
            writer.unmap(book, part);
            meter.more(writer.rmws());
        }
    }
    #[inline(always)]
    fn unrefer(&self, book: &impl Book, _: &Owner, n: u32, meter: &mut Meter) -> bool {
        meter.update(1);
        let last = references(book).sub(n);
        if last && book.order() != Order(0) {
            added(book).store(0, Ordering::Relaxed);
        }
        last
    }
    /// The entries stay as they are.
    #[inline]
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, _: u32, meter: &mut Meter) {
        if book.order() != Order(0) && from.id != to.id {
            note_added(book);
        }
        meter.update(0);
    }
    fn references(&self, book: &impl Book) -> u64 {
        references(book).get()
    }
    fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
        if book.order() == Order(0) {
            return Single.all_are(book, who, plain);
        }
        let rest = references(book).get().wrapping_sub(plain);
        let alone = || added(book).load(Ordering::Acquire) != ADDED;
        // Without ADDED only the asker has mappings, which it does not change while it asks.
        alone() && rest <= book.order().pages() && rest == pages::all(book) && alone()
    }
    fn same_id(&self, _: &impl Book) -> Option<MmId> {
        None
    }
    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        references(book).agrees(sums(held).0)
    }
    fn split_leaf(&self, book: &impl Book, meter: &mut Meter) {
        let mut writer = Writer::Atomic(0);
        pages::split_leaf(book, &mut writer);
        meter.more(writer.rmws());
    }
    fn page_count(&self, book: &impl Book, i: usize) -> Option<u32> {
        (book.order() != Order(0)).then(|| pages::of_page(book, i))
    }
    fn forget_pages(&self, book: &impl Book) {
        pages::forget(book);
    }
}
