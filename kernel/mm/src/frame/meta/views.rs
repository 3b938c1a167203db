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
    /// the lock of the list.
    Links by links of Kind::Free | Kind::Reserved,
    /// A page table.
    TableFrame by page_table of Kind::Table,
    /// The head of a private folio.
    AnonFolio by anon of Kind::Anon,
    /// One page of a private folio, the head or a tail.
    AnonPage by anon_page of Kind::Anon | Kind::Reserved,
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
pub(crate) const TURN: u64 = 1 << 17;

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

impl AnonFolio<'_> {
    /// The virtual page where the folio's first page was mapped, or would have been, when its
    /// mappings were last looked up: a hint for the next lookup.
    #[inline]
    pub(crate) fn index(self) -> Vpn {
        Vpn(self.0.place.load(Ordering::Relaxed))
    }
    /// Sets the hint; under the lock of the space that maps the folio.
    #[inline]
    pub(crate) fn set_index(self, vpn: Vpn) {
        self.0.place.store(vpn.0, Ordering::Relaxed);
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
