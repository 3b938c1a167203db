//! UFFDIO_MOVE: private pages move to where none are, and no byte is copied.

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::Kind;
use crate::frame::zone::Reserve;
use crate::space::{AddressSpace, Error, Locked, Result};
use crate::table::{Budget, Leaf, Marker};
use crate::thp::{PMD_ORDER, policy::block};
use crate::vma::{Backing, Prot, Slot};

impl<M: Machine> AddressSpace<M> {
    /// Moves pages from the start of `from` to `to` within one table of each; returns how many
    /// bytes, holes included, which are passed over with `holes`. The whole of both lies in one VMA
    /// each, and that at `to` is registered with `monitor`. EINVAL: there are no such VMAs, or
    /// pages may not move between them; ENOENT: a hole; EEXIST: there is a page; EBUSY: others use
    /// the page; ENOMEM.
    pub fn userfault_move(
        &self,
        to: VirtAddr,
        from: VirtRange,
        monitor: u16,
        holes: bool,
    ) -> Result<u64> {
        // With the claim: entries do not move past a verb that has done a part of them.
        let mut inner = self.areas()?;
        let target = VirtRange::new(to, to + from.len());
        let (source, slot) = inner.ends_of_move(from, target, monitor)?;
        let table = |at: VirtAddr| block(at, PMD_ORDER).end - at;
        let most = from.len().min(table(from.start)).min(table(to));
        inner.edit(|edit| {
            edit.unshare(from.start, Reserve::User)?;
            edit.unshare(to, Reserve::User)
        })?;
        let (len, why) = inner.movable(VirtRange::new(from.start, from.start + most), to, holes);
        if len == 0 {
            return Err(why.unwrap_or(Error::Inval));
        }
        let part = VirtRange::new(from.start, from.start + len);
        let new = VirtRange::new(to, to + len);
        if !inner.vmas.get(slot).has_anon {
            inner.vmas.prepare_write(slot);
        }
        let protected = inner.vmas.get(source).flags.is_uffd_wp();
        inner.edit(|edit| {
            edit.split_ends(part, Reserve::User)?;
            edit.split_ends(new, Reserve::User)?;
            edit.free_tables(new);
            edit.move_range(part, to, false)
        })?;
        if protected {
            inner.edit(|edit| edit.uffd_unprotect_some(new, &mut Budget::default()));
        }
        Ok(len)
    }
}

impl<M: Machine> Locked<'_, M> {
    /// The VMAs of both ends of a move. EINVAL.
    fn ends_of_move(&self, from: VirtRange, to: VirtRange, monitor: u16) -> Result<(Slot, Slot)> {
        let find = |range: VirtRange| {
            let slot = self.vmas.find(range.start)?;
            let vma = self.vmas.get(slot);
            let private = matches!(vma.backing, Backing::Anon) && !vma.shared();
            let fits = vma.range.covers(&range) && private && vma.prot.contains(Prot::WRITE);
            fits.then_some(slot)
        };
        let (source, target) = (
            find(from).ok_or(Error::Inval)?,
            find(to).ok_or(Error::Inval)?,
        );
        let (a, b) = (self.vmas.get(source), self.vmas.get(target));
        let alike = a.prot == b.prot && a.flags.is_locked() == b.flags.is_locked();
        match alike && b.monitor == monitor && !from.overlaps(&to) {
            true => Ok((source, target)),
            false => Err(Error::Inval),
        }
    }

    /// How many bytes from the start of `from` on may move at once, and why no more.
    fn movable(&self, from: VirtRange, to: VirtAddr, holes: bool) -> (u64, Option<Error>) {
        let mut at = from.start;
        while at < from.end {
            let why = match (
                self.root().lookup(at),
                self.root().lookup(to + (at - from.start)),
            ) {
                (_, Some(_)) => Some(Error::Exist),
                (None, None) => (!holes).then_some(Error::NoEnt),
                (Some(leaf), None) => self.stays(&leaf),
            };
            if why.is_some() {
                return (at - from.start, why);
            }
            at += PAGE_SIZE;
        }
        (from.len(), None)
    }

    /// Why a page cannot move: a marker, or others use it.
    fn stays(&self, leaf: &Leaf) -> Option<Error> {
        let mm = self.mm();
        match Marker::of(leaf.attrs) {
            Some(Marker::WriteProtected) => return Some(Error::NoEnt),
            Some(_) => return Some(Error::Fault),
            None => {}
        }
        let kind = mm.frames().folio(leaf.pfn).kind;
        let alone = leaf.sharers == 0
            && match kind {
                Kind::Anon => {
                    mm.owns(&self.id().owner, leaf) && !mm.any_long_term(leaf.pfn, leaf.pages)
                }
                // Zeros are nobody's, by PTEs.
                _ => leaf.level == Level::Pte && !leaf.attrs.contains(Attrs::NO_ACCESS),
            };
        (!alone).then_some(Error::Busy)
    }
}
