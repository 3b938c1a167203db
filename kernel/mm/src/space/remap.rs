//! mremap(2).

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::frame::{Mm, SpaceId};
use crate::state::{AddressSpace, Error, Inner, may_commit, user_pages};
use crate::table::{Zap, move_range, split_ends};
use crate::tlb::Gather;
use crate::vma::{Slot, Taken, VmaFlags};
use arrayvec::ArrayVec;

/// One mremap, checked and in whole pages.
struct Remap {
    old: VirtRange,
    new_len: u64,
    may_move: bool,
    dont_unmap: bool,
    fixed: Option<VirtAddr>,
}

impl Remap {
    /// The part of the old range that is not unmapped.
    #[inline]
    fn kept(&self) -> VirtRange {
        VirtRange {
            start: self.old.start,
            end: self.old.start + self.old.len().min(self.new_len),
        }
    }
}

impl<M: Machine> AddressSpace<M> {
    /// mremap(2); `fixed` is the new address of MREMAP_FIXED. Several mappings may be shrunk, or moved with what is not mapped
    /// between them; anything else is for one. EINVAL: misaligned, no new length, overlapping, or flags that do not go
    /// together; EFAULT: nothing is mapped there, or more than one mapping where it must be one; ENOMEM: no room or over a
    /// limit; EAGAIN: over the locked limit.
    pub fn remap(
        &self,
        old: VirtAddr,
        old_len: u64,
        new_len: u64,
        may_move: bool,
        dont_unmap: bool,
        fixed: Option<VirtAddr>,
    ) -> Result<VirtAddr, Error> {
        let request = check::<M>(old, old_len, new_len, may_move, dont_unmap, fixed)?;
        let (had, will) = (request.old.len(), request.new_len);
        let mut inner = self.inner.lock();
        let mut gone = Gone::new();
        let result = inner.remap(&self.mm, &self.id, &request, &mut gone);
        let grown = result.ok().filter(|_| had < will);
        let target = grown.and_then(|at| inner.vmas.find(at));
        let locked = target.is_some_and(|s| inner.vmas.get(s).flags.contains(VmaFlags::LOCKED));
        drop(inner);
        // Files are dropped after the lock.
        gone.clear();
        let at = result?;
        if locked {
            self.populate(VirtRange::new(at + had, at + will));
        }
        Ok(at)
    }
}

fn check<M: Machine>(
    old: VirtAddr,
    old_len: u64,
    new_len: u64,
    may_move: bool,
    dont_unmap: bool,
    fixed: Option<VirtAddr>,
) -> Result<Remap, Error> {
    let whole = |len: u64| {
        VirtAddr(len)
            .align_up(PAGE_SIZE)
            .map(|a| a.0)
            .ok_or(Error::Inval)
    };
    let (old_len, new_len) = (whole(old_len)?, whole(new_len)?);
    let needs_move = fixed.is_some() || dont_unmap;
    if !old.is_aligned(PAGE_SIZE)
        || new_len == 0
        || needs_move && !may_move
        || dont_unmap && old_len != new_len
    {
        return Err(Error::Inval);
    }
    let old = user_pages::<M>(old, old_len).ok_or(Error::Fault)?;
    if let Some(at) = fixed {
        let new = user_pages::<M>(at, new_len)
            .filter(|_| at.is_aligned(PAGE_SIZE))
            .ok_or(Error::Inval)?;
        if new.overlaps(&old) {
            return Err(Error::Inval);
        }
    }
    Ok(Remap {
        old,
        new_len,
        may_move,
        dont_unmap,
        fixed,
    })
}

/// What was unmapped on the way, in the target and behind the new end, to be dropped after the lock.
type Gone<M> = ArrayVec<Taken<M>, 2>;

impl<M: Machine> Inner<M> {
    fn remap(
        &mut self,
        mm: &Mm<M>,
        id: &SpaceId,
        request: &Remap,
        gone: &mut Gone<M>,
    ) -> Result<VirtAddr, Error> {
        let Remap { old, new_len, .. } = *request;
        let slot = self.vmas.find(old.start).ok_or(Error::Fault)?;
        let vma = self.vmas.get(slot);
        // An old length of 0 duplicates a shared mapping.
        if old.is_empty() && (!vma.shared() || !request.may_move) {
            return Err(Error::Inval);
        }
        let (kept, one_mapping) = (request.kept(), old.end <= vma.range.end);
        let in_place = request.fixed.is_none() && !request.dont_unmap;
        if in_place && new_len < old.len() {
            self.unmap_tail(mm, id, request, gone)?;
            return Ok(old.start);
        }
        if request.fixed.is_some() && new_len == old.len() && !one_mapping {
            return self.move_all(mm, id, request, gone);
        }
        // A move that shrinks unmaps the tail first, whatever is mapped there.
        if kept.end > vma.range.end || !one_mapping && new_len >= old.len() {
            return Err(Error::Fault);
        }
        if in_place {
            if new_len == old.len() || self.grow_in_place(mm, request, slot)? {
                return Ok(old.start);
            }
            if !request.may_move {
                return Err(Error::NoMem);
            }
        }
        self.check_growth(mm, request, slot)?;
        self.unmap_tail(mm, id, request, gone)?;
        let request = Remap {
            old: kept,
            ..*request
        };
        let to = match request.fixed {
            Some(to) => to,
            None => {
                let backing = &self
                    .vmas
                    .get(self.vmas.find(old.start).ok_or(Error::Fault)?)
                    .backing;
                self.find_congruent(old.start, new_len, backing)
                    .ok_or(Error::NoMem)?
            }
        };
        self.vmas.reserve(4)?;
        let new = user_pages::<M>(to, new_len).ok_or(Error::NoMem)?;
        self.clear(mm, id, new, gone)?;
        self.move_vma(mm, id, &request, new)?;
        Ok(to)
    }

