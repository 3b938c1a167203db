//! The account of a folio's owners, for any kernel. It answers one question: *is this folio mapped
//! by one address space (MM) only, and are all of its references those mappings?* Then a write
//! fault makes the page writable in place; else it copies.
//!
//! A reference is either a mapping of one page by an MM, or plain ([`Owner::PLAIN`]: the
//! allocator's handle, a pin, a walk). A PMD leaf counts as 512 mappings, so splitting it into PTEs
//! changes nothing.
//!
//! | scheme | its answer "exclusive" | atomic read-modify-writes per update |
//! |---|---|---|
//! | [`Unified`] | exact, and names the owner | 1 |
//! | [`Digits`] | exact | 1 + 2 to 9 (with an exclusive writer: 1 + 2) |
//! | [`TwoSlot`] | never wrongly yes; exact while at most two MMs map the folio | 1 + 1 |
//! | [`FirstOwner`] | never wrongly yes; exact for the MM that mapped the folio first, no for all others | 1 + 1, others' 1 + 2 |
//! | [`Total`] | never wrongly yes; no for ever after the first fork | 1 + 1 |
//! | [`PerPage`] | never wrongly yes; no for ever after the first fork | 1 + 1 or 2 for each page |
//!
//! All but [`Unified`] keep a plain count for order 0 ([`Single`]). Only [`PerPage`] and [`Paged`],
//! which adds it to any other scheme, count the mappings of single pages.
//!
//! # Rules for the caller
//! 1. Add before the page-table entry is written; subtract after it is cleared and no TLB can hold
//!    it any more.
//! 2. [`Account::exclusive`] is asked by an MM that maps the folio, under the lock of its page
//!    tables: fork of this MM cannot run, and the mapping that led here stays.
//! 3. An id is given back ([`Ids::give`]) only after its last mapping is gone, last flush included.
//!    Any number of address spaces may have [`MmId::COMMON`]: they copy where others would not, and
//!    never write in place wrongly.
//! 4. Splitting a folio first gives each part an account of its own: the account says nothing about
//!    single pages.
//!
//! # The words
//! The account owns 16 bytes in the metadata of each frame of a folio ([`AccountWords`]). Which of
//! them a scheme uses for which order is fixed while the folio lives, and said on each scheme's
//! page. A private folio that is not mapped yet is in no format: it has a plain count in the first
//! word, and [`Account::begin`] replaces it.

#![no_std]

// The host's thread-local storage, for the models.
#[cfg(any(test, loom, feature = "mutants"))]
extern crate std;

mod count;
mod counted;
mod digits;
mod first_owner;
mod ids;
pub mod mutant;
mod paged;
mod pages;
mod per_page;
mod seqcount;
pub mod sync;
mod total;
mod two_slot;
mod unified;
mod words;

pub use count::Single;
pub use digits::Digits;
pub use first_owner::FirstOwner;
pub use ids::Ids;
pub use paged::Paged;
pub use pages::{By, PageCount, Part};
pub use per_page::PerPage;
pub use total::Total;
pub use two_slot::TwoSlot;
pub use unified::{Unified, WIDE_ORDERS};
pub use words::{AccountWords, AtomicU128};

use core::ops::AddAssign;
use mutant::Mutant;

/// log2 of the pages of a folio.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Order(pub u8);

impl Order {
    /// 2^order pages.
    #[inline]
    pub const fn pages(self) -> u64 {
        1 << self.0
    }
}

/// The id of an address space in the account: 1..=32766 is one space's, [`MmId::COMMON`] is shared
/// by all that got no id of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MmId(u16);

impl MmId {
    /// Bits of an id.
    pub const BITS: u32 = 15;
    /// The highest id, that any number of address spaces share: the account does not distinguish
    /// them, so a folio is theirs alone only by its number of references
    /// ([`Account::exclusive_but`]).
    pub const COMMON: MmId = MmId((1 << Self::BITS) - 1);
    /// The highest id that is one address space's.
    pub const LAST: u16 = Self::COMMON.0 - 1;

    /// The id of this number; `None` outside of 1..=32767.
    #[inline]
    pub const fn new(number: u16) -> Option<MmId> {
        if number >= 1 && number <= Self::COMMON.0 {
            Some(MmId(number))
        } else {
            None
        }
    }
    /// Its number.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The owner of a reference, with the values that the schemes derive from its id, computed once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The id; 0 for plain references.
    id: u16,
    /// What one reference weighs in the ownership word of folios up to [`unified::NARROW_ORDERS`].
    narrow: u64,
    /// What one reference weighs in the ownership word of larger folios.
    wide: u128,
    /// The sub-ids for 1, 2 and 3 values.
    subids: digits::Stored,
}

