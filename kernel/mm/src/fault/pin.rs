//! Pins: pages that somebody holds, whatever becomes of the mappings they were taken from.
//!
//! Each pin is one plain reference of the folio. There are two kinds:
//! - What a pipe holds (vmsplice(2)) reads as shared: memory that may be written stays so and what is written there is seen
//!   through the pin, but a write that has to ask first, after a fork, gets a copy, and the pin keeps what was there. That
//!   is what Linux's vmsplice does.
//! - What a device reads and writes *lasts*: the process and the device go on seeing the same page. Whoever wants such a pin gets the
//!   page for itself first; fork then copies the folio for the child at once, a write that has to ask does not count the pin, and
//!   the page stays where it is. That is what Linux promises for `FOLL_PIN | FOLL_LONGTERM` (core-api/pin_user_pages.rst).

use super::resolve::resolve;
use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Machine, PhysMem};
use crate::folio::Folio;
use crate::frame::zone::For;
use crate::frame::{Kind, Mm, OutOfMemory};
use crate::own::{Account, Owner};
use crate::state::{AddressSpace, Inner};
use crate::table::{Leaf, Rights, lookup, owns, protect_range, split_leaf, unshare};
use crate::tlb::Gather;
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
                self.mm.with_account((head, order), |account, book, meter| {
                    account.add(book, &Owner::PLAIN, 1, meter)
                });
                (Some(head), pfn)
            }
            _ => (Some(Folio::share(&self.mm, head).into_pfn()), pfn),
        };
        Ok(self.pinned(folio, pfn, false))
    }

    /// Pins the page of `addr` for as long as the pin is there: what this process writes there and what is written through the
    /// pin, both see. The page is faulted in as by a user's write, and private memory is this process's alone from then on.
    /// Why it cannot be as a fault would say.
    pub fn pin_lasting(&self, addr: VirtAddr) -> Result<Pin<M>, Resolution> {
        let mut inner = self.inner.lock();
        let pfn = self.page_alone(&mut inner, addr)?;
        let (head, kind, _) = self.mm.frames().folio(pfn);
        if kind != Kind::Anon {
            // Everybody who maps an object's page sees the same.
            let folio = Folio::share(&self.mm, head).into_pfn();
            return Ok(self.pinned(Some(folio), pfn, false));
        }
        inner.pinned = true;
        self.mm.add_lasting(head);
        Ok(self.pinned(Some(head), pfn, true))
    }

    /// The page of `addr`, which may be written; a private one is in a folio of this space alone.
    fn page_alone(&self, inner: &mut Inner<M>, addr: VirtAddr) -> Result<Pfn, Resolution> {
        let write =
            |inner: &mut Inner<M>| resolve(self, inner, addr, (Access::Write, false), false);
        let pfn = write(inner)?;
        let alone = |leaf: &Leaf| owns(&self.mm, &self.id.owner, leaf);
        let leaf = lookup(&self.mm, &inner.table, addr);
        if self.mm.frames().folio(pfn).1 != Kind::Anon || leaf.as_ref().is_some_and(alone) {
            return Ok(pfn);
        }
        // The page is, its folio is not: a write that has to ask gets another.
        self.forbid_writes(inner, addr.align_down(PAGE_SIZE))?;
        write(inner)
    }

    fn forbid_writes(&self, inner: &mut Inner<M>, page: VirtAddr) -> Result<(), OutOfMemory> {
        let Inner { vmas, table, .. } = inner;
        let Some(slot) = vmas.find(page) else {
            return Ok(());
        };
        let rights = Rights {
            base: vmas.get(slot).attrs(),
            writable: false,
            shared: false,
        };
        let range = VirtRange::new(page, page + PAGE_SIZE);
        let mut gather = Gather::new(&self.mm, &self.id);
        let split = split_leaf(&self.mm, table, page, &mut gather);
        if split.is_ok() {
            protect_range(&self.mm, table, range, rights, &mut gather);
        }
        gather.finish();
        split
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
    /// Copies what the page holds now, from byte `offset` on; `offset + into.len()` is at most a page.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        assert!(offset + into.len() <= PAGE_SIZE as usize);
        let at = self.pfn.start() + offset as u64;
        self.mm.machine().mem().read(at, into);
    }
    /// Writes into the page as a device does (of a pin that lasts), from byte `offset` on; `offset + from.len()` is at most a page.
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
            self.mm.sub_lasting(head)
        } else {
            self.mm
                .with_account((head, meta.order()), |account, book, meter| {
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
