//! Counts of the mappings of single pages, as Linux kept them beside every folio up to the series
//! of November 2023 (seed "rmap ids"), and comparisons with it need them: one count for each page,
//! one for PMD leaves, and how many pages are mapped at all.
//!
//! ```text
//!     page i: its count       page 0, too: how many pages have a count       page 1, too: PMD leaves on the whole folio
//! ```
//! A mapping of a page takes one read-modify-write, and another one when it is the page's first or
//! was its last. Folios of order 0 have none of this: their references are enough.

use crate::seqcount::Section;
use crate::sync::{AtomicU32, Ordering};
use crate::{Book, Order};

/// What is counted for one page of a folio. All bytes zero is a valid value, that of an unmapped
/// page.
#[derive(Debug, Default)]
pub struct PageCount {
    /// PTEs that map the page.
    mapped: AtomicU32,
    /// Page 0: how many pages of the folio are mapped by PTEs. Page 1: PMD leaves that map the
    /// folio.
    folio: AtomicU32,
}

impl PageCount {
    /// Whether nothing is counted here.
    pub fn is_zero(&self) -> bool {
        [&self.mapped, &self.folio].map(|count| count.load(Ordering::Relaxed)) == [0, 0]
    }
}

/// By what entries pages are mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// By none: handles, pins, walks.
    Nothing,
    /// One PTE for each page.
    Ptes,
    /// A leaf for the whole folio.
    Leaf,
}

/// Pages of a folio in a row, and what maps them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The first, by its place in the folio.
    pub first: u32,
    /// How many; not more than the folio has, unless nothing maps them.
    pub n: u32,
    /// By what.
    pub by: By,
}

impl Part {
    /// Mapped by PTEs.
    #[inline]
    pub const fn ptes(first: u32, n: u32) -> Part {
        let by = By::Ptes;
        Part { first, n, by }
    }
    /// All pages of a folio, mapped by a leaf.
    #[inline]
    pub const fn leaf(order: Order) -> Part {
        Part {
            first: 0,
            n: order.pages() as u32,
            by: By::Leaf,
        }
    }
    /// `n` references without entries.
    #[inline]
    pub const fn nothing(n: u32) -> Part {
        let by = By::Nothing;
        Part { first: 0, n, by }
    }
    /// Its pages, each for itself.
    #[inline]
    pub fn each(self) -> impl Iterator<Item = Part> {
        let pages = self.first..self.first + self.n;
        pages.map(move |first| Part {
            first,
            n: 1,
            ..self
        })
    }
}

/// How a count is changed.
pub(crate) enum Writer<'a, 'b> {
    /// By read-modify-writes, which are counted here.
    Atomic(u32),
    /// As the other values that a seqcount covers.
    Section(&'a mut Section<'b>),
}

impl Writer<'_, '_> {
    /// Read-modify-writes so far; a section counts its own.
    #[inline(always)]
    pub fn rmws(&self) -> u32 {
        match self {
            Writer::Atomic(rmws) => *rmws,
            Writer::Section(_) => 0,
        }
    }
    /// Adds, modulo 2^32; returns what was there.
    #[inline(always)]
    fn add(&mut self, count: &AtomicU32, n: u32) -> u32 {
        match self {
            Writer::Atomic(rmws) => {
                *rmws += 1;
                // Release pairs with the acquire in `of_page`: a reader that meets it also sees
                // what came before, the references and the note that a mapping came.
                count.fetch_add(n, Ordering::Release)
            }
            Writer::Section(section) => section.add_to_count(count, n),
        }
    }

    // In place, here and below: these are in the loops of fork and unmapping.
    /// Entries of this part more.
    #[inline(always)]
    pub fn map(&mut self, book: &impl Book, part: Part) {
        match part.by {
            By::Nothing => {}
            By::Leaf => {
                self.add(leaves(book), 1);
            }
            By::Ptes => {
                let mut fresh = 0;
                for page in pages(part) {
                    fresh += u32::from(self.add(&book.page(page).mapped, 1) == 0);
                }
                if fresh != 0 {
                    self.add(mapped_pages(book), fresh);
                }
            }
        }
    }

    /// Entries of this part less.
    #[inline(always)]
    pub fn unmap(&mut self, book: &impl Book, part: Part) {
        match part.by {
            By::Nothing => {}
            By::Leaf => {
                self.add(leaves(book), u32::MAX);
            }
            By::Ptes => {
                let mut gone = 0u32;
                for page in pages(part) {
                    gone += u32::from(self.add(&book.page(page).mapped, u32::MAX) == 1);
                }
                if gone != 0 {
                    self.add(mapped_pages(book), gone.wrapping_neg());
                }
            }
        }
    }
}

#[inline]
fn pages(part: Part) -> impl Iterator<Item = usize> {
    part.first as usize..(part.first + part.n) as usize
}
#[inline]
fn mapped_pages(book: &impl Book) -> &AtomicU32 {
    &book.page(0).folio
}
#[inline]
fn leaves(book: &impl Book) -> &AtomicU32 {
    &book.page(1).folio
}

/// The first entries of a folio, by plain stores: what was there does not matter.
pub(crate) fn begin(book: &impl Book, part: Part) {
    forget(book);
    match part.by {
        By::Nothing => {}
        By::Leaf => leaves(book).store(1, Ordering::Relaxed),
        By::Ptes => {
            pages(part).for_each(|page| book.page(page).mapped.store(1, Ordering::Relaxed));
            mapped_pages(book).store(part.n, Ordering::Relaxed);
        }
    }
}

/// Nothing is mapped.
pub(crate) fn forget(book: &impl Book) {
    if book.order() == Order(0) {
        return;
    }
    for page in 0..book.order().pages() as usize {
        book.page(page).mapped.store(0, Ordering::Relaxed);
    }
    mapped_pages(book).store(0, Ordering::Relaxed);
    leaves(book).store(0, Ordering::Relaxed);
}

/// A PMD leaf becomes PTEs.
pub(crate) fn split_leaf(book: &impl Book, writer: &mut Writer<'_, '_>) {
    let pages = book.order().pages() as u32;
    writer.map(book, Part::ptes(0, pages));
    writer.unmap(book, Part::leaf(book.order()));
}

/// How many entries map page `i`, leaves included.
pub(crate) fn of_page(book: &impl Book, i: usize) -> u32 {
    let leaves = leaves(book).load(Ordering::Acquire);
    book.page(i).mapped.load(Ordering::Acquire) + leaves
}

/// The mappings of all pages: no total is kept, so each is looked at ("folio_mapcount() gets slower
/// the larger the folio is").
pub(crate) fn all(book: &impl Book) -> u64 {
    let pages = 0..book.order().pages() as usize;
    pages.map(|page| u64::from(of_page(book, page))).sum()
}
