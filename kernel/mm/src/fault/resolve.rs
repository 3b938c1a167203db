//! The way of a page fault: VMA, permission, entry, page.

use super::{Access, Resolution};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Machine, PteFormat};
use crate::manager::{Mm, SpaceId};
use crate::space::{AddressSpace, Inner, Locked, Rss};
use crate::stat::Event;
use crate::table::{Cursor, Leaf, PageTable};
use crate::thp::Permit;
use crate::tlb::Gather;
use crate::vma::{Prot, Vma, VmaFlags};

/// What the steps of one fault share: the page, who wants what, and the space's parts.
pub(super) struct Fault<'a, M: Machine> {
    pub mm: &'a Mm<M>,
    pub id: &'a SpaceId,
    pub permit: Permit,
    pub va: VirtAddr,
    pub access: Access,
    /// The access was tried and failed, so even an entry that allows it must be made anew.
    pub tried: bool,
    pub vma: &'a mut Vma<M>,
    pub rss: &'a mut Rss,
}

/// What becomes writable with a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nothing.
    Page,
    /// The folded block that it lies in, as far as the VMA reaches.
    Block,
    /// All of its folio in this table, as far as the VMA reaches.
    Folio,
}

impl<M: Machine> AddressSpace<M> {
    /// Resolves a fault at `addr`: makes the access possible or says why it is not.
    pub fn fault(&self, addr: VirtAddr, access: Access) -> Resolution {
        self.mm.count(Event::Fault, 1);
        let request = Request {
            addr,
            access,
            tried: true,
            force: false,
        };
        match resolve_here(&mut self.lock(), request) {
            Ok(_) => Resolution::Done,
            Err(why) => why,
        }
    }
}

/// What is asked of a space.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub addr: VirtAddr,
    pub access: Access,
    /// The access was tried and failed, so even an entry that allows it must be made anew.
    pub tried: bool,
    /// A private page that may not be written is copied all the same and stays read-only (exec's
    /// set-up).
    pub force: bool,
}

impl Request {
    /// For the kernel, which looks before it touches.
    pub fn new(addr: VirtAddr, access: Access) -> Self {
        Request {
            addr,
            access,
            tried: false,
            force: false,
        }
    }
}

/// Makes an access to a page of a locked space possible and returns its frame.
#[inline(never)]
pub(super) fn resolve<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
) -> Result<Pfn, Resolution> {
    resolve_here(locked, request)
}

/// [`resolve`] in place: for faults, of which the request is a constant.
#[inline(always)]
fn resolve_here<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
) -> Result<Pfn, Resolution> {
    let Request {
        addr,
        access,
        tried,
        force,
    } = request;
    let space = locked.space;
    if addr >= M::Pte::USER_END {
        return Err(Resolution::NotMapped);
    }
    let slot = match locked.vmas.find(addr) {
        Some(slot) => slot,
        None => super::stack::grow(locked, addr).ok_or(Resolution::NotMapped)?,
    };
    let Inner {
        vmas, table, rss, ..
    } = &mut **locked;
    let mut vma = vmas.get_mut(slot);
    if !allowed(vma, access, force) {
        return Err(Resolution::Denied);
    }
    if access == Access::Write && vma.anon_vma.is_none() && !vma.shared() {
        vmas.prepare_anon(slot);
        vma = vmas.get_mut(slot);
    }
    Fault {
        mm: &space.mm,
        id: &space.id,
        permit: space.thp_permit(),
        va: addr.align_down(PAGE_SIZE),
        access,
        tried,
        vma,
        rss,
    }
    .run(table)
}

/// Whether the VMA permits the access. Every machine reads where it writes or fetches.
pub(super) fn allowed<M: Machine>(vma: &Vma<M>, access: Access, force: bool) -> bool {
    match access {
        Access::Read => !vma.prot.is_empty() || force,
        Access::Write => vma.prot.contains(Prot::WRITE) || force && !vma.shared(),
        Access::Exec => vma.prot.contains(Prot::EXEC),
    }
}

