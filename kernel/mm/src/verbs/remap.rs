//! mremap(2): the request and the order of its steps.

mod grow;
mod moves;
mod request;

pub use request::RemapFlags;

use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::space::{AddressSpace, Areas, Error, Result, user_pages};
use crate::vma::{Slot, Taken};
use arrayvec::ArrayVec;
use request::Request;

/// Mappings that a move replaces in its target, or cuts at the new end, to be dropped after the
/// lock. Room for those of one mapping that moves.
type Gone<M> = ArrayVec<Taken<M>, 2>;

/// How far a move has got; a later call continues there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// Bytes of the old range, holes included.
    bytes: u64,
    /// Where one mapping goes, of which a part has moved.
    to: Option<VirtAddr>,
}

impl Moved {
    /// Whether nothing has moved yet.
    #[inline]
    pub fn is_nothing(&self) -> bool {
        self.bytes == 0
    }
}

impl<M: Machine> AddressSpace<M> {
    /// mremap(2); lengths in bytes, `to` is used with FIXED, and as a hint with DONTUNMAP. Shrinks
    /// several mappings, or moves them with the gaps between; all else is for one mapping. EINVAL:
    /// misaligned, no new length, overlap, or incompatible flags; EFAULT: no mapping, or more than
    /// one where it must be one, as from one with a userfaultfd monitor on; ENOMEM: no room or over
    /// a limit; EAGAIN: over the lock limit; EPERM: sealed, or it would replace what is.
    ///
    /// `moved` is what earlier attempts have done. After ENOMEM a part may have moved, and the next
    /// attempt continues there.
    pub fn remap(
        &self,
        old: VirtAddr,
        old_len: u64,
        new_len: u64,
        flags: RemapFlags,
        to: VirtAddr,
        moved: &mut Moved,
    ) -> Result<VirtAddr> {
        let mut request = Request::new::<M>(old, old_len, new_len, flags, to)?;
        let mut areas = self.areas()?;
        if areas.has_restricted_vmas && moved.is_nothing() {
            request = areas.checked(request)?;
        }
        let (had, will) = (request.old_len, request.new_len);
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
    /// Whether the VMA at `at` is locked and populated as it grows.
    fn is_populated(&self, at: VirtAddr) -> bool {
        let flags = self.vmas.find(at).map(|slot| self.vmas.get(slot).flags);
        flags.is_some_and(|flags| flags.populates())
    }

    fn remap(
        &mut self,
        request: &Request,
        moved: &mut Moved,
        gone: &mut Gone<M>,
    ) -> Result<VirtAddr> {
        if !moved.is_nothing() {
            let old = user_pages::<M>(request.start, request.old_len).ok_or(Error::Inval)?;
            return match moved.to {
                Some(to) => self.move_rest(request, to, moved, gone),
                None => self.move_all(request, old, moved, gone),
            };
        }
        let slot = self.vmas.find(request.start).ok_or(Error::Fault)?;
        if request.old_len == 0 {
            self.check_duplicate(request, slot)?;
        }
        if request.in_place() && request.new_len == request.old_len {
            // Whatever is mapped after it.
            return Ok(request.start);
        }
        let old = user_pages::<M>(request.start, request.old_len).ok_or(Error::Inval)?;
        if request.in_place() && request.new_len < request.old_len {
            self.clear_tail(request, old, gone)?;
            return Ok(request.start);
        }
        let one_mapping = old.end <= self.vmas.get(slot).range.end;
        if request.to.is_some() && request.new_len == request.old_len && !one_mapping {
            return self.move_all(request, old, moved, gone);
        }
        self.remap_one(request, slot, old, moved, gone)
    }

    /// EPERM if the VMA in a slot is sealed; EINVAL if it is of huge pages, and the request for
    /// parts of some, or for what they cannot have.
    #[inline(always)]
    fn check_source(&self, request: &Request, slot: Slot) -> Result {
        match self.has_restricted_vmas {
            true => self.find_refusal(request, slot),
            false => Ok(()),
        }
    }
    /// The request, in whole huge pages if it is for such. Errors as of [`Self::check_source`].
    #[cold]
    #[inline(never)]
    fn checked(&self, request: Request) -> Result<Request> {
        let slot = self.vmas.find(request.start).ok_or(Error::Fault)?;
        let vma = self.vmas.get(slot);
        if vma.is_sealed() {
            return Err(Error::Perm);
        }
        Ok(request.in_huge_pages(vma)?.unwrap_or(request))
    }
    #[cold]
    #[inline(never)]
    fn find_refusal(&self, request: &Request, slot: Slot) -> Result {
        let vma = self.vmas.get(slot);
        if vma.is_sealed() {
            return Err(Error::Perm);
        }
        let changed =
            |whole: &Request| (whole.old_len, whole.new_len) != (request.old_len, request.new_len);
        match request
            .in_huge_pages(vma)?
            .is_some_and(|whole| changed(&whole))
        {
            true => Err(Error::Inval),
            false => Ok(()),
        }
    }

    /// Checks an old length of 0: a second mapping of shared memory.
    #[cold]
    fn check_duplicate(&self, request: &Request, slot: Slot) -> Result {
        // Linux unmaps a target that begins at the source, and then finds no source (EFAULT): here
        // both stay.
        if !self.vmas.get(slot).shared() || request.to == Some(request.start) {
            return Err(Error::Inval);
        }
        // EINVAL in the man page, ENOMEM in Linux: no room in place.
        let may_move = request.flags.contains(RemapFlags::MAYMOVE);
        may_move.then_some(()).ok_or(Error::NoMem)
    }

    /// Grows or moves the kept range of the one mapping in `slot`.
    #[inline]
    fn remap_one(
        &mut self,
        request: &Request,
        slot: Slot,
        old: VirtRange,
        moved: &mut Moved,
        gone: &mut Gone<M>,
    ) -> Result<VirtAddr> {
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
        // At most four VMAs are added below.
        self.vmas.reserve(4)?;
        let to = self.place_of(request, slot).ok_or(Error::NoMem)?;
        let new = user_pages::<M>(to, request.new_len).ok_or(Error::NoMem)?;
        self.check_seals(new)?;
        // As in Linux before the tail, which may be sealed.
        if request.to.is_some() {
            self.clear(new, gone)?;
        }
        self.clear_tail(request, old, gone)?;
        if self.has_paused() {
            self.reserve_again()?;
        }
        self.move_one(kept, new, request.keeps(), moved)?;
        Ok(new.start)
    }

    /// The target address: as requested, or any with room.
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
