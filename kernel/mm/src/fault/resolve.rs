//! The page fault path: VMA, permission, entry, page.

use super::cow::reuse_single;
use super::keys::may_try;
use super::request::{Attempt, Fault, Reach, Request, Stop, Wants, attrs};
use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Machine, PteFormat};
use crate::space::{AddressSpace, Inner, Locked, gathered};
use crate::stat::Event;
use crate::table::{Cursor, Leaf, is_swapped};
use crate::thp::PMD_ORDER;
use crate::tlb::Gather;
use crate::vma::Prot;

impl<M: Machine> AddressSpace<M> {
    /// Resolves a fault at `addr`, or returns why the access is impossible. Never waits for a
    /// claim or for memory. A fault that is to be tried again then is not counted.
    pub fn fault(&self, addr: VirtAddr, access: Access) -> Resolution {
        self.mm.count(Event::Fault, 1);
        if self.is_shared() && self.fault_read_locked(addr, access) {
            return Resolution::Done;
        }
        // Not before: handed to that call it would be in memory, and its fields no constants.
        let request = Request::tried(addr, access);
        let mut locked = self.lock();
        let result = match locked.attempt_here(request, PMD_ORDER) {
            Ok(Attempt::Mapped(_)) => return Resolution::Done,
            Ok(Attempt::Wants(wants)) => locked.supply_here(request, wants),
            Err(why) => {
                drop(locked);
                return self.fault_past_markers(addr, access, why);
            }
        };
        match result {
            Ok(_) => Resolution::Done,
            Err(why) => self.counted_again(why),
        }
    }
    /// [`Self::fault`] that takes smaller folios rather than wait for memory.
    #[cold]
    pub fn fault_anyhow(&self, addr: VirtAddr, access: Access) -> Resolution {
        self.mm.count(Event::Fault, 1);
        let request = Request {
            patient: false,
            ..Request::tried(addr, access)
        };
        match self.lock().resolve(request) {
            Ok(_) => Resolution::Done,
            Err(why) => self.counted_again(why),
        }
    }
    #[cold]
    fn counted_again(&self, why: Resolution) -> Resolution {
        if let Resolution::Stored(_) | Resolution::Short(_) = why {
            self.mm.count(Event::Fault, 1u64.wrapping_neg());
        }
        why
    }

