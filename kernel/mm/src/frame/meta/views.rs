//! Views of a frame's metadata, one type for each use of the words that mean different things for
//! different kinds of frames. A view is a reference and costs nothing; debug builds check the kind
//! when it is made.

use super::{COPIED_AROUND, FrameMeta, Kind};
use crate::addr::Vpn;
use crate::sync::{AccountWords, BitGuard, Ordering, Turns, rank};
use core::ops::Deref;

macro_rules! views {
    ($($(#[$doc:meta])* $view:ident by $method:ident of $kinds:pat,)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $view<'a>(&'a FrameMeta);)*

        impl FrameMeta {
            $($(#[$doc])*
            #[inline]
            pub(crate) fn $method(&self) -> $view<'_> {
                debug_assert!(matches!(self.kind(), $kinds), "{self:?}");
                $view(self)
            })*
        }
    };
}
views! {
    /// The links of a frame in a [list](crate::frame::list), by indices in the frame table: of a
    /// free block in its free list, of a folio's first tail on the queue of deferred splits. Under
    /// the lock of the list; of a span of the store in its class's.
    Links by links of Kind::Free | Kind::Reserved | Kind::Kernel,
    /// A page table.
    TableFrame by page_table of Kind::Table,
    /// The head of a private folio.
    AnonFolio by anon of Kind::Anon,
    /// One page of a private folio, or one of its slots, the head or a tail.
    AnonPage by anon_page of Kind::Anon | Kind::Swap | Kind::Reserved,
    /// A swap slot, the first of a block or another.
    Slot by slot of Kind::Swap | Kind::Reserved,
    /// A frame of a span ([`crate::manager::store`]).
    Span by span of Kind::Kernel,
}

impl Links<'_> {
    /// The next frame in the list.
    #[inline]
    pub(crate) fn next(self) -> u32 {
        self.0.place.load(Ordering::Relaxed) as u32
    }
    /// The previous frame in the list.
    #[inline]
    pub(crate) fn prev(self) -> u32 {
        (self.0.place.load(Ordering::Relaxed) >> 32) as u32
    }
    /// Writes both.
    #[inline(always)]
    pub(crate) fn set(self, next: u32, prev: u32) {
        let links = u64::from(next) | u64::from(prev) << 32;
        self.0.place.store(links, Ordering::Relaxed);
    }
}

/// The lock of a table: a bit beside the count of its entries.
const LOCKED: u32 = 1 << 31;
/// One turn of the lock: beside the note, whose upper bits are free while the table is not shared.
pub(crate) const TURN: u64 = 1 << 18;

impl<'a> TableFrame<'a> {
    /// Locks the table, for a CPU that has the space's lock as a reader only.
    #[inline]
    pub(crate) fn lock(self) -> BitGuard<'a, { rank::NODE }> {
        BitGuard::lock(&self.0.count, LOCKED, self.turns())
    }
    /// The turns of its lock, while no other space shares it and this one stays locked.
    #[inline]
    pub(crate) fn turns(self) -> Turns<'a> {
        Turns::new(&self.0.place, TURN)
    }
    /// Entries that are not absent. Under the space's lock or the table's, as the other methods.
    #[inline]
    pub(crate) fn live(self) -> u32 {
        self.0.count.load(Ordering::Relaxed) & !LOCKED
    }
    /// Sets the count of entries that are not absent, under the space's lock.
    #[inline]
    pub(crate) fn set_live(self, n: u32) {
        self.0.count.store(n, Ordering::Relaxed);
    }
    /// Adds `n` to it; wraps around, for subtraction.
    #[inline(always)]
    pub(crate) fn add_live(self, n: u32) {
        let count = self.0.count.load(Ordering::Relaxed);
        self.0.count.store(count.wrapping_add(n), Ordering::Relaxed);
    }
    /// The record of `table::note` about the spaces that share the table.
    #[inline]
    pub(crate) fn note(self) -> u64 {
        self.0.place.load(Ordering::Relaxed)
    }
    /// Sets the record.
    #[inline]
    pub(crate) fn set_note(self, note: u64) {
        self.0.place.store(note, Ordering::Relaxed);
    }
}

/// A page table's references are counted plainly.
impl Deref for TableFrame<'_> {
    type Target = FrameMeta;
    #[inline]
    fn deref(&self) -> &FrameMeta {
        self.0
    }
}

/// Above the index of a private folio: the place of its slots in the frame table, or 0.
const SLOTS_AT: u32 = 36;

/// The index in a private folio's word.
#[inline]
pub(super) fn index_of(word: u64) -> Vpn {
    Vpn(word & ((1 << SLOTS_AT) - 1))
}

/// The place of its slots there, if it has any.
#[inline]
pub(super) fn slots_of(word: u64) -> Option<u32> {
    let slots = (word >> SLOTS_AT) as u32;
    (slots != 0).then_some(slots)
}

