//! Pins: references to pages that outlive the mappings they were taken from.
//!
//! Each pin is one plain reference of the folio. There are two kinds:
//! - A pipe's pin (vmsplice(2)) reads the page as shared: writable memory stays writable and
//!   writes are seen through the pin, but a write fault after a fork copies the page, and the pin
//!   keeps the old one, as with Linux's vmsplice.
//! - A device's pin is long-term: the process and the device keep sharing the page, which
//!   `manager::long_term` records. A private page becomes the space's alone first, whether the
//!   device writes it or only reads it.

use super::request::Request;
use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Machine, PhysMem};
use crate::folio::Folio;
use crate::frame::zone::Reserve;
use crate::frame::{Block, Kind};
use crate::manager::{Family, Mm};
use crate::space::{AddressSpace, Locked};
use crate::table::Cursor;
use crate::vma::Vma;
use alloc::sync::Arc;

/// A pinned page.
#[must_use]
pub struct Pin<M: Machine> {
    mm: Arc<Mm<M>>,
    family: Arc<Family>,
    /// The folio referenced; `None` for the zero page.
    folio: Option<Pfn>,
    pfn: Pfn,
    long_term: bool,
}

impl<M: Machine> AddressSpace<M> {
    /// Pins the page of `addr`, faulted in as for a user's read, in the space of the running
    /// thread: its protection keys count. Errors as of a fault. May wait for a claim, so the caller
    /// holds no lock.
    pub fn pin(&self, addr: VirtAddr) -> Result<Pin<M>, Resolution> {
        self.after_claim(|| self.pin_now(addr))
    }

    /// Takes a long-term pin of the page of `addr`, of which the holder only reads, or writes: the
    /// process and the holder share its contents for as long as the process maps it. Errors as of
    /// a fault. May wait as [`Self::pin`] does.
    pub fn pin_long_term(&self, addr: VirtAddr, access: Access) -> Result<Pin<M>, Resolution> {
        self.after_claim(|| self.pin_long_term_now(addr, access))
    }

    fn pin_now(&self, addr: VirtAddr) -> Result<Pin<M>, Resolution> {
        let mut inner = self.lock();
        // A pin keeps the old contents on a later write: the entry must be private to be
        // write-protected.
        let pfn = inner.resolve_unshared(addr)?;
        let Block { head, kind, order } = self.mm.frames().folio(pfn);
        let (folio, pfn) = match kind {
            // The huge zero page may be freed with its last mapping; the small one is equal.
            Kind::Kernel => (None, self.mm.zero_page()),
            Kind::Anon => {
                self.mm.add_plain(head, order);
                (Some(head), pfn)
            }
            _ => (Some(Folio::share(&self.mm, head).into_pfn()), pfn),
        };
        Ok(self.pinned(folio, pfn, false))
    }

    /// Calls `f` with the page of `addr`, which is in a table of its own, faulted in as for a
    /// user's read, under the lock. May wait as [`Self::pin`] does.
    pub(crate) fn with_page<R>(
        &self,
        addr: VirtAddr,
        mut f: impl FnMut(&mut Locked<'_, M>, Pfn) -> R,
    ) -> Result<R, Resolution> {
        self.after_claim(|| {
            let mut inner = self.lock();
            let pfn = inner.resolve_unshared(addr)?;
            Ok(f(&mut inner, pfn))
        })
    }

    fn pin_long_term_now(&self, addr: VirtAddr, access: Access) -> Result<Pin<M>, Resolution> {
        let mut inner = self.lock();
        let pfn = match access {
            Access::Write => {
                inner.check_key(addr, access)?;
                inner.resolve(Request::new(addr, access))?
            }
            _ => inner.resolve_exclusive(addr)?,
        };
        let Block { head, kind, .. } = self.mm.frames().folio(pfn);
        if kind != Kind::Anon {
            // All mappings of an object's page are coherent.
            let folio = Folio::share(&self.mm, head).into_pfn();
            return Ok(self.pinned(Some(folio), pfn, false));
        }
        self.mm.add_long_term(pfn, &self.id.owner)?;
        inner.pinned = true;
        Ok(self.pinned(Some(head), pfn, true))
    }

    fn pinned(&self, folio: Option<Pfn>, pfn: Pfn, long_term: bool) -> Pin<M> {
        let (mm, family) = (self.mm.clone(), self.id.family.clone());
        mm.add_pins(folio.is_some().into());
        family.add_pins(folio.is_some().into());
        Pin {
            mm,
            family,
            folio,
            pfn,
            long_term,
        }
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Makes a read of `addr` possible, by a table that no other space has.
    fn resolve_unshared(&mut self, addr: VirtAddr) -> Result<Pfn, Resolution> {
        let page = addr.align_down(PAGE_SIZE);
        loop {
            self.edit(|edit| edit.unshare(page, Reserve::User))?;
            let turn = self.turn();
            self.check_key(addr, Access::Read)?;
            let pfn = self.resolve(Request::new(addr, Access::Read))?;
            // A fork may have shared the table while the lock was released.
            if self.turn() == turn {
                return Ok(pfn);
            }
        }
    }

    /// Makes a read of `addr` possible, and its page this space's alone unless the mapping is
    /// shared. What others have, an object or zeros, is copied as for a write, also where the VMA
    /// allows none: the copy counts as written. What a userfaultfd protects stays protected.
    fn resolve_exclusive(&mut self, addr: VirtAddr) -> Result<Pfn, Resolution> {
        let pfn = self.resolve_unshared(addr)?;
        if self.vmas.at(addr).is_some_and(Vma::shared) || self.has_alone(addr) {
            return Ok(pfn);
        }
        self.resolve(Request {
            force: true,
            markers_passed: true,
            ..Request::new(addr, Access::Write)
        })
    }

    /// Whether the page of `addr`, mapped by a table of this space alone, is private and no other
    /// space's.
    fn has_alone(&mut self, addr: VirtAddr) -> bool {
        let (space, page) = (self.space, addr.align_down(PAGE_SIZE));
        let (mm, owner) = (&space.mm, &space.id.owner);
        let leaf = Cursor::new(mm, &mut self.table, page).leaf();
        leaf.is_some_and(|leaf| mm.owns(owner, &leaf) || mm.pinned_by(leaf.pfn, owner))
    }
}

impl<M: Machine> Pin<M> {
    /// The frame of the page.
    pub fn frame(&self) -> Pfn {
        self.pfn
    }
    /// Copies bytes of the page from `offset` on; `offset + into.len()` is at most a page.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        assert!(offset + into.len() <= PAGE_SIZE as usize);
        let at = self.pfn.start() + offset as u64;
        self.mm.machine().mem().read(at, into);
    }
    /// Writes bytes of the page from `offset` on, as a device does (long-term pins); `offset +
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
        self.family.add_pins(-1);
        let (kind, order) = self.mm.frames().get(head).kind_and_order();
        if kind != Kind::Anon {
            Folio::from_pfn(head).free(&self.mm);
        } else {
            self.drop_private(head, order);
        }
        // Afterwards: whoever marks it looks for references then.
        if self.mm.frames().get(self.pfn).is_hwpoison() {
            self.mm.unpinned(self.pfn);
        }
    }
}

impl<M: Machine> Pin<M> {
    /// Drops the pin of a private folio.
    fn drop_private(&self, head: Pfn, order: Order) {
        let last = match self.long_term {
            true => self.mm.sub_long_term(self.pfn),
            false => self.mm.sub_plain(head, order),
        };
        if last {
            self.mm.free(&[head]);
        } else if order != Order(0) {
            self.mm.defer_split(head);
        }
    }
}
