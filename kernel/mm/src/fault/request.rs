//! What all parts of a fault name: the request, the state of one fault, how an attempt ends, and
//! the rules of VMAs about accesses and entries.

use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Attrs, Machine};
use crate::manager::{Mm, SpaceId};
use crate::object::Object;
use crate::space::{AddressSpace, Rss};
use crate::table::Spot;
use crate::thp::Permit;
use crate::vma::{Prot, Slot, Vma};

/// A request for an access.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub addr: VirtAddr,
    pub access: Access,
    /// The access was tried and failed, so even an entry that allows it must be made anew.
    pub tried: bool,
    /// Copy a read-only private page all the same; it stays read-only (exec's setup).
    pub force: bool,
    /// `Locked::past_markers` has looked after the VMA's marks.
    pub markers_passed: bool,
    /// Who asks can wait for memory ([`Resolution::Short`]).
    pub patient: bool,
}

impl Request {
    /// A request of the kernel, which has not tried the access.
    #[inline]
    pub fn new(addr: VirtAddr, access: Access) -> Self {
        Request {
            addr,
            access,
            tried: false,
            force: false,
            markers_passed: false,
            patient: false,
        }
    }
    /// A request of the running thread, which has tried the access.
    #[inline]
    pub fn tried(addr: VirtAddr, access: Access) -> Self {
        Request {
            tried: true,
            patient: true,
            ..Request::new(addr, access)
        }
    }
}

/// State of one fault: the page, the access, and the space's parts.
pub(super) struct Fault<'a, M: Machine> {
    pub mm: &'a Mm<M>,
    pub id: &'a SpaceId,
    pub permit: Permit,
    pub va: VirtAddr,
    pub access: Access,
    /// The access was tried and failed, so even an entry that allows it must be made anew.
    pub tried: bool,
    /// The largest folio order allowed.
    pub most: Order,
    pub vma: &'a Vma<M>,
    pub rss: &'a mut Rss,
}

/// Reason for an attempt without a page.
pub(super) enum Stop {
    /// The access is not possible.
    Failed(Resolution),
    /// A zeroed folio of this order is needed first.
    Wants(Order),
}

impl<E: Into<Resolution>> From<E> for Stop {
    fn from(why: E) -> Stop {
        Stop::Failed(why.into())
    }
}

/// The entries that become writable with a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only the page.
    Page,
    /// Its folded block, within the VMA.
    Block,
    /// All of its folio in this table, within the VMA.
    Folio,
}

impl<'a, M: Machine> Fault<'a, M> {
    /// The state of a fault in this VMA, by folios of order `most` at most.
    #[inline]
    pub(super) fn new(
        space: &'a AddressSpace<M>,
        request: Request,
        most: Order,
        vma: &'a Vma<M>,
        rss: &'a mut Rss,
    ) -> Self {
        Fault {
            mm: &space.mm,
            id: &space.id,
            permit: space.thp_permit(),
            va: request.addr.align_down(PAGE_SIZE),
            access: request.access,
            tried: request.tried,
            most,
            vma,
            rss,
        }
    }
    /// Attributes of a fresh entry for this access.
    pub(super) fn attrs(&self) -> Attrs {
        attrs(self.vma, self.access)
    }
}

/// Result of an attempt.
pub(super) enum Attempt {
    /// The access is possible; the frame of the page.
    Mapped(Pfn),
    /// A folio is needed first.
    Wants(Wants),
}

/// A folio that a fault needs, and its place.
pub(super) struct Wants {
    pub order: Order,
    /// The page's VMA.
    pub slot: Slot,
    /// The page and its lowest existing table.
    pub spot: Spot,
}

/// Whether the VMA permits the access. All machines imply read by write and exec.
pub(super) fn allowed<M: Machine>(vma: &Vma<M>, access: Access, force: bool) -> bool {
    match access {
        Access::Read => !vma.prot.is_none() || force,
        Access::Write => vma.prot.contains(Prot::WRITE) || force && !vma.shared(),
        Access::Exec => vma.prot.contains(Prot::EXEC),
    }
}

/// Why an object has no page at `index`.
#[cold]
pub(super) fn absent<M: Machine>(object: &Object<M>, index: u64) -> Resolution {
    match object.cannot_map(index) {
        true => Resolution::Poisoned(object.huge_order().unwrap_or_default()),
        false => Resolution::Bus,
    }
}

/// Attributes of a fresh entry for an access: accessed, and if written dirty and writable.
#[inline(always)]
pub(crate) fn attrs<M: Machine>(vma: &Vma<M>, access: Access) -> Attrs {
    let used = vma.attrs() | Attrs::ACCESSED;
    let writable = vma.prot.contains(Prot::WRITE);
    match access {
        Access::Write if writable => used | Attrs::WRITE | Attrs::DIRTY,
        Access::Write => used | Attrs::DIRTY,
        // The first write must fault.
        _ if vma.flags.is_tracked() => used | Attrs::TRACKED,
        // Writes to a shared mapping need no fault.
        _ if writable && vma.shared() => used | Attrs::WRITE,
        _ => used,
    }
}
