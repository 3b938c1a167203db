//! Pins: pages that a pipe holds (vmsplice(2)), whatever becomes of the mappings they were taken from.
//!
//! A pin is one plain reference of the folio, so a pinned folio reads as shared: memory that may be written stays so and what is
//! written there is seen through the pin, but a write that has to ask first, after a fork, gets a copy, and the pin keeps
//! what was there. That is what Linux's vmsplice does.

use super::resolve::resolve;
use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Machine, PhysMem};
use crate::folio::Folio;
use crate::frame::zone::For;
use crate::frame::{Kind, Mm};
use crate::own::{Account, Meter, Owner};
use crate::state::AddressSpace;
use crate::table::unshare;
use crate::tlb::Gather;
use alloc::sync::Arc;

/// A page that stays while this is there.
#[must_use]
pub struct Pin<M: Machine> {
    mm: Arc<Mm<M>>,
    /// Of whom there is a reference; the page of zeros needs none.
    folio: Option<Pfn>,
    pfn: Pfn,
}

impl<M: Machine> AddressSpace<M> {
    /// Pins the page of `addr`, which is faulted in as by a user's read. Why it cannot be as a fault would say.
    pub fn pin(&self, addr: VirtAddr) -> Result<Pin<M>, Resolution> {
        let mut inner = self.inner.lock();
        // A pin keeps what a later write changes: so the entry must be there to be write-protected.
        let page = addr.align_down(PAGE_SIZE);
        let mut gather = Gather::new(&self.mm, &self.id);
        let unshared = unshare(&self.mm, &inner.table, page, For::User, &mut gather);
        gather.finish();
        unshared?;
        let pfn = resolve(self, &mut inner, addr, (Access::Read, false), false)?;
        let (head, kind, order) = self.mm.frames().folio(pfn);
        let (folio, pfn) = match kind {
            // The huge one may go with its last mapping; a page of it looks like the small one.
            Kind::Kernel => (None, self.mm.zero_page()),
            Kind::Anon => {
                let (book, mut meter) = (self.mm.frames().book(head, order), Meter::default());
                self.mm.account().add(&book, &Owner::PLAIN, 1, &mut meter);
                self.mm.metered(meter);
                (Some(head), pfn)
            }
            _ => (Some(Folio::share(&self.mm, head).into_pfn()), pfn),
        };
        self.mm.add_pins(folio.is_some().into());
        let mm = self.mm.clone();
        Ok(Pin { mm, folio, pfn })
    }
}

impl<M: Machine> Pin<M> {
    /// Copies what the page holds now, from byte `offset` on; `offset + into.len()` is at most a page.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        assert!(offset + into.len() <= PAGE_SIZE as usize);
        let at = self.pfn.start() + offset as u64;
        self.mm.machine().mem().read(at, into);
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
        let (book, mut meter) = (self.mm.frames().book(head, meta.order()), Meter::default());
        if self.mm.account().sub(&book, &Owner::PLAIN, 1, &mut meter) {
            self.mm.free(&[head]);
        } else if meta.order() != Order(0) {
            self.mm.defer_split(head);
        }
        self.mm.metered(meter);
    }
}
