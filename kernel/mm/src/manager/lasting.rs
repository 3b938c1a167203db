//! Long-term pins: a device reads and writes the page for as long as it likes, so the process that
//! pinned it must go on seeing the same page, whatever it forks and protects meanwhile (`FOLL_PIN |
//! FOLL_LONGTERM`, core-api/pin_user_pages.rst).
//!
//! # What is recorded
//! A pin is one plain reference in the account, of the folio. The promise is about a *page*, and to
//! the space that pinned it, so the metadata of the page's own frame says how many long-term pins
//! the page has, and whose:
//!
//! ```text
//!   31          17 16                  0
//!  +--------------+---------------------+
//!  | id of pinner | long-term pins      |      0: none
//!  +--------------+---------------------+
//! ```
//! # Invariant
//! No space but the pinner maps the page, and it does so once at most, in a table of its own:
//! 1. A page is pinned when the pinner may write it, so nobody else has it (`fault::pin`).
//! 2. Fork copies what a pinner has of the folio at once, and hands on none of its tables
//!    (`table::copy`).
//! 3. Nothing else maps a private page a second time.
//!
//! So the pinner may write in place, and any space that maps the page is the pinner, also one that
//! shares its id with others ([`MmId::COMMON`]); whoever maps other pages of the folio or has pins
//! of another kind, and whatever the account says of them. When it unmaps the page, or ends, nobody
//! can map it again: the record speaks to nobody then.

use super::{Mm, OutOfMemory};
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
pub(super) struct Lasting {
    /// Held while they come and go, and while somebody counts on them: the account and the records
    /// change together, or an answer might take off a reference that is gone already.
    change: Lock<(), { rank::LASTING }>,
    /// How many there are.
    count: AtomicU64,
}

impl Lasting {
    pub(super) fn new() -> Self {
        Lasting {
            change: Lock::new(()),
            count: AtomicU64::new(0),
        }
    }
}

impl<M: Machine> Mm<M> {
    /// How many long-term pins there are. Relaxed: those of pages that a space maps come under the
    /// lock of the space.
    #[inline]
    pub(crate) fn long_term_pins(&self) -> u64 {
        self.lasting.count.load(Ordering::Relaxed)
    }

    /// One more long-term pin of a private page, which `owner` maps and may write, under the lock
    /// of its space. Fails when the page has as many as can be counted.
    pub(crate) fn add_long_term(&self, page: Pfn, owner: &Owner) -> Result<(), OutOfMemory> {
        let Block { head, order, .. } = self.frames.folio(page);
        let pinner = owner.id().map_or(0, MmId::get);
        let _held = self.lasting.change.lock();
        let meta = self.frames.get(page);
        let before = LongTerm::of(meta).map_or(0, |had| had.pins);
        if before == MOST {
            return Err(OutOfMemory);
        }
        self.with_account(head, order, |account, book, meter| {
            account.add(book, &Owner::PLAIN, 1, meter)
        });
        let pins = before + 1;
        meta.anon_page().set_pins(LongTerm { pinner, pins }.word());
        self.lasting.count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// One less; returns whether it was the folio's last reference, so that the caller frees it.
    pub(crate) fn sub_long_term(&self, page: Pfn) -> bool {
        let Block { head, order, .. } = self.frames.folio(page);
        let _held = self.lasting.change.lock();
        let meta = self.frames.get(page);
        let had = LongTerm::of(meta).expect("a long-term pin is recorded with its page");
        let left = LongTerm {
            pins: had.pins - 1,
            ..had
        };
        meta.anon_page()
            .set_pins(if left.pins == 0 { 0 } else { left.word() });
        self.lasting.count.fetch_sub(1, Ordering::Relaxed);
        self.with_account(head, order, |account, book, meter| {
            account.sub(book, &Owner::PLAIN, 1, meter)
        })
    }

    /// The long-term pins of a page; `None` for one that is not private memory, too.
    #[inline]
    pub(crate) fn long_term(&self, page: Pfn) -> Option<LongTerm> {
        let meta = self.frames.get(page);
        let private = matches!(meta.kind(), Kind::Anon | Kind::Reserved);
        private.then(|| LongTerm::of(meta)).flatten()
    }

    /// Whether a page that `owner` maps, under the lock of its space, has a long-term pin
    /// that it took: no other space has the page.
    #[inline]
    pub(crate) fn pinned_by(&self, page: Pfn, owner: &Owner) -> bool {
        let id = owner.id().map_or(0, MmId::get);
        self.long_term_pins() != 0 && self.long_term(page).is_some_and(|it| it.pinner == id)
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
    /// who maps it and asks under the lock of its space.
    #[cold]
    pub(crate) fn exclusive_but_long_term(&self, head: Pfn, order: Order, owner: &Owner) -> bool {
        let _held = self.lasting.change.lock();
        let pins = self.count_long_term(head, order.pages());
        let book = self.frames.book(head, order);
        pins != 0 && self.account().exclusive_but(&book, owner, pins)
    }
}