impl<M: Machine> Fault<'_, M> {
    #[inline]
    fn run(self, table: &mut PageTable) -> Result<Pfn, Resolution> {
        let mut cursor = Cursor::new(self.mm, table, self.va);
        // What was tried is allowed without force, so WRITE may be set.
        if self.tried
            && self.access == Access::Write
            && !self.vma.shared()
            && let Some(pfn) = cursor.reuse_page(self.id)
        {
            self.mm.count(Event::CowReused, 1);
            return Ok(pfn);
        }
        self.at(cursor)
    }

    #[inline(never)]
    fn at(self, mut cursor: Cursor<'_, M>) -> Result<Pfn, Resolution> {
        let found = cursor.leaf();
        match &found {
            None if cursor.is_shared() => self.shared_table(cursor),
            None if self.vma.object_page(self.va).is_some() => self.object_page(&mut cursor),
            None => self.anon_page(&mut cursor),
            Some(leaf) => self.present(&mut cursor, leaf),
        }
    }

    /// The table is shared: the space gets its own, unless the access needs no change.
    #[cold]
    fn shared_table(self, mut cursor: Cursor<'_, M>) -> Result<Pfn, Resolution> {
        if let Some(leaf) = cursor.shared_leaf().filter(|leaf| self.is_enough(leaf)) {
            return Ok(leaf.pfn);
        }
        let mut gather = Gather::new(self.mm, self.id);
        let unshared = cursor.unshare(&mut gather);
        gather.finish();
        unshared?;
        // Once more, and not on from here: a second caller would cost each fault.
        self.at(cursor)
    }

    /// Whether the access needs nothing but what is mapped.
    #[inline]
    fn is_enough(&self, leaf: &Leaf) -> bool {
        let needed = self.attrs() & (Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY);
        let private_write = self.access == Access::Write && !self.vma.shared();
        let writable = leaf.attrs.contains(Attrs::WRITE);
        !self.tried && leaf.attrs.contains(needed) && (!private_write || writable)
    }

    /// Something is mapped: a write to a page that is not ours alone is copied, everything else is
    /// a matter of bits.
    fn present(mut self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> Result<Pfn, Resolution> {
        if self.is_enough(leaf) {
            return Ok(leaf.pfn);
        }
        let private_write = self.access == Access::Write && !self.vma.shared();
        let writable = leaf.attrs.contains(Attrs::WRITE);
        if private_write && !writable {
            if !cursor.owns(leaf, &self.id.owner) {
                return match self.mm.pinned_by(leaf.pfn, &self.id.owner) {
                    true => self.reuse_pinned(cursor, *leaf),
                    false => self.copy(cursor, *leaf),
                };
            }
            self.mm.count(Event::CowReused, 1);
        } else {
            self.mm.count(Event::Minor, 1);
        }
        let reach = match private_write && !writable && self.takes_neighbours(leaf) {
            true => Reach::Folio,
            false => Reach::Block,
        };
        self.touch(cursor, leaf, reach);
        Ok(leaf.pfn)
    }

    /// Sets the bits that hardware without an accessed and dirty flag leaves to us, and WRITE when
    /// it may be set. Always flushes: a TLB may hold the entry as it was, or the fault would come
    /// again.
    #[inline(always)]
    pub(super) fn touch(&mut self, cursor: &mut Cursor<'_, M>, leaf: &Leaf, reach: Reach) {
        let tracked = leaf.attrs.contains(Attrs::TRACKED);
        let bits = self.attrs() & (Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY);
        let mut gather = Gather::new(self.mm, self.id);
        let area = match reach {
            Reach::Page => VirtRange::new(self.va, self.va + PAGE_SIZE),
            _ => self.vma.range,
        };
        if reach == Reach::Folio {
            cursor.reuse_around(&mut gather, leaf, area);
        }
        if tracked && self.access == Access::Write {
            cursor.write_tracked(&mut gather, bits);
        } else {
            cursor.add_bits(&mut gather, bits, area);
        }
        gather.finish();
    }

    /// What a fresh entry for this access says: used, and when written dirty and writable.
    pub(super) fn attrs(&self) -> Attrs {
        let used = self.vma.attrs() | Attrs::ACCESSED;
        let writable = self.vma.prot.contains(Prot::WRITE);
        match self.access {
            Access::Write if writable => used | Attrs::WRITE | Attrs::DIRTY,
            Access::Write => used | Attrs::DIRTY,
            // The first write is to be seen.
            _ if self.vma.flags.contains(VmaFlags::TRACKED) => used | Attrs::TRACKED,
            // Writes to a shared mapping reach the object whenever they come.
            _ if writable && self.vma.shared() => used | Attrs::WRITE,
            _ => used,
        }
    }
}
