//! Pins: pages that somebody holds, whatever becomes of the mappings they were taken from.
//!
//! Each pin is one plain reference of the folio. There are two kinds:
//! - What a pipe holds (vmsplice(2)) reads as shared: memory that may be written stays so and what
//!   is written there is seen through the pin, but a write that has to ask first, after a fork,
//!   gets a copy, and the pin keeps what was there. That is what Linux's vmsplice does.
//! - What a device reads and writes is pinned for the long term: the process and the device go on
//!   seeing the same page. A page that may be written is its process's alone; it is recorded who
//!   pinned it (`frame::lasting`), fork then copies the folio for the child at once, and a write
//!   that has to ask finds the record, and the page stays where it is. That is what Linux promises
//!   for `FOLL_PIN | FOLL_LONGTERM` (core-api/pin_user_pages.rst).

use super::resolve::{Request, resolve};
use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Machine, PhysMem};
use crate::folio::Folio;
use crate::frame::zone::Reserve;
use crate::frame::{Block, Kind};
use crate::manager::Mm;
use crate::own::{Account, Owner};
use crate::space::AddressSpace;
use alloc::sync::Arc;

/// A page that stays while this is there.
#[must_use]
pub struct Pin<M: Machine> {
    mm: Arc<Mm<M>>,
    /// Of whom there is a reference; the page of zeros needs none.
    folio: Option<Pfn>,
    pfn: Pfn,
    lasts: bool,
}

impl<M: Machine> AddressSpace<M> {
    /// Pins the page of `addr`, which is faulted in as by a user's read. Why it cannot be as a
    /// fault would say.
    pub fn pin(&self, addr: VirtAddr) -> Result<Pin<M>, Resolution> {
        let mut inner = self.lock();
        let page = addr.align_down(PAGE_SIZE);
        let pfn = loop {
            // A pin keeps what a later write changes: so the entry must be there to be
            // write-protected.
            let mut gather = inner.gather();
            let unshared = inner.table.edit(&mut gather).unshare(page, Reserve::User);
            gather.finish();
            unshared?;
            let turn = inner.turn();
            let pfn = resolve(&mut inner, Request::new(addr, Access::Read))?;
            // A fork may have shared the table again when the lock was open.
            if inner.turn() == turn {
                break pfn;
            }
        };
        let Block { head, kind, order } = self.mm.frames().folio(pfn);
        let (folio, pfn) = match kind {
            // The huge one may go with its last mapping; a page of it looks like the small one.
            Kind::Kernel => (None, self.mm.zero_page()),
            Kind::Anon => {
                self.mm.with_account(head, order, |account, book, meter| {
                    account.add(book, &Owner::PLAIN, 1, meter)
                });
                (Some(head), pfn)
            }
            _ => (Some(Folio::share(&self.mm, head).into_pfn()), pfn),
        };
        Ok(self.pinned(folio, pfn, false))
    }

    /// Pins the page of `addr` for the long term: what this process writes there and what is
    /// written through the pin, both see, for as long as the process maps the page. It is faulted
    /// in as by a user's write, so private memory is this process's alone from then on. Why it
    /// cannot be as a fault would say.
    pub fn pin_lasting(&self, addr: VirtAddr) -> Result<Pin<M>, Resolution> {
        let mut inner = self.lock();
        let pfn = resolve(&mut inner, Request::new(addr, Access::Write))?;
        let Block { head, kind, .. } = self.mm.frames().folio(pfn);
        if kind != Kind::Anon {
            // Everybody who maps an object's page sees the same.
            let folio = Folio::share(&self.mm, head).into_pfn();
            return Ok(self.pinned(Some(folio), pfn, false));
        }
        self.mm.add_long_term(pfn, &self.id.owner)?;
        inner.pinned = true;
        Ok(self.pinned(Some(head), pfn, true))
    }

    fn pinned(&self, folio: Option<Pfn>, pfn: Pfn, lasts: bool) -> Pin<M> {
        self.mm.add_pins(folio.is_some().into());
        let mm = self.mm.clone();
        Pin {
            mm,
            folio,
            pfn,
            lasts,
        }
    }
}

impl<M: Machine> Pin<M> {
    /// Copies what the page holds now, from byte `offset` on; `offset + into.len()` is at most a
    /// page.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        assert!(offset + into.len() <= PAGE_SIZE as usize);
        let at = self.pfn.start() + offset as u64;
        self.mm.machine().mem().read(at, into);
    }
    /// Writes into the page as a device does (long-term pins), from byte `offset` on; `offset +
    /// from.len()` is at most a page.
    pub fn write(&self, offset: usize, from: &[u8]) {
        assert!(offset + from.len() <= PAGE_SIZE as usize);
        let at = self.pfn.start() + offset as u64;
        self.mm.machine().mem().write(at, from);
    }
}

impl<M: Machine> Drop for Pin<M> {
    fn drop(&mut self) {
        let Some(head) = self.folio.take() else {
            return;
        };
        self.mm.add_pins(-1);
        let meta = self.mm.frames().get(head);
        if meta.kind() != Kind::Anon {
            return Folio::from_pfn(head).free(&self.mm);
        }
        let last = if self.lasts {
            self.mm.sub_long_term(self.pfn)
        } else {
            self.mm
                .with_account(head, meta.order(), |account, book, meter| {
                    account.sub(book, &Owner::PLAIN, 1, meter)
                })
        };
        if last {
            self.mm.free(&[head]);
        } else if meta.order() != Order(0) {
            self.mm.defer_split(head);
        }
    }
}