    /// Unmaps what is in `range`.
    fn clear(
        &mut self,
        mm: &Mm<M>,
        id: &SpaceId,
        range: VirtRange,
        gone: &mut Gone<M>,
    ) -> Result<(), Error> {
        if self.vmas.is_clear(range) {
            return Ok(());
        }
        // Mostly it is one reservation, with nothing that must wait for the end of the lock.
        let Some(part) = self.vmas.only_private(range) else {
            gone.push(self.remove(mm, id, range)?);
            return Ok(());
        };
        self.vmas.reserve_take(part, 0)?;
        let mut gather = Gather::new(mm, id);
        let split = split_ends(mm, &mut self.table, part, &mut gather);
        if split.is_ok()
            && let Some(vma) = self.vmas.cut_out(part)
        {
            self.zap(mm, &vma, part, &mut gather, Zap::default());
        }
        gather.finish();
        Ok(split?)
    }

    /// Unmaps what of the old range is longer than the new one.
    #[inline]
    fn unmap_tail(
        &mut self,
        mm: &Mm<M>,
        id: &SpaceId,
        request: &Remap,
        gone: &mut Gone<M>,
    ) -> Result<(), Error> {
        let tail = VirtRange::new(request.kept().end, request.old.end);
        if !tail.is_empty() {
            gone.push(self.remove(mm, id, tail)?);
        }
        Ok(())
    }

    /// Moves all mappings of the old range and keeps the gaps between them. An error half-way leaves the rest where it was, as
    /// mremap(2) says.
    fn move_all(
        &mut self,
        mm: &Mm<M>,
        id: &SpaceId,
        request: &Remap,
        gone: &mut Gone<M>,
    ) -> Result<VirtAddr, Error> {
        let to = request.fixed.ok_or(Error::Inval)?;
        let new = user_pages::<M>(to, request.new_len).ok_or(Error::Inval)?;
        self.clear(mm, id, new, gone)?;
        let mut at = request.old.start;
        while let Some(slot) = self.vmas.from(at) {
            let Some(old) = self.vmas.get(slot).range.intersection(&request.old) else {
                break;
            };
            let start = to + (old.start - request.old.start);
            let piece = Remap {
                old,
                new_len: old.len(),
                fixed: Some(start),
                ..*request
            };
            self.check_growth(mm, &piece, slot)?;
            self.vmas.reserve(4)?;
            let end = start + old.len();
            self.move_vma(mm, id, &piece, VirtRange { start, end })?;
            at = old.end;
        }
        Ok(to)
    }

    /// Whether the VMA in `slot` may have as many pages more as the request adds.
    #[inline]
    fn check_growth(&self, mm: &Mm<M>, request: &Remap, slot: Slot) -> Result<(), Error> {
        let kept = if request.dont_unmap {
            0
        } else {
            request.old.len()
        };
        let more = request.new_len.saturating_sub(kept) / PAGE_SIZE;
        if more == 0 {
            return Ok(());
        }
        let vma = self.vmas.get(slot);
        if vma.flags.contains(VmaFlags::LOCKED) && !self.may_lock(more) {
            return Err(Error::Again);
        }
        let replaced = request
            .fixed
            .and_then(|at| user_pages::<M>(at, request.new_len))
            .map_or(0, |r| self.vmas.pages_in(r));
        self.may_expand(more.saturating_sub(replaced), vma.prot, vma.flags)?;
        may_commit(mm, more, vma.prot, vma.flags, &vma.backing)
    }

    /// Grows at the end, when the range ends its VMA and nothing is behind it.
    fn grow_in_place(&mut self, mm: &Mm<M>, request: &Remap, slot: Slot) -> Result<bool, Error> {
        let (old, vma) = (request.old, self.vmas.get(slot));
        let Some(end) = user_pages::<M>(old.start, request.new_len).map(|r| r.end) else {
            return Ok(false);
        };
        if old.is_empty()
            || old.end != vma.range.end
            || !self.is_free(VirtRange {
                start: old.end,
                end,
            })
        {
            return Ok(false);
        }
        self.check_growth(mm, request, slot)?;
        self.vmas.reserve(1)?;
        let mut more = self.vmas.get(slot).clone();
        more.range.end = end;
        more.flags -= VmaFlags::TRACKED;
        // The tail goes on in the object where the VMA stops, so the tree joins the two.
        more.cut_below(old.end);
        self.vmas.insert(more);
        self.note_total();
        Ok(true)
    }

    /// Moves the old range, a part of one VMA, to `new`, where nothing is and which may be longer. Room for the VMAs was
    /// reserved: it fails for want of page tables only, and then nothing has changed.
    fn move_vma(
        &mut self,
        mm: &Mm<M>,
        id: &SpaceId,
        request: &Remap,
        new: VirtRange,
    ) -> Result<(), Error> {
        let old = request.old;
        if !old.is_empty() {
            let mut gather = Gather::new(mm, id);
            let result = move_range(mm, &mut self.table, old, new.start, &mut gather);
            gather.finish();
            result?;
        }
        if old.is_empty() || request.dont_unmap {
            self.vmas.duplicate(old.start, new);
        } else {
            self.vmas.relocate(old, new);
        }
        if request.dont_unmap {
            // The old range stays mapped and empty, its VMA is unlocked as a whole; without pages it has no history either.
            self.vmas.amend(old.start, |v| {
                v.flags -= VmaFlags::LOCKED | VmaFlags::LOCKONFAULT;
                v.anon_vma = v.anon_vma.filter(|_| v.range != old);
            });
        }
        self.note_total();
        Ok(())
    }
}
