//! madvise(2).

use crate::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::fault::{Access, Resolution, Stopped};
use crate::frame::slots::Which;
use crate::manager::{Mm, Result};
use crate::mutant::{self, Mutant};
use crate::object::Mapping;
use crate::space::{AddressSpace, Advice, Areas, Error, Inner, Locked};
use crate::table::{Budget, Parked, Zap, zap_page};
use crate::thp::PMD_ORDER;
use crate::vma::{Backing, Prot, Slot, Vma, VmaFlags};

/// Pages that MADV_REMOVE punches out of an object after the lock.
struct Hole<M: Machine> {
    /// Where they are, or would be, mapped.
    part: VirtRange,
    /// Kept: while it is there, the object cannot be sealed.
    object: Mapping<M>,
    /// The first page in the object.
    first: u64,
}

impl<M: Machine> AddressSpace<M> {
    /// madvise(2). EINVAL: misaligned, or advice that does not suit the mapping; ENOMEM: a hole
    /// (the rest is advised, as in Linux); EFAULT: populate met a bus error or a guard; EACCES:
    /// MADV_REMOVE of memory that is not shared or could not be made writable; EPERM: it would
    /// discard what is sealed; EAGAIN: too many VMAs.
    pub fn advise(&self, start: VirtAddr, len: u64, advice: Advice) -> Result<(), Error> {
        let unknown = matches!(advice, Advice::Mergeable | Advice::Unmergeable);
        if !start.is_aligned(PAGE_SIZE) || unknown {
            return Err(Error::Inval);
        }
        if len == 0 {
            return Ok(());
        }
        let (range, inside) = clip::<M>(start, len).ok_or(Error::Inval)?;
        let none = VmaFlags::empty();
        let order = VmaFlags::RANDOM | VmaFlags::SEQUENTIAL;
        let flag = |set, clear| self.areas()?.flag(range, advice, set, clear);
        match advice {
            Advice::PopulateRead => self.populate_advice(range, Access::Read),
            Advice::PopulateWrite => self.populate_advice(range, Access::Write),
            Advice::Remove => self.punch_areas(range),
            Advice::GuardInstall | Advice::GuardRemove => self.advise_guards(range, advice),
            Advice::Collapse => self.collapse_advice(range),
            Advice::DontNeed
            | Advice::DontNeedLocked
            | Advice::Free
            | Advice::Cold
            | Advice::PageOut => self.advise_pages(range, advice),
            Advice::Normal => flag(none, order),
            Advice::Random => flag(VmaFlags::RANDOM, order),
            Advice::Sequential => flag(VmaFlags::SEQUENTIAL, order),
            Advice::DontFork => flag(VmaFlags::DONTFORK, none),
            Advice::DoFork => flag(none, VmaFlags::DONTFORK),
            Advice::WipeOnFork => flag(VmaFlags::WIPEONFORK, none),
            Advice::KeepOnFork => flag(none, VmaFlags::WIPEONFORK),
            Advice::DontDump => flag(VmaFlags::DONTDUMP, none),
            Advice::DoDump => flag(none, VmaFlags::DONTDUMP),
            Advice::HugePage => flag(VmaFlags::HUGEPAGE, VmaFlags::NOHUGEPAGE),
            Advice::NoHugePage => flag(VmaFlags::NOHUGEPAGE, VmaFlags::HUGEPAGE),
            // Everything is in memory.
            Advice::WillNeed => self.areas()?.covers(range),
            Advice::Mergeable | Advice::Unmergeable => Err(Error::Inval),
            // Page by page, [`Self::offline`].
            Advice::HwPoison | Advice::SoftOffline => Err(Error::Inval),
        }
        .and(inside)
    }