impl AnonFolio<'_> {
    /// The virtual page where the folio's first page was mapped, or would have been, when its
    /// mappings were last looked up: a hint for the next lookup.
    #[inline]
    pub(crate) fn index(self) -> Vpn {
        index_of(self.0.place.load(Ordering::Relaxed))
    }
    /// Sets the hint of a folio that only the caller can reach, and which has no slots.
    #[inline]
    pub(crate) fn set_index(self, vpn: Vpn) {
        self.0.place.store(vpn.0, Ordering::Relaxed);
    }
    /// Changes the hint; under the lock of a space that maps the folio.
    pub(crate) fn change_index(self, vpn: Vpn) {
        self.change_place(|word| word & !0 << SLOTS_AT | vpn.0);
    }
    /// The place of its slots in the frame table, if it has any.
    #[inline]
    pub(crate) fn slots(self) -> Option<u32> {
        slots_of(self.0.place.load(Ordering::Relaxed))
    }
    /// Sets it; under the lock of all slots.
    pub(crate) fn set_slots(self, slots: Option<u32>) {
        let slots = u64::from(slots.unwrap_or(0)) << SLOTS_AT;
        self.change_place(|word| index_of(word).0 | slots);
    }
    /// Index and slots change under different locks.
    fn change_place(self, f: impl Fn(u64) -> u64) {
        let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        // It never fails.
        let _ = self
            .0
            .place
            .fetch_update(order, failed, |word| Some(f(word)));
    }
    /// Records that the folio holds copies of which only one page was asked for; before it is
    /// mapped.
    pub(crate) fn set_copied_around(self) {
        self.0.set_flag(COPIED_AROUND, true);
    }
}

impl<'a> AnonPage<'a> {
    /// The words of the folio's account in this frame.
    #[inline]
    pub(crate) fn words(self) -> &'a AccountWords {
        &self.0.words
    }
    /// The record of the page's long-term pins.
    #[inline]
    pub(crate) fn pins(self) -> u32 {
        self.0.count.load(Ordering::Relaxed)
    }
    /// Sets the record; under the lock of all long-term pins.
    pub(crate) fn set_pins(self, record: u32) {
        self.0.count.store(record, Ordering::Relaxed);
    }
}

impl Slot<'_> {
    /// Where the contents of the slot are; under the lock of all slots.
    #[inline]
    pub(crate) fn word(self) -> u64 {
        self.0.place.load(Ordering::Relaxed)
    }
    /// Sets it.
    #[inline]
    pub(crate) fn set_word(self, word: u64) {
        self.0.place.store(word, Ordering::Relaxed);
    }
    /// The pages of its unit that were mapped again since it was parked or brought back, by a bit
    /// for each, of the unit's first slot; or [`crate::frame::slots::IN_PAGES`].
    pub(crate) fn used(self) -> u32 {
        self.0.count.load(Ordering::Relaxed)
    }
    /// Sets them.
    pub(crate) fn set_used(self, used: u32) {
        self.0.count.store(used, Ordering::Relaxed);
    }
    /// Clears some of them.
    pub(crate) fn forget(self, bits: u32) {
        self.set_used(self.used() & !bits);
    }
}

/// Above the objects of a span that are in use: their size.
const CLASS_AT: u32 = 56;

impl Span<'_> {
    /// The size of its objects, in steps; 0 of a frame that is not the first. Under the lock of the
    /// store, as the other methods.
    pub(crate) fn class(self) -> usize {
        (self.0.words.hi().load(Ordering::Relaxed) >> CLASS_AT) as usize
    }
    /// The objects of it that are in use, one bit each.
    pub(crate) fn used(self) -> u64 {
        self.0.words.hi().load(Ordering::Relaxed) & ((1 << CLASS_AT) - 1)
    }
    /// Sets both.
    pub(crate) fn set(self, class: usize, used: u64) {
        let word = (class as u64) << CLASS_AT | used;
        self.0.words.hi().store(word, Ordering::Relaxed);
    }
    /// The next frame, by its index in the frame table.
    pub(crate) fn next(self) -> u32 {
        self.0.count.load(Ordering::Relaxed)
    }
    /// Of a frame that is not the first, that, and how many lie between.
    pub(crate) fn first(self) -> (u32, u64) {
        let word = self.0.place.load(Ordering::Relaxed);
        (word as u32, word >> 32)
    }
    /// Sets what comes behind a frame, and what before.
    pub(crate) fn link(self, next: u32, first: Option<(u32, u64)>) {
        self.0.count.store(next, Ordering::Relaxed);
        if let Some((first, n)) = first {
            self.0
                .place
                .store(u64::from(first) | n << 32, Ordering::Relaxed);
        }
    }
}