impl Owner {
    /// A reference that is no mapping: a handle, a pin, a walk.
    pub const PLAIN: Owner = Owner::of(0);

    /// Mappings of this address space.
    pub const fn new(id: MmId) -> Owner {
        Owner::of(id.0)
    }
    /// The address space; `None` for plain references.
    #[inline]
    pub const fn id(&self) -> Option<MmId> {
        MmId::new(self.id)
    }
    /// Whether it is the id that several address spaces may have: two such owners compare equal and
    /// need not be the same space.
    #[inline]
    pub const fn is_common(&self) -> bool {
        self.id == MmId::COMMON.0
    }
    /// 1 for mappings, 0 for plain references.
    #[inline]
    const fn mapped(&self) -> u64 {
        (self.id != 0) as u64
    }
    const fn of(id: u16) -> Owner {
        Owner {
            id,
            narrow: unified::NARROW.weight(id) as u64,
            wide: unified::WIDE.weight(id),
            subids: digits::stored(id),
        }
    }
}

/// The cost of operations; the caller adds it to the counters, once for each batch.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Meter {
    /// Updates of a folio's account.
    pub updates: u32,
    /// Atomic read-modify-writes. A loop around a compare-exchange counts once, however often it
    /// went round.
    pub rmws: u32,
}

impl Meter {
    /// One update that took so many read-modify-writes.
    #[inline]
    fn update(&mut self, rmws: u32) {
        self.updates += 1;
        self.rmws += rmws;
    }
    /// More of an update that is counted already.
    #[inline]
    fn more(&mut self, rmws: u32) {
        self.rmws += rmws;
    }
}

impl AddAssign for Meter {
    #[inline]
    fn add_assign(&mut self, other: Meter) {
        self.updates += other.updates;
        self.rmws += other.rmws;
    }
}

/// Where the account of one folio stands.
pub trait Book {
    /// The folio has 2^order pages.
    fn order(&self) -> Order;
    /// The words in the metadata of one of its frames: part 0 is the head, 1..2^order are the
    /// tails.
    fn words(&self, part: usize) -> &AccountWords;
    /// What is counted for page `i`, where there is room for that.
    fn page(&self, i: usize) -> &PageCount {
        unreachable!("nobody counts the mappings of page {i}")
    }
}

/// How a caller that has several pages of one folio hands them to the account (seed "batch-copy
/// PTEs", where both came one after the other).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batching {
    /// All references at once, not one by one.
    pub refs: bool,
    /// All mappings at once, not one by one.
    pub maps: bool,
}

/// A scheme of keeping the account. `n` counts pages (base pages, 4 KiB each), at most as many as
/// the folio has. A scheme says what references and mappings cost each ([`Account::refer`] to
/// [`Account::unrefer`]); callers use the verbs made of them.
///
/// Plain stores and relaxed adds are enough where the caller already has a reference; a subtraction
/// releases what its owner did to the pages, and the drop of the last reference, or the answer that
/// a folio is exclusive, acquires it.
pub trait Account {
    /// Whether it counts the mappings of single pages.
    #[inline]
    fn counts_pages(&self) -> bool {
        false
    }

    /// The first mappings of a folio that only the caller can reach, by plain stores. All words of
    /// the format are written: what was there does not matter, and the plain count of an unmapped
    /// folio is gone.
    fn begin(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter);

