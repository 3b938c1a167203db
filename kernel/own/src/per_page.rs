//! References, and a count for each page ([`crate::pages`]): as in Linux before the total mapcount.
//! The MMs that map a folio are not recorded, so a folio of several pages that was mapped again
//! after its first mappings is never taken for one MM's own.
//!
//! ```text
//!     head, first word: references     second word: ADDED, once a mapping came after those of `begin`
//! ```
//! Order 0 has only a plain count.

use crate::count::references;
use crate::counted::Counted;
use crate::mutant::{self, Mutant};
use crate::pages::{self, By, Part, Writer};
use crate::sync::{AtomicU64, Ordering};
use crate::{Book, Owner};

/// The scheme.
#[derive(Clone, Copy, Default, Debug)]
pub struct PerPage;

const ADDED: u64 = 1;

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

impl Counted for PerPage {
    #[inline]
    fn counts_pages(&self) -> bool {
        true
    }
    #[inline]
    fn begin(&self, book: &impl Book, _: &Owner, part: Part) {
        added(book).store(0, Ordering::Relaxed);
        pages::begin(book, part);
    }
    #[inline(always)]
    fn enter(&self, book: &impl Book, who: &Owner, part: Part) -> u32 {
        if part.by != By::Nothing {
            // Before the entry: a reader that finds nothing added has not met it.
            note_added(book);
        }
        self.enter_again(book, who, part)
    }
    #[inline(always)]
    fn enter_again(&self, book: &impl Book, _: &Owner, part: Part) -> u32 {
        let mut writer = Writer::Atomic(0);
        writer.map(book, part);
        writer.rmws()
    }
    #[inline(always)]
    fn leave(&self, book: &impl Book, _: &Owner, part: Part) -> u32 {
        let mut writer = Writer::Atomic(0);
        writer.unmap(book, part);
        writer.rmws()
    }
    /// The entries stay as they are.
    #[inline]
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, _: u32) -> u32 {
        if from.id != to.id {
            note_added(book);
        }
        0
    }
    #[inline(always)]
    fn end(&self, book: &impl Book) {
        added(book).store(0, Ordering::Relaxed);
    }
    fn all_are(&self, book: &impl Book, _: &Owner, plain: u64) -> bool {
        let rest = references(book).get().wrapping_sub(plain);
        let alone = || added(book).load(Ordering::Acquire) != ADDED;
        // Without ADDED only the asker has mappings, which it does not change while it asks.
        alone() && rest <= book.order().pages() && rest == pages::all(book) && alone()
    }
    fn agrees(&self, _: &impl Book, _: &[(Owner, u64)]) -> bool {
        true
    }
    fn split_leaf(&self, book: &impl Book) -> u32 {
        let mut writer = Writer::Atomic(0);
        pages::split_leaf(book, &mut writer);
        writer.rmws()
    }
}