    /// [`AddressSpace::fault`] again, if the VMA's marks were why it failed.
    #[cold]
    #[inline(never)]
    fn fault_past_markers(&self, addr: VirtAddr, access: Access, why: Resolution) -> Resolution {
        let why = match why {
            Resolution::Userfault => self.lock().resolve(Request::tried(addr, access)).err(),
            why => Some(why),
        };
        why.map_or(Resolution::Done, |why| self.counted_again(why))
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Makes an access possible and returns the page's frame. The lock may be released meanwhile
    /// ([`Locked::turn`]), and is held at the end.
    pub(super) fn resolve(&mut self, request: Request) -> Result<Pfn, Resolution> {
        match self.attempt_past_markers(request, PMD_ORDER)? {
            Attempt::Mapped(pfn) => Ok(pfn),
            Attempt::Wants(wants) => self.supply(request, wants),
        }
    }

    /// [`Self::attempt`], after what the VMA's marks ask for.
    #[inline]
    pub(super) fn attempt_past_markers(
        &mut self,
        request: Request,
        most: Order,
    ) -> Result<Attempt, Resolution> {
        match self.attempt(request, most) {
            Err(Resolution::Userfault) => self.past_markers(request, most),
            result => result,
        }
    }

    /// Maps the page of the swap entry at `at` again, whoever may use it, if there is one; for
    /// writes, too, if some may come and it is exclusive. [`Resolution::Stored`]: it is not in
    /// memory.
    pub(crate) fn bring_back(&mut self, at: VirtAddr, writes: bool) -> Result<(), Resolution> {
        let space = self.space;
        let Inner {
            vmas, table, rss, ..
        } = &mut **self;
        let vma = vmas.find(at).map(|slot| vmas.get(slot));
        let mut cursor = Cursor::new(&space.mm, table, at);
        let entry = cursor.leaf().filter(|leaf| is_swapped(leaf.attrs));
        let (Some(vma), Some(entry)) = (vma, entry) else {
            return Ok(());
        };
        let request = Request::new(at, Access::Write);
        let mut fault = Fault::new(space, request, PMD_ORDER, vma, rss);
        if !fault.take_back(&mut cursor, &entry) {
            return Err(Resolution::Stored(space.mm.frames().swap_slot(entry.pfn)));
        }
        let stays = Attrs::WRITE | Attrs::UFFD_WP | Attrs::TRACKED;
        let leaf = cursor.leaf().filter(|leaf| !leaf.attrs.intersects(stays));
        if writes
            && vma.prot.contains(Prot::WRITE)
            && let Some(leaf) = leaf
            && space.mm.owns(&space.id.owner, &leaf)
        {
            fault.touch(&mut cursor, &leaf, Reach::Folio);
        }
        Ok(())
    }

    /// Resolves a fault as far as possible without a fresh folio, of order `most` at most. Fails
    /// with [`Resolution::Userfault`] where the VMA's marks come first.
    #[inline(never)]
    pub(super) fn attempt(&mut self, request: Request, most: Order) -> Result<Attempt, Resolution> {
        self.attempt_here(request, most)
    }

    /// [`Self::attempt`], in line in the entry of a fault, which saves the request's way through
    /// memory.
    #[inline(always)]
    fn attempt_here(&mut self, request: Request, most: Order) -> Result<Attempt, Resolution> {
        let Request { addr, access, .. } = request;
        let space = self.space;
        if addr >= M::Pte::USER_END {
            return Err(Resolution::NotMapped);
        }
        let slot = match self.vmas.find(addr) {
            Some(slot) => slot,
            None => self.grow_stack(addr)?,
        };
        let vma = self.vmas.get(slot);
        if !may_try(&space.mm, vma, &request) {
            return Err(self.refused(Resolution::Denied));
        }
        if vma.flags.may_be_marked() && !request.markers_passed {
            return Err(Resolution::Userfault);
        }
        let Inner {
            vmas, table, rss, ..
        } = &mut **self;
        let mut vma = vmas.get(slot);
        // Before the page: a CPU that faults as a reader changes no VMA.
        if access == Access::Write && !vma.has_anon && !vma.shared() {
            vmas.prepare_write(slot);
            vma = vmas.get(slot);
        }
        let mut cursor = Cursor::new(&space.mm, table, addr.align_down(PAGE_SIZE));
        // Fast path. What was tried is allowed without force, so WRITE may be set.
        if request.tried
            && access == Access::Write
            && !vma.shared()
            && let Some(pfn) = reuse_single(&mut cursor, &space.id)
        {
            return Ok(Attempt::Mapped(pfn));
        }
        let fault = Fault::new(space, request, most, vma, rss);
        // Only this copy is in memory: saves 9 instructions of the fast path.
        let mut passed = cursor;
        match fault.at(&mut passed) {
            Ok(pfn) => Ok(Attempt::Mapped(pfn)),
            Err(Stop::Failed(why)) => Err(why),
            Err(Stop::Wants(order)) => {
                let spot = passed.spot();
                Ok(Attempt::Wants(Wants { order, slot, spot }))
            }
        }
    }
}

impl<M: Machine> Fault<'_, M> {
    #[inline(never)]
    pub(super) fn at(self, cursor: &mut Cursor<'_, M>) -> Result<Pfn, Stop> {
        let found = cursor.leaf();
        match &found {
            None if cursor.is_shared() => self.shared_table(cursor),
            None if self.vma.object_page(self.va).is_some() => self.object_page(cursor),
            None => self.anon_page(cursor),
            Some(leaf) => self.present(cursor, leaf),
        }
    }

