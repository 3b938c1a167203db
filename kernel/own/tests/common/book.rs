//! A folio's words, in a vector.

use own::sync::Ordering;
use own::{AccountWords, Book, Order, PageCount};
use std::sync::OnceLock;

/// The words of one folio. Only the first five parts exist: no scheme has more.
pub struct Sheet {
    order: Order,
    parts: Vec<AccountWords>,
    /// Made when a scheme asks for them.
    pages: OnceLock<Vec<PageCount>>,
}

impl Sheet {
    /// Of 2^order pages, with the plain count of a folio that nobody maps yet.
    pub fn new(order: u8) -> Sheet {
        let sheet = Sheet {
            order: Order(order),
            parts: (0..5.min(1 << order))
                .map(|_| AccountWords::default())
                .collect(),
            pages: OnceLock::new(),
        };
        sheet.parts[0].lo().store(1, Ordering::Relaxed);
        sheet
    }
    /// Whether every word is zero.
    pub fn is_zero(&self) -> bool {
        // All three: under loom, the wide word is apart from its halves.
        let words = self.parts.iter().all(|words| {
            let [lo, hi] = [words.lo(), words.hi()].map(|w| w.load(Ordering::Relaxed));
            lo == 0 && hi == 0 && words.wide().load(Ordering::Relaxed) == 0
        });
        let mut pages = self.pages.get().into_iter().flatten();
        words && pages.all(PageCount::is_zero)
    }
}

impl Book for Sheet {
    fn order(&self) -> Order {
        self.order
    }
    fn words(&self, part: usize) -> &AccountWords {
        &self.parts[part]
    }
    fn page(&self, i: usize) -> &PageCount {
        let fresh = || {
            let pages = 0..self.order.pages();
            pages.map(|_| PageCount::default()).collect()
        };
        &self.pages.get_or_init(fresh)[i]
    }
}