    /// The references of [`Account::map`]: first.
    fn refer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter);
    /// Its mappings, for schemes that keep them apart from the references: then. Part of the same
    /// update.
    #[inline]
    fn enter(&self, _: &impl Book, _: &Owner, _: Part, _: &mut Meter) {}
    /// Mappings by an owner that maps the pages already, by a leaf that is about to go: the folio
    /// gets no new owner.
    #[inline]
    fn enter_again(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        self.enter(book, who, part, meter);
    }
    /// The mappings of [`Account::unmap`]: first.
    #[inline]
    fn leave(&self, _: &impl Book, _: &Owner, _: Part, _: &mut Meter) {}
    /// Its references: then. True: none are left, and every word of the format is zero again.
    fn unrefer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) -> bool;

    /// The pages of `part` are about to be mapped by `who`; plain ones by a table that several
    /// spaces have. The caller has a reference already or holds the lock of one that does.
    // In place: both are in the loops of fork and unmapping, where a scheme is a constant.
    #[inline(always)]
    fn map(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        self.refer(book, who, part.n, meter);
        self.enter(book, who, part, meter);
    }
    /// They are not any more. True: no references are left, every word of the format is zero again,
    /// and the caller frees the folio.
    #[inline(always)]
    fn unmap(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) -> bool {
        self.leave(book, who, part, meter);
        self.unrefer(book, who, part.n, meter)
    }
    /// `n` more references by `who` that no entries stand for.
    #[inline]
    fn add(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
        self.map(book, who, Part::nothing(n), meter);
    }
    /// `n` of them less; as [`Account::unmap`].
    #[inline]
    fn sub(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) -> bool {
        self.unmap(book, who, Part::nothing(n), meter)
    }

    /// [`Account::map`], at once or page by page.
    fn map_by(&self, by: Batching, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
        match by.refs {
            true => self.refer(book, who, part.n, meter),
            false => (0..part.n).for_each(|_| self.refer(book, who, 1, meter)),
        }
        // A leaf is one entry.
        match by.maps || part.by == By::Leaf {
            true => self.enter(book, who, part, meter),
            false => part
                .each()
                .for_each(|page| self.enter(book, who, page, meter)),
        }
    }
    /// [`Account::unmap`], at once or page by page.
    fn unmap_by(
        &self,
        by: Batching,
        book: &impl Book,
        who: &Owner,
        part: Part,
        meter: &mut Meter,
    ) -> bool {
        match by.maps || part.by == By::Leaf {
            true => self.leave(book, who, part, meter),
            false => part
                .each()
                .for_each(|page| self.leave(book, who, page, meter)),
        }
        match by.refs {
            true => self.unrefer(book, who, part.n, meter),
            false => (0..part.n).any(|_| self.unrefer(book, who, 1, meter)),
        }
    }

    /// `n` references of `from` become `to`'s. The entries that map the pages stay.
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32, meter: &mut Meter);

    /// How many references there are, plain ones included. Exact up to 2^order; above, [`Unified`]
    /// may say too many.
    fn references(&self, book: &impl Book) -> u64;

    /// Whether all references are mappings by `who`, which maps the folio; the caller holds the
    /// lock of its page tables. A scheme that cannot decide answers no.
    #[inline]
    fn exclusive(&self, book: &impl Book, who: &Owner) -> bool {
        self.exclusive_but(book, who, 0)
    }

    /// Whether all references but `plain` plain ones, which the caller knows to be there for as
    /// long as it asks, are mappings by `who`: as [`Account::exclusive`].
    ///
    /// This is the only place that treats [`MmId::COMMON`], for all schemes: mappings by that id
    /// may be several spaces', so their sum decides nothing. But `who` maps the folio: one
    /// reference beside the plain ones is its own.
    #[inline]
    fn exclusive_but(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
        // Of a single page there is one reference in any case, or several: the schemes know without
        // ids.
        let nameless = book.order() != Order(0) && who.is_common();
        if nameless && !mutant::on(Mutant::CommonIsOne) {
            return one_reference(self, book, plain);
        }
        self.all_are(book, who, plain)
    }

    /// The one address space that all references are mappings of, found without a candidate; `None`
    /// when there are several, or the scheme cannot decide. Never [`MmId::COMMON`].
    #[inline]
    fn owner(&self, book: &impl Book) -> Option<MmId> {
        self.same_id(book).filter(|id| *id != MmId::COMMON)
    }

    /// Whether all references but `plain` plain ones are mappings by the id of `who`, as far as the
    /// scheme can decide: what [`Account::exclusive_but`] asks for an id that is one address
    /// space's. Of a single page: whether there is one.
    fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool;

    /// The id that all references are mappings by, if the scheme can decide: what
    /// [`Account::owner`] asks.
    fn same_id(&self, book: &impl Book) -> Option<MmId>;

    /// Whether the words say just this: every holder, once each, with its references. For checks
    /// while nothing updates; a folio that is kept for ever agrees with everything.
    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool;

    /// A PMD leaf of the folio becomes PTEs.
    fn split_leaf(&self, _: &impl Book, _: &mut Meter) {}
    /// How many entries map page `i`, leaves included; `None` from a scheme that does not count
    /// them, and of order 0.
    fn page_count(&self, _: &impl Book, _: usize) -> Option<u32> {
        None
    }
    /// The folio is about to be split, or freed in parts: nothing is counted for its pages any
    /// more.
    fn forget_pages(&self, _: &impl Book) {}
}

/// Whether there is one reference beside the plain ones. Out of line: rare, and the common path
/// stays short.
#[cold]
#[inline(never)]
fn one_reference(account: &(impl Account + ?Sized), book: &impl Book, plain: u64) -> bool {
    account.references(book).wrapping_sub(plain) == 1
}

/// All references that are held, and how many of them are mappings.
fn sums(held: &[(Owner, u64)]) -> (u64, u64) {
    held.iter().fold((0, 0), |(all, mapped), (who, n)| {
        (all + n, mapped + n * who.mapped())
    })
}

#[cold]
fn kept(order: Order) {
    log::error!(
        "a folio of order {} has more references than its account can hold: it is kept for ever, and reads as shared",
        order.0
    );
}