    /// Fast path: madvise(2) with MADV_DONTNEED. Errors as [`Self::advise`].
    #[inline(always)]
    pub fn dont_need(&self, start: VirtAddr, len: u64) -> Result<(), Error> {
        if !start.is_aligned(PAGE_SIZE) {
            return Err(Error::Inval);
        }
        if len == 0 {
            return Ok(());
        }
        if len <= PAGE_SIZE && !self.is_shared() && self.lock().drop_page(start) {
            return Ok(());
        }
        let (range, inside) = clip::<M>(start, len).ok_or(Error::Inval)?;
        self.advise_pages(range, Advice::DontNeed).and(inside)
    }

    /// Advice about pages, in steps.
    fn advise_pages(&self, range: VirtRange, advice: Advice) -> Result<(), Error> {
        let drops = !matches!(advice, Advice::Cold | Advice::PageOut);
        let beside = |rest: &mut VirtRange| match drops {
            true => self.drop_read_locked(rest),
            false => Ok(()),
        };
        let mut parked = Parked::default();
        let covered = self.in_areas(range, beside, |inner, slot, part, budget| {
            let vma = inner.vmas.get(slot);
            if let Some(why) = refusal(&self.mm, vma, advice) {
                return Err(why);
            }
            if vma.flags.is_hugetlb() {
                return inner.advise_huge(slot, part, advice, budget);
            }
            // The pages of an object stay in it, which may put them in slots.
            let droppable = vma.flags.contains(VmaFlags::DROPPABLE) || vma.shared();
            match advice {
                Advice::PageOut if droppable => {
                    if vma.shared() {
                        // The entries go that say what was written.
                        inner.vmas.get_mut(slot).flags.count_as_written();
                    }
                    let rest = inner.drop_pages(slot, part, true, budget)?;
                    let done = VirtRange::new(part.start, rest.unwrap_or(part.end));
                    parked.pages += shelve(inner.vmas.get(slot), done);
                    Ok(rest)
                }
                Advice::PageOut if self.mm.slots().total() != 0 => {
                    Ok(inner.park(slot, part, budget, Which::All, &mut parked)?)
                }
                Advice::Cold | Advice::PageOut => {
                    Ok(inner.edit(|edit| edit.clear_accessed_some(part, budget)))
                }
                // MADV_FREE may free at once: reading zeros then is allowed.
                _ => Ok(inner.drop_pages(slot, part, true, budget)?),
            }
        });
        if parked.pages != 0 {
            self.mm.store_pages(parked.pages);
        }
        all_of_it(covered?)
    }

    /// Drops the pages of all droppable memory (MAP_DROPPABLE), as there are none left for others.
    pub fn drop_droppable(&self) {
        let user = VirtRange::new(VirtAddr(0), M::Pte::USER_END);
        // Only an early end of the thread stops it.
        let _ = self.area_by_area(user, |inner, slot, part, budget| {
            match inner.vmas.get(slot).flags.contains(VmaFlags::DROPPABLE) {
                true => Ok(inner.drop_pages(slot, part, true, budget)?),
                false => Ok(None),
            }
        });
    }

    /// MADV_REMOVE: punches a hole into the object, VMA by VMA; continues after an unmapped gap and
    /// reports it.
    fn punch_areas(&self, range: VirtRange) -> Result<(), Error> {
        let (mut rest, mut covered) = (range, true);
        loop {
            let next = self.lock().hole(rest)?;
            let Some(Hole {
                part,
                object,
                first,
            }) = next
            else {
                return all_of_it(covered && rest.is_empty());
            };
            covered &= part.start == rest.start;
            object.punch(first << PAGE_SHIFT, part.len());
            rest.start = part.end;
        }
    }

    fn populate_advice(&self, range: VirtRange, access: Access) -> Result<(), Error> {
        // Machines may read any mapping; the call requires PROT_READ.
        let allowed = |vma: &Vma<M>| match access {
            Access::Read if !vma.prot.contains(Prot::READ) => Err(Resolution::Denied),
            _ => Ok(Some(access)),
        };
        self.populate_as(range, allowed).map_err(|why| match why {
            Stopped::Fault(Resolution::Denied) => Error::Inval,
            Stopped::Fault(Resolution::Bus | Resolution::Guard) => Error::Fault,
            Stopped::Fault(_) => Error::NoMem,
            Stopped::Ends => Error::Interrupted,
        })
    }

