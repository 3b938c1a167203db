//! Long-term pins: a device may read and write the page without a limit in time, so the process
//! that pinned it must keep mapping the same page, across forks and changes of protection
//! (`FOLL_PIN | FOLL_LONGTERM`, core-api/pin_user_pages.rst): fork copies the folio for the child
//! at once, and a write fault finds the record and reuses the page.
//!
//! # The record
//! A pin is one plain reference in the folio's account. The promise is about a *page*, to the space
//! that pinned it, so the metadata of the page's own frame records the number of its long-term pins
//! and the id of the space:
//!
//! ```text
//!   31          17 16                  0
//!  +--------------+---------------------+
//!  | id of pinner | long-term pins      |      0: none
//!  +--------------+---------------------+
//! ```
//! # Invariant
//! No space but the pinner maps the page, and it does so once at most, in a table of its own:
//! 1. A page is pinned when it is the pinner's alone: no other space maps it (`fault::pin`).
//! 2. Fork copies the pinner's pages of the folio at once, and shares none of its tables
//!    (`table::fork`).
//! 3. Nothing else maps a private page a second time.
//!
//! So a space that maps the page is the pinner, also where it shares its id with others
//! ([`MmId::COMMON`]), and may write in place, regardless of the account, which has mappings of the
//! folio's other pages and pins of another kind, too. When the pinner unmaps the page, or ends, the
//! page cannot be mapped again, and the record is of no use any more.

use super::{Mm, OutOfMemory, Result};
use crate::addr::{Order, Pfn};
use crate::arch::Machine;
use crate::frame::{Block, FrameMeta, Kind};
use crate::own::{Account, MmId, Owner};
use crate::sync::{AtomicU64, Lock, Ordering, rank};

/// Where the pinner's id begins.
const ID_AT: u32 = 32 - MmId::BITS;
/// The most long-term pins of one page.
const MOST: u32 = (1 << ID_AT) - 1;

/// The long-term pins of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LongTerm {
    /// The space that pinned it.
    pub pinner: u16,
    /// How many there are, not 0.
    pub pins: u32,
}

impl LongTerm {
    fn of(meta: &FrameMeta) -> Option<LongTerm> {
        let word = meta.anon_page().pins();
        (word != 0).then_some(LongTerm {
            pinner: (word >> ID_AT) as u16,
            pins: word & MOST,
        })
    }
    fn word(self) -> u32 {
        u32::from(self.pinner) << ID_AT | self.pins
    }
}

/// All long-term pins.
#[derive(Default)]
pub(super) struct LongTermPins {
    /// Held while pins are added and dropped, and while [`Mm::exclusive_but_long_term`] counts
    /// them: account and records change together, or it might subtract a reference that is gone.
    change: Lock<(), { rank::LONG_TERM }>,
    /// The number of long-term pins.
    count: AtomicU64,
}

impl<M: Machine> Mm<M> {
    /// The number of long-term pins. Relaxed: those of pages that a space maps are added under the
    /// lock of the space.
    #[inline]
    pub(crate) fn long_term_pins(&self) -> u64 {
        self.long_term.count.load(Ordering::Relaxed)
    }

    /// One more long-term pin of a private page, which `owner` maps and no other space does, under
    /// the lock of its space. Fails when the page has as many as can be counted.
    pub(crate) fn add_long_term(&self, page: Pfn, owner: &Owner) -> Result {
        let Block { head, order, .. } = self.frames().folio(page);
        let pinner = owner.id().map_or(0, MmId::get);
        let _held = self.long_term.change.lock();
        let meta = self.frames().get(page);
        let before = LongTerm::of(meta).map_or(0, |had| had.pins);
        if before == MOST {
            return Err(OutOfMemory);
        }
        self.add_plain(head, order);
        let pins = before + 1;
        meta.anon_page().set_pins(LongTerm { pinner, pins }.word());
        self.long_term.count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// One less; returns whether it was the folio's last reference, so that the caller frees it.
    pub(crate) fn sub_long_term(&self, page: Pfn) -> bool {
        let Block { head, order, .. } = self.frames().folio(page);
        let _held = self.long_term.change.lock();
        let meta = self.frames().get(page);
        let had = LongTerm::of(meta).expect("a long-term pin is recorded with its page");
        let left = LongTerm {
            pins: had.pins - 1,
            ..had
        };
        meta.anon_page()
            .set_pins(if left.pins == 0 { 0 } else { left.word() });
        self.long_term.count.fetch_sub(1, Ordering::Relaxed);
        self.sub_plain(head, order)
    }

    /// The long-term pins of a page; `None` for one that is not private memory, too.
    #[inline]
    pub(crate) fn long_term(&self, page: Pfn) -> Option<LongTerm> {
        let meta = self.frames().get(page);
        let private = matches!(meta.kind(), Kind::Anon | Kind::Reserved);
        private.then(|| LongTerm::of(meta)).flatten()
    }

    /// Whether a page that `owner` maps, under the lock of its space, has a long-term pin that it
    /// took: no other space has the page, or any of a huge page.
    #[inline]
    pub(crate) fn pinned_by(&self, page: Pfn, owner: &Owner) -> bool {
        self.long_term_pins() != 0 && self.any_pinned_by(page, owner)
    }

    #[cold]
    fn any_pinned_by(&self, page: Pfn, owner: &Owner) -> bool {
        let Block { head, order, .. } = self.frames().folio(page);
        let (first, pages) = match self.frames().get(head).is_hugetlb() {
            true => (head, order.pages()),
            false => (page, 1),
        };
        let id = owner.id().map_or(0, MmId::get);
        let by_owner = |page| self.long_term(page).is_some_and(|it| it.pinner == id);
        (0..pages).any(|n| by_owner(first + n))
    }

    /// Whether any of `pages` pages of one private folio has a long-term pin.
    #[inline]
    pub(crate) fn any_long_term(&self, first: Pfn, pages: u64) -> bool {
        self.long_term_pins() != 0 && self.count_long_term(first, pages) != 0
    }

    #[cold]
    fn count_long_term(&self, first: Pfn, pages: u64) -> u64 {
        let pins = |page| self.long_term(first + page).map_or(0, |it| it.pins.into());
        (0..pages).map(pins).sum()
    }

    /// Whether all references of a private folio but its long-term pins are mappings by `owner`,
    /// which maps it. Under the lock of its space.
    #[cold]
    pub(crate) fn exclusive_but_long_term(&self, head: Pfn, order: Order, owner: &Owner) -> bool {
        let _held = self.long_term.change.lock();
        let pins = self.count_long_term(head, order.pages());
        let book = self.frames().book(head, order);
        pins != 0 && self.account().exclusive_but(&book, owner, pins)
    }
}
