//! mremap(2).

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Asid, Machine};
use crate::frame::Mm;
use crate::state::{AddressSpace, Error, Inner, may_commit, user_pages};
use crate::table::move_range;
use crate::tlb::Gather;
use crate::vma::{Taken, Vma, VmaFlags};

/// One mremap, checked and in whole pages.
struct Remap {
    old: VirtRange,
    new_len: u64,
    may_move: bool,
    dont_unmap: bool,
    fixed: Option<VirtAddr>,
}

impl<M: Machine> AddressSpace<M> {
    /// mremap(2); `fixed` is the new address of MREMAP_FIXED. EINVAL: misaligned, no new length, overlapping, or flags that do
    /// not go together; EFAULT: the old range is not (one mapping); ENOMEM: no room or over a limit; EAGAIN: over the locked
    /// limit.
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
        let mut inner = self.inner.lock();
        let mut gone = [Taken::default(), Taken::default()];
        let result = inner.remap(&self.mm, self.asid, &request, &mut gone);
        let target = result.ok().and_then(|at| inner.vmas.find(at));
        let locked = target.is_some_and(|s| inner.vmas.get(s).flags.contains(VmaFlags::LOCKED));
        drop(inner);
        // Files are dropped after the lock.
        drop(gone);
        let at = result?;
        let had = request.old.len();
        if locked && had < request.new_len {
            self.populate(VirtRange::new(at + had, at + request.new_len));
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

impl<M: Machine> Inner<M> {
    fn remap(
        &mut self,
        mm: &Mm<M>,
        asid: Asid,
        request: &Remap,
        gone: &mut [Taken<M>; 2],
    ) -> Result<VirtAddr, Error> {
        let Remap { old, new_len, .. } = *request;
        let vma = self
            .vmas
            .get(self.vmas.find(old.start).ok_or(Error::Fault)?)
            .clone();
        if old.end > vma.range.end {
            return Err(Error::Fault);
        }
        // An old length of 0 duplicates a shared mapping.
        if old.is_empty() && (!vma.shared() || !request.may_move) {
            return Err(Error::Inval);
        }
        if request.fixed.is_none() && !request.dont_unmap {
            if new_len <= old.len() && !old.is_empty() {
                if new_len < old.len() {
                    gone[0] = self.remove(
                        mm,
                        asid,
                        VirtRange {
                            start: old.start + new_len,
                            end: old.end,
                        },
                    )?;
                }
                return Ok(old.start);
            }
            if self.grow_in_place(mm, request, &vma)? {
                return Ok(old.start);
            }
            if !request.may_move {
                return Err(Error::NoMem);
            }
        }
        self.check_growth(mm, request, &vma)?;
        self.move_vma(mm, asid, request, vma, gone)
    }

    fn check_growth(&self, mm: &Mm<M>, request: &Remap, vma: &Vma<M>) -> Result<(), Error> {
        let kept = if request.dont_unmap {
            0
        } else {
            request.old.len()
        };
        let more = request.new_len.saturating_sub(kept) / PAGE_SIZE;
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
    fn grow_in_place(&mut self, mm: &Mm<M>, request: &Remap, vma: &Vma<M>) -> Result<bool, Error> {
        let old = request.old;
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
        self.check_growth(mm, request, vma)?;
        self.vmas.reserve(1)?;
        let mut more = vma.clone();
        more.range = VirtRange {
            start: vma.range.start,
            end,
        };
        // The tail goes on in the object where the VMA stops, so the tree joins the two.
        more.cut_below(old.end);
        self.vmas.insert(more);
        self.note_total();
        Ok(true)
    }

    fn move_vma(
        &mut self,
        mm: &Mm<M>,
        asid: Asid,
        request: &Remap,
        vma: Vma<M>,
        gone: &mut [Taken<M>; 2],
    ) -> Result<VirtAddr, Error> {
        let old = request.old;
        let to = match request.fixed {
            Some(at) => at,
            None => self
                .find_place(VirtAddr(0), request.new_len, &vma.backing)
                .ok_or(Error::NoMem)?,
        };
        let new = user_pages::<M>(to, request.new_len).ok_or(Error::NoMem)?;
        self.vmas.reserve(4)?;
        gone[0] = self.remove(mm, asid, new)?;
        let moved = VirtRange {
            start: old.start,
            end: old.start + old.len().min(request.new_len),
        };
        self.split_ends(mm, asid, old)?;
        self.split_ends(mm, asid, moved)?;
        let mut gather = Gather::new(mm, asid);
        let result = if moved.is_empty() {
            Ok(())
        } else {
            move_range(mm, &mut self.table, moved, to, &mut gather)
        };
        gather.finish();
        result?;
        let mut target = vma;
        target.cut_below(old.start);
        target.move_to(new);
        if request.dont_unmap {
            self.vmas.insert(target);
            // The old range stays mapped and empty, its VMA is unlocked as a whole; without pages it has no history either.
            self.vmas.amend(old.start, |v| {
                v.flags -= VmaFlags::LOCKED | VmaFlags::LOCKONFAULT;
                v.anon_vma = v.anon_vma.filter(|_| v.range != old);
            });
        } else {
            if !old.is_empty() {
                gone[1] = self.remove(mm, asid, old)?;
            }
            self.vmas.insert(target);
        }
        self.note_total();
        Ok(to)
    }
}