    /// MADV_COLLAPSE of each whole 2 MiB in the range (EINVAL: there is none); continues after a
    /// failure and reports it.
    fn collapse_advice(&self, range: VirtRange) -> Result<(), Error> {
        self.areas()?.covers(range)?;
        let step = PMD_ORDER.bytes();
        let mut at = range.start.align_up(step).unwrap_or(range.end);
        // As in Linux, where no 2 MiB lie in it.
        let mut result = match at.checked_add(step).is_some_and(|end| end <= range.end) {
            true => Ok(()),
            false => Err(Error::Inval),
        };
        while at.checked_add(step).is_some_and(|end| end <= range.end) {
            if let Some(collapsed) = self.collapse_shared(at) {
                (at, result) = (at + step, collapsed.and(result));
                if self.mm.machine().breathe() {
                    return Err(Error::Interrupted);
                }
                continue;
            }
            // Skips empty memory, which may be long.
            let rest = VirtRange::new(at, range.end.align_down(step));
            let next = self
                .first_used(rest)
                .map_or(rest.end, |used| used.align_down(step));
            if next > at {
                (at, result) = (next, Err(Error::Inval));
                continue;
            }
            let collapsed = match self.collapse_now(at) {
                Err(Error::NoMem) if self.mm.compact_for(PMD_ORDER) => self.collapse_now(at),
                collapsed => collapsed,
            };
            result = collapsed.and(result);
            at += step;
            if self.mm.machine().breathe() {
                return Err(Error::Interrupted);
            }
        }
        result
    }
}

