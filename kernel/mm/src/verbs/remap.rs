//! mremap(2): what is asked for, and in which order it is done.

mod gone;
mod grow;
mod moves;
mod request;

pub use request::RemapFlags;

use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::space::{AddressSpace, Areas, Error, user_pages};
use crate::vma::{Slot, VmaFlags};
use gone::Gone;
use request::{Move, Request};

impl<M: Machine> AddressSpace<M> {
    /// mremap(2); lengths in bytes, `to` is looked at with FIXED, and as a wish with DONTUNMAP.
    /// Several mappings may be shrunk, or moved with what is not mapped between them; anything else
    /// is for one. EINVAL: misaligned, no new length, overlapping, or flags that do not go
    /// together; EFAULT: nothing is mapped there, or more than one mapping where it must be one;
    /// ENOMEM: no room or over a limit; EAGAIN: over the locked limit. ENOMEM may come when some of
    /// several mappings were moved: [`Self::remap_on`] goes on from there.
    pub fn remap(
        &self,
        old: VirtAddr,
        old_len: u64,
        new_len: u64,
        flags: RemapFlags,
        to: VirtAddr,
    ) -> Result<VirtAddr, Error> {
        self.remap_on(old, old_len, new_len, flags, to, &mut 0)
    }

    /// The same as one of several attempts: `moved` is how many bytes of the old range, holes
    /// included, were dealt with by those before, 0 for the first. After ENOMEM the next attempt
    /// goes on there. When `moved` is 0 nothing was moved.
    pub fn remap_on(
        &self,
        old: VirtAddr,
        old_len: u64,
        new_len: u64,
        flags: RemapFlags,
        to: VirtAddr,
        moved: &mut u64,
    ) -> Result<VirtAddr, Error> {
        let request = Request::new::<M>(old, old_len, new_len, flags, to)?;
        let (had, will) = (request.old_len, request.new_len);
        let mut areas = self.areas()?;
        let mut gone = Gone::new();
        let result = areas.remap(&request, moved, &mut gone);
        let grown = result.ok().filter(|_| had < will);
        let populate = grown.is_some_and(|at| areas.is_populated(at));
        drop(areas);
        // Files are dropped after the lock.
        drop(gone);
        let at = result?;
        if populate {
            let _ = self.populate(VirtRange::new(at + had, at + will));
        }
        Ok(at)
    }
}

impl<M: Machine> Areas<'_, M> {
    /// Whether what is locked at `at` is populated when it grows.
    fn is_populated(&self, at: VirtAddr) -> bool {
        let flags = self.vmas.find(at).map(|slot| self.vmas.get(slot).flags);
        let kinds = VmaFlags::LOCKED | VmaFlags::LOCKONFAULT;
        flags.is_some_and(|flags| flags & kinds == VmaFlags::LOCKED)
    }

    fn remap(
        &mut self,
        request: &Request,
        moved: &mut u64,
        gone: &mut Gone<M>,
    ) -> Result<VirtAddr, Error> {
        if *moved != 0 {
            let old = user_pages::<M>(request.start, request.old_len).ok_or(Error::Inval)?;
            return self.move_all(request, old, moved, gone);
        }
        let slot = self.vmas.find(request.start).ok_or(Error::Fault)?;
        if request.old_len == 0 {
            self.check_duplicate(request, slot)?;
        }
        if request.in_place() && request.new_len == request.old_len {
            // Whatever is mapped behind it.
            return Ok(request.start);
        }
        let old = user_pages::<M>(request.start, request.old_len).ok_or(Error::Inval)?;
        if request.in_place() && request.new_len < request.old_len {
            self.unmap_tail(request, old, gone)?;
            return Ok(request.start);
        }
        let one_mapping = old.end <= self.vmas.get(slot).range.end;
        if request.to.is_some() && request.new_len == request.old_len && !one_mapping {
            return self.move_all(request, old, moved, gone);
        }
        self.remap_one(request, slot, old, gone)
    }

    /// An old length of 0 makes a second mapping of what is shared.
    #[cold]
    fn check_duplicate(&self, request: &Request, slot: Slot) -> Result<(), Error> {
        // Linux unmaps a target that begins where the source does, and then finds no source
        // (EFAULT): here both stay.
        if !self.vmas.get(slot).shared() || request.to == Some(request.start) {
            return Err(Error::Inval);
        }
        // EINVAL in the man page, ENOMEM in Linux: there is no room where it stands.
        let may_move = request.flags.contains(RemapFlags::MAYMOVE);
        may_move.then_some(()).ok_or(Error::NoMem)
    }

    /// Grows or moves what is, as far as it is kept, of the one mapping in `slot`.
    #[inline]
    fn remap_one(
        &mut self,
        request: &Request,
        slot: Slot,
        old: VirtRange,
        gone: &mut Gone<M>,
    ) -> Result<VirtAddr, Error> {
        let (kept, end) = (request.kept(), self.vmas.get(slot).range.end);
        // A move that shrinks unmaps the tail first, whatever is mapped there.
        if kept.end > end || old.end > end && request.new_len >= request.old_len {
            return Err(Error::Fault);
        }
        if request.in_place() {
            if self.grow_in_place(request, slot)? {
                return Ok(request.start);
            }
            if !request.flags.contains(RemapFlags::MAYMOVE) {
                return Err(Error::NoMem);
            }
        }
        self.check_growth(request, slot)?;
        // All that follows adds four VMAs at most.
        self.vmas.reserve(4)?;
        let place = |areas: &Self, slot| {
            let to = areas.place_of(request, slot)?;
            user_pages::<M>(to, request.new_len)
        };
        let mut new = place(self, slot).ok_or(Error::NoMem)?;
        self.unmap_tail(request, old, gone)?;
        if request.to.is_some() {
            self.clear(new, gone)?;
        } else if self.has_paused() {
            // A stack may have grown to there meanwhile.
            let slot = self.vmas.find(request.start).ok_or(Error::Fault)?;
            new = place(self, slot).ok_or(Error::NoMem)?;
        }
        if self.has_paused() {
            self.vmas.reserve(4)?;
        }
        let keep = request.flags.contains(RemapFlags::DONTUNMAP);
        self.move_vma(Move {
            old: kept,
            new,
            keep,
        })?;
        Ok(new.start)
    }

    /// Where it goes: as it says, or where there is room.
    #[inline]
    fn place_of(&self, request: &Request, slot: Slot) -> Option<VirtAddr> {
        if request.to.is_some() {
            return request.to;
        }
        let wished = request
            .near
            .and_then(|near| self.place_at_hint(near, request.new_len));
        wished.or_else(|| {
            let backing = &self.vmas.get(slot).backing;
            self.find_congruent(request.start, request.new_len, backing)
        })
    }
}