    /// Unshares a shared table, unless the access needs no change.
    #[cold]
    fn shared_table(self, cursor: &mut Cursor<'_, M>) -> Result<Pfn, Stop> {
        if let Some(leaf) = cursor.shared_leaf().filter(|leaf| self.is_enough(leaf)) {
            return Ok(leaf.pfn);
        }
        gathered(self.mm, self.id, |gather| cursor.edit(gather).open())?;
        // Restarts: a second caller would cost each fault.
        self.at(cursor)
    }

    /// Whether the mapped leaf already allows the access.
    #[inline]
    fn is_enough(&self, leaf: &Leaf) -> bool {
        let needed = self.attrs() & (Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY);
        !self.tried && leaf.attrs.contains(needed) && !self.breaks_cow(leaf)
    }

    /// Whether the access writes to a private page mapped without WRITE.
    #[inline]
    fn breaks_cow(&self, leaf: &Leaf) -> bool {
        let private_write = self.access == Access::Write && !self.vma.shared();
        private_write && !leaf.attrs.contains(Attrs::WRITE)
    }

    /// Handles a mapped page: copy, reuse, or only bits to set.
    fn present(mut self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> Result<Pfn, Stop> {
        if self.is_enough(leaf) {
            return Ok(leaf.pfn);
        }
        // No page is: one bit to test. What comes before markers was done.
        if leaf.attrs.contains(Attrs::GLOBAL) {
            debug_assert!(is_swapped(leaf.attrs));
            return self.swapped(cursor, leaf);
        }
        if self.breaks_cow(leaf) {
            return self.break_cow(cursor, leaf);
        }
        self.mm.count(Event::Minor, 1);
        self.touch(cursor, leaf, Reach::Block);
        Ok(leaf.pfn)
    }

    /// Maps the folio of a swap entry again, and begins anew, if it is in memory.
    #[cold]
    fn swapped(mut self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> Result<Pfn, Stop> {
        match self.mm.parked(leaf.pfn).is_some() && self.take_back(cursor, leaf) {
            true => {
                // The entry that a reader has tried is gone.
                self.tried &= self.access == Access::Write;
                self.at(cursor)
            }
            false => Err(Resolution::Stored(self.mm.frames().swap_slot(leaf.pfn)).into()),
        }
    }

    /// Maps the folio of a swap entry again; `false`: its page is not in memory.
    pub(super) fn take_back(&mut self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> bool {
        // Dirty: nothing else has the contents.
        let attrs = (attrs(self.vma, Access::Read) - Attrs::TRACKED) | Attrs::DIRTY;
        let mut gather = Gather::new(self.mm, self.id);
        let back = cursor.edit(&mut gather);
        let (pages, found) = back.take_back(leaf, attrs, self.vma.range);
        gather.finish();
        // Of a reader it is what is to be added.
        self.rss.swapped = self.rss.swapped.wrapping_sub(pages);
        found
    }

    /// Sets the bits that hardware without access and dirty flags leaves to software, and WRITE if
    /// allowed. Always flushes this CPU's TLB: a stale entry would fault again.
    #[inline(always)]
    pub(super) fn touch(&mut self, cursor: &mut Cursor<'_, M>, leaf: &Leaf, reach: Reach) {
        let tracked = leaf.attrs.contains(Attrs::TRACKED);
        let bits = self.attrs() & (Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY);
        let mut gather = Gather::granting(self.mm, self.id);
        let area = match reach {
            Reach::Page => VirtRange::new(self.va, self.va + PAGE_SIZE),
            _ => self.vma.range,
        };
        if reach == Reach::Folio {
            cursor.edit(&mut gather).reuse_around(leaf, area);
        }
        if tracked && self.access == Access::Write {
            let huge = self.vma.flags.is_hugetlb();
            cursor.edit(&mut gather).write_tracked(bits, huge);
        } else {
            cursor.edit(&mut gather).add_bits(bits, area);
        }
        gather.finish();
    }
}