impl<M: Machine> Areas<'_, M> {
    /// ENOMEM if the range has a hole.
    fn covers(&mut self, range: VirtRange) -> Result<(), Error> {
        all_of_it(self.pages_of(range, |_| true) == range.pages())
    }

    /// Advice that VMAs store as flags.
    fn flag(
        &mut self,
        range: VirtRange,
        advice: Advice,
        set: VmaFlags,
        clear: VmaFlags,
    ) -> Result<(), Error> {
        self.check_cut(range)?;
        if !self.vmas.may_cut(range) {
            return Err(Error::Again);
        }
        self.vmas.reserve_update(range)?;
        self.split_ends(range)?;
        let (mut pages, mut refused) = (0, None);
        self.in_parts(range, |inner, mut part| {
            let why_not = |v: &Vma<M>| Some((v.range.start, refusal(inner.mm(), v, advice)?));
            if let Some((start, why)) = inner.vmas.iter_in(part).find_map(why_not) {
                // What precedes it is advised all the same.
                part.end = start.max(part.start);
                refused = Some(why);
            }
            pages += inner.vmas.pages_in(part);
            inner
                .vmas
                .update(part, |v| v.flags = (v.flags - clear) | set);
            refused.is_none()
        });
        if let Some(why) = refused {
            return Err(why);
        }
        all_of_it(pages == range.pages())
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Fast path: drops the page at `at` if it is private and has a PTE that is not folded, and its
    /// VMA allows every advice. Returns whether it did.
    // Out of line: after the checks before it the compiler would treat it as cold.
    #[inline(never)]
    fn drop_page(&mut self, at: VirtAddr) -> bool {
        let (mm, id) = (self.mm(), self.id());
        if let Some(slot) = self.vmas.find(at)
            && self.vmas.get(slot).flags.may_discard()
            && let Some(pages) = zap_page(mm, &mut self.table, at, id)
        {
            self.rss.anon -= pages;
            return true;
        }
        false
    }

    /// Drops the pages of `part` of the VMA in `slot` within the budget, and guards unless
    /// `keep_guards`; returns where the rest begins. Tables stay: they will be used again.
    pub(super) fn drop_pages(
        &mut self,
        slot: Slot,
        part: VirtRange,
        keep_guards: bool,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>> {
        let mut zap = Zap {
            keep_guards: keep_guards && !mutant::on(Mutant::DropGuards),
            keep_tables: true,
            budget: *budget,
            ..Zap::default()
        };
        let marks = self.vmas.get(slot).keeps_marks();
        let zapped = self.edit(|edit| match marks && keep_guards {
            true => edit.zap_for_markers(part, false, &mut zap),
            false => edit.zap_part(part, &mut zap),
        });
        let Inner { vmas, rss, .. } = &mut **self;
        rss.sub(vmas.get(slot), &zap);
        *budget = zap.budget;
        zapped
    }

    /// The part of the first VMA in `range`, and its object pages.
    fn hole(&self, range: VirtRange) -> Result<Option<Hole<M>>, Error> {
        let Some(vma) = self.vmas.iter_in(range).next() else {
            return Ok(None);
        };
        let Some(part) = vma.range.intersection(&range) else {
            return Ok(None);
        };
        if let Some(why) = refusal(self.mm(), vma, Advice::Remove) {
            return Err(why);
        }
        let (_, first) = vma.object_page(part.start).ok_or(Error::Inval)?;
        if !vma.flags.may_write_object() {
            return Err(Error::Acces);
        }
        let Backing::Object { object, .. } = &vma.backing else {
            return Err(Error::Inval);
        };
        let object = object.clone();
        Ok(Some(Hole {
            part,
            object,
            first,
        }))
    }
}

/// ENOMEM unless the whole range is mapped.
#[inline]
pub(super) fn all_of_it(covered: bool) -> Result<(), Error> {
    if covered { Ok(()) } else { Err(Error::NoMem) }
}

/// The user pages of `len` bytes at `start`, and ENOMEM if there are others; `None` if they wrap
/// around.
fn clip<M: Machine>(start: VirtAddr, len: u64) -> Option<(VirtRange, Result<(), Error>)> {
    let end = start.checked_add(len)?.align_up(PAGE_SIZE)?;
    let top = M::Pte::USER_END;
    let range = VirtRange::new(start.min(top), end.min(top));
    Some((range, all_of_it(end <= top)))
}

/// Why the advice does not suit the VMA: a seal, or pages that are locked or not private.
#[inline]
pub(super) fn refusal<M: Machine>(mm: &Mm<M>, vma: &Vma<M>, advice: Advice) -> Option<Error> {
    if vma.is_sealed() && vma.is_sealed_against(mm, advice) {
        return Some(Error::Perm);
    }
    let locked = vma.flags.is_locked();
    if vma.flags.is_hugetlb() && advice == Advice::GuardInstall {
        return Some(Error::Inval);
    }
    let unsuitable = match advice {
        Advice::DontNeed | Advice::Cold | Advice::PageOut => locked,
        Advice::GuardInstall | Advice::Remove => locked,
        Advice::Free => locked || !matches!(vma.backing, Backing::Anon),
        Advice::KeepOnFork | Advice::DoDump => vma.flags.contains(VmaFlags::DROPPABLE),
        Advice::WipeOnFork => vma.shared() || !matches!(vma.backing, Backing::Anon),
        _ => false,
    };
    unsuitable.then_some(Error::Inval)
}

/// Puts the pages of the VMA's object that `part` maps, and nobody else does, in swap slots;
/// returns how many.
fn shelve<M: Machine>(vma: &Vma<M>, part: VirtRange) -> u64 {
    let mut shelved = 0;
    if let Some((object, first)) = vma.object_page(part.start) {
        let mut rest = first..first + part.pages();
        while !rest.is_empty() {
            shelved += object.shelve_step(&mut rest, Which::All, u64::MAX);
        }
    }
    shelved
}
