//! mlock(2) and mlockall(2): what is locked is populated, counted, shown, and not reclaimed.

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::fault::{Access, Resolution, Stopped, natural_access};
use crate::space::{AddressSpace, Areas, Error, Result, user_pages};
use crate::vma::{Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// mlock(2), mlock2(2), munlock(2). ENOMEM: a hole, or over RLIMIT_MEMLOCK; EPERM: that limit
    /// is 0; EAGAIN: out of memory for a page.
    pub fn mlock(&self, start: VirtAddr, len: u64, lock: bool, on_fault: bool) -> Result {
        let first = start.align_down(PAGE_SIZE);
        start.checked_add(len).ok_or(Error::Inval)?;
        let range = user_pages::<M>(first, start.page_offset() + len).ok_or(Error::NoMem)?;
        if range.is_empty() {
            return Ok(());
        }
        let mut inner = self.areas()?;
        if lock {
            let new: u64 = range.pages() - inner.pages_of(range, |v| v.flags.is_locked());
            if inner.limits.memlock == 0 {
                return Err(Error::Perm);
            }
            if !inner.may_lock(new) {
                return Err(Error::NoMem);
            }
        }
        inner.split_ends(range)?;
        let mapped = inner.set_locked(range, lock_flags(lock, on_fault))?;
        drop(inner);
        if !mapped {
            return Err(Error::NoMem);
        }
        if lock && !on_fault {
            // Fails at memory without access.
            let access = |vma: &Vma<M>| natural_access(vma).unwrap_or(Access::Read);
            let result = self.populate_as(range, |vma| Ok(Some(access(vma))));
            return result.map_err(|why| match why {
                Stopped::Fault(Resolution::NoMem) => Error::Again,
                Stopped::Fault(_) => Error::NoMem,
                Stopped::Ends => Error::Interrupted,
            });
        }
        Ok(())
    }

    /// mlockall(2), and munlockall(2) with both false: present mappings, future ones, or both.
    /// Errors as [`Self::mlock`].
    pub fn lock_all(&self, current: bool, future: bool, on_fault: bool) -> Result {
        let mut inner = self.areas()?;
        if current && !inner.may_lock(inner.vmas.pages() - inner.vmas.figures().locked) {
            return Err(match inner.limits.memlock {
                0 => Error::Perm,
                _ => Error::NoMem,
            });
        }
        inner.future = lock_flags(future, on_fault);
        if current || !future {
            // Whole VMAs: no split.
            let end = inner
                .vmas
                .last()
                .map_or(VirtAddr(0), |last| inner.vmas.get(last).range.end);
            let flags = lock_flags(current, on_fault);
            inner.in_parts(VirtRange::new(VirtAddr(0), end), |inner, part| {
                inner.vmas.update(part, |v| v.set_lock(flags));
                true
            });
        }
        drop(inner);
        if current && !on_fault {
            let mut at = VirtAddr(0);
            // mlockall(2) does not report pages that cannot be faulted in.
            while let Some(vma) = self.vma_from(at) {
                at = vma.range.end;
                if self.populate(vma.range) == Err(Stopped::Ends) {
                    return Err(Error::Interrupted);
                }
            }
        }
        Ok(())
    }
}

fn lock_flags(lock: bool, on_fault: bool) -> VmaFlags {
    match (lock, on_fault) {
        (false, _) => VmaFlags::empty(),
        (true, false) => VmaFlags::LOCKED,
        (true, true) => VmaFlags::LOCKS,
    }
}

impl<M: Machine> Areas<'_, M> {
    /// Sets the lock flags in `range` up to the first hole; returns whether there was none.
    fn set_locked(&mut self, range: VirtRange, flags: VmaFlags) -> Result<bool> {
        self.vmas.reserve_update(range)?;
        let mut end = range.start;
        self.in_parts(range, |inner, part| {
            for vma in inner.vmas.iter_in(part) {
                if vma.range.start > end {
                    break;
                }
                end = vma.range.end.min(part.end);
            }
            let mapped = VirtRange::new(part.start, end.max(part.start));
            inner.vmas.update(mapped, |v| v.set_lock(flags));
            mapped == part
        });
        Ok(end == range.end)
    }
}

impl<M: Machine> Vma<M> {
    fn set_lock(&mut self, flags: VmaFlags) {
        if self.flags.may_be_locked() {
            self.flags = (self.flags - VmaFlags::LOCKS) | flags;
        }
    }
}
