//! The handle of a folio: one counted reference, as a value that must be given back.
//!
//! ```text
//!  Folio (not mapped) --into_pfn, Cursor::install--> mapped (n references, one a page) --zap--> Removed (still in TLBs)
//!     |                                                                                    |
//!     +--free--> the reference is dropped <-------------- tlb::Gather::finish -------------+
//! ```
//! So a mapped folio cannot be freed: the only way back from an entry leads through the flush.

use crate::addr::{Order, Pfn};
use crate::arch::{Machine, PhysMem};
use crate::frame::zone::Reserve;
use crate::frame::{Block, Kind};
use crate::manager::{Mm, Result};
use crate::stat::Event;
use crate::sync;
use crate::thp::Stat;

/// One reference to a folio that is not in a page table. Dropping it without [`Folio::free`] or
/// [`Folio::into_pfn`] is a leak: debug builds panic.
#[must_use]
#[derive(Debug)]
pub struct Folio(Pfn);

impl Folio {
    /// A zeroed page of private memory.
    #[inline]
    pub fn anon<M: Machine>(mm: &Mm<M>) -> Result<Folio> {
        mm.alloc_zeroed(Kind::Anon, Reserve::User).map(Folio)
    }
    /// A zeroed folio of 2^order pages of private memory, with one reference.
    pub fn large<M: Machine>(mm: &Mm<M>, order: Order) -> Result<Folio> {
        let folio = Folio::large_unfilled(mm, order)?;
        mm.zero(folio.0, order);
        Ok(folio)
    }
    /// The same, not zeroed: the caller writes every byte before it is mapped.
    pub(crate) fn large_unfilled<M: Machine>(mm: &Mm<M>, order: Order) -> Result<Folio> {
        let pfn = mm.alloc(order, Kind::Anon, Reserve::User)?;
        mm.count_folios(order, Stat::NrAnon, 1);
        Ok(Folio(pfn))
    }
    /// A page for an object; not zeroed when it is `unfilled`: the caller writes every byte before
    /// it is mapped.
    pub fn object<M: Machine>(mm: &Mm<M>, unfilled: bool) -> Result<Folio> {
        let pfn = match unfilled {
            true => mm.alloc(Order(0), Kind::Object, Reserve::User),
            false => mm.alloc_zeroed(Kind::Object, Reserve::User),
        };
        pfn.map(Folio)
    }
    /// A page of private memory with the contents of `from`.
    #[inline]
    pub fn copy_of<M: Machine>(mm: &Mm<M>, from: Pfn) -> Result<Folio> {
        Folio::copy_from(mm, from, Reserve::User)
    }
    /// A page of private memory with these contents.
    pub(crate) fn filled<M: Machine>(mm: &Mm<M>, bytes: &[u8]) -> Result<Folio> {
        let folio = mm.alloc(Order(0), Kind::Anon, Reserve::User).map(Folio)?;
        mm.machine().mem().write(folio.0.start(), bytes);
        Ok(folio)
    }
    /// The same, with the part of the reserve that this allocation may use.
    #[inline]
    pub(crate) fn copy_from<M: Machine>(mm: &Mm<M>, from: Pfn, reserve: Reserve) -> Result<Folio> {
        let folio = mm.alloc(Order(0), Kind::Anon, reserve).map(Folio)?;
        folio.copy_page(mm, 0, from);
        Ok(folio)
    }
    /// A folio of private memory with the contents of 2^order frames from `from` on.
    pub(crate) fn large_copy<M: Machine>(mm: &Mm<M>, order: Order, from: Pfn) -> Result<Folio> {
        let folio = Folio::large_unfilled(mm, order)?;
        mm.count(Event::Copied, order.pages());
        mm.machine().mem().copy(from, folio.0, order);
        Ok(folio)
    }
    /// A huge page of private memory with the contents of another, from what the pool has beyond
    /// its reservations.
    pub(crate) fn huge_copy<M: Machine>(mm: &Mm<M>, order: Order, from: Pfn) -> Result<Folio> {
        let page = mm.take_huge(order, Kind::Anon, false)?;
        mm.count(Event::Copied, order.pages());
        mm.machine().mem().copy(from, page, order);
        Ok(Folio(page))
    }
    /// Copies a page into one of the folio's.
    pub(crate) fn copy_page<M: Machine>(&self, mm: &Mm<M>, page: u64, from: Pfn) {
        mm.count(Event::Copied, 1);
        mm.machine().mem().copy(from, self.0 + page, Order(0));
    }
    /// Fills one of the folio's pages with zeros.
    pub(crate) fn zero_page<M: Machine>(&self, mm: &Mm<M>, page: u64) {
        mm.zero(self.0 + page, Order(0));
    }
    /// One more reference to a page that a lock or a reference of the caller keeps in place. It may
    /// be any page of an object's folio: the folio has one count.
    pub fn share<M: Machine>(mm: &Mm<M>, pfn: Pfn) -> Folio {
        mm.frames().get(mm.frames().head(pfn)).get_ref();
        Folio(pfn)
    }
    /// Its frame; of an object's folio that of the page that it was asked for.
    #[inline]
    pub fn pfn(&self) -> Pfn {
        self.0
    }
    /// Turns the reference into a frame number to be stored in a page-table entry or an object.
    #[inline(always)]
    pub fn into_pfn(self) -> Pfn {
        let pfn = self.0;
        core::mem::forget(self);
        pfn
    }
    /// Takes over the reference that came with a stored frame number.
    #[inline]
    pub(crate) fn from_pfn(pfn: Pfn) -> Folio {
        Folio(pfn)
    }
    /// Drops the reference, and the page with the last one.
    pub fn free<M: Machine>(self, mm: &Mm<M>) {
        let Block { head, order, .. } = mm.frames().folio(self.into_pfn());
        if mm.frames().get(head).put_ref() {
            mm.free(&[head]);
        } else if order != Order(0) {
            // A pin may have been all that made it look mapped whole.
            mm.defer_split(head);
        }
    }
}

impl Drop for Folio {
    fn drop(&mut self) {
        debug_assert!(
            sync::panicking(),
            "a reference to {:?} was forgotten",
            self.0
        );
    }
}
