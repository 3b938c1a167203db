//! Any scheme with counts of single pages beside it ([`crate::pages`]): what the stages of the
//! series of November 2023 have, all but the last, where the counts change under the seqcount
//! ([`crate::Digits::pages`]).

use crate::pages::{self, Part};
use crate::{Account, Book, Meter, MmId, Order, Owner, PerPage};

/// A scheme, and counts of single pages beside it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Paged<A>(pub A);

impl<A: Account> Account for Paged<A> {
    #[inline]
    fn counts_pages(&self) -> bool {
        true
    }

    #[inline]
    fn begin(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        self.0.begin(book, who, part, meter);
        if book.order() != Order(0) {
            pages::begin(book, part);
        }
    }
    #[inline(always)]
    fn refer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
        self.0.refer(book, who, n, meter);
    }
    #[inline(always)]
    fn enter(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        self.0.enter(book, who, part, meter);
        PerPage.enter_again(book, who, part, meter);
    }
    #[inline(always)]
    fn enter_again(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        self.0.enter_again(book, who, part, meter);
        PerPage.enter_again(book, who, part, meter);
    }
    #[inline(always)]
    fn leave(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        PerPage.leave(book, who, part, meter);
        self.0.leave(book, who, part, meter);
    }
    #[inline(always)]
    fn unrefer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) -> bool {
        self.0.unrefer(book, who, n, meter)
    }
    #[inline]
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32, meter: &mut Meter) {
        self.0.pass(book, from, to, n, meter);
    }
    fn references(&self, book: &impl Book) -> u64 {
        self.0.references(book)
    }
    fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
        self.0.all_are(book, who, plain)
    }
    fn same_id(&self, book: &impl Book) -> Option<MmId> {
        self.0.same_id(book)
    }
    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        self.0.agrees(book, held)
    }
    fn split_leaf(&self, book: &impl Book, meter: &mut Meter) {
        PerPage.split_leaf(book, meter);
    }
    fn page_count(&self, book: &impl Book, i: usize) -> Option<u32> {
        PerPage.page_count(book, i)
    }
    fn forget_pages(&self, book: &impl Book) {
        PerPage.forget_pages(book);
    }
}
