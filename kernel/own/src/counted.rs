//! Schemes that count references in a word of their own: what all of them do alike, and that a
//! folio of order 0 has this count alone, are here once.

use crate::count::references;
use crate::pages;
use crate::sync::Ordering::Relaxed;
use crate::{Account, Book, Meter, MmId, Order, Owner, Part, Single, sums};

/// What a scheme keeps of the mappings of a folio of more than one page, beside the count of its
/// references in the first word of the head.
pub trait Counted {
    /// Whether it counts the mappings of single pages.
    #[inline]
    fn counts_pages(&self) -> bool {
        false
    }
    /// The first mappings, by plain stores to all words of the format.
    fn begin(&self, book: &impl Book, who: &Owner, part: Part);
    /// More of them. Returns the read-modify-writes, as all that follow.
    fn enter(&self, book: &impl Book, who: &Owner, part: Part) -> u32;
    /// More of an owner that maps the pages already.
    #[inline(always)]
    fn enter_again(&self, book: &impl Book, who: &Owner, part: Part) -> u32 {
        self.enter(book, who, part)
    }
    /// Less of them.
    fn leave(&self, book: &impl Book, who: &Owner, part: Part) -> u32;
    /// `n` of them change hands.
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32) -> u32;
    /// The last reference is gone: every word is zero again.
    #[inline(always)]
    fn end(&self, _: &impl Book) {}
    /// As [`Account::all_are`].
    fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool;
    /// As [`Account::same_id`].
    fn same_id(&self, _: &impl Book) -> Option<MmId> {
        None
    }
    /// Whether the words beside the count say just this.
    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool;
    /// A PMD leaf becomes PTEs.
    fn split_leaf(&self, _: &impl Book) -> u32 {
        0
    }
}

#[inline]
fn is_large(book: &impl Book) -> bool {
    book.order() != Order(0)
}

impl<C: Counted> Account for C {
    #[inline]
    fn counts_pages(&self) -> bool {
        Counted::counts_pages(self)
    }
    #[inline]
    fn begin(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        meter.update(0);
        references(book).0.store(part.n.into(), Relaxed);
        if is_large(book) {
            Counted::begin(self, book, who, part);
        }
    }
    #[inline(always)]
    fn refer(&self, book: &impl Book, _: &Owner, n: u32, meter: &mut Meter) {
        meter.update(1);
        references(book).add(n, book.order());
    }
    #[inline(always)]
    fn enter(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        if is_large(book) {
            meter.more(Counted::enter(self, book, who, part));
        }
    }
    #[inline(always)]
    fn enter_again(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        if is_large(book) {
            meter.more(Counted::enter_again(self, book, who, part));
        }
    }
    #[inline(always)]
    fn leave(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        if is_large(book) {
            meter.more(Counted::leave(self, book, who, part));
        }
    }
    #[inline(always)]
    fn unrefer(&self, book: &impl Book, _: &Owner, n: u32, meter: &mut Meter) -> bool {
        meter.update(1);
        let last = references(book).sub(n);
        if last && is_large(book) {
            self.end(book);
        }
        last
    }
    #[inline]
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32, meter: &mut Meter) {
        let rmws = match is_large(book) {
            true => Counted::pass(self, book, from, to, n),
            false => 0,
        };
        meter.update(rmws);
    }
    #[inline]
    fn references(&self, book: &impl Book) -> u64 {
        references(book).get()
    }
    #[inline]
    fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
        match is_large(book) {
            true => Counted::all_are(self, book, who, plain),
            false => Single.all_are(book, who, plain),
        }
    }
    fn same_id(&self, book: &impl Book) -> Option<MmId> {
        is_large(book).then(|| Counted::same_id(self, book))?
    }
    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        let beside = !is_large(book) || Counted::agrees(self, book, held);
        references(book).agrees(sums(held).0) && beside
    }
    fn split_leaf(&self, book: &impl Book, meter: &mut Meter) {
        meter.more(Counted::split_leaf(self, book));
    }
    fn page_count(&self, book: &impl Book, i: usize) -> Option<u32> {
        let counted = is_large(book) && Counted::counts_pages(self);
        counted.then(|| pages::of_page(book, i))
    }
    fn forget_pages(&self, book: &impl Book) {
        if Counted::counts_pages(self) {
            pages::forget(book);
        }
    }
}
