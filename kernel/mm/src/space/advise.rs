//! madvise(2).

use crate::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Asid, Machine};
use crate::fault::{Access, Resolution};
use crate::frame::Mm;
use crate::object::Object;
use crate::state::{AddressSpace, Advice, Error, Inner, user_pages};
use crate::table::{Zap, clear_accessed};
use crate::thp::PMD_ORDER;
use crate::tlb::Gather;
use crate::vma::{Backing, Prot, Vma, VmaFlags};
use alloc::sync::Arc;

/// The part of an object that MADV_REMOVE punches out, after the lock.
type Hole<M> = (Arc<Object<M>>, u64, u64);

impl<M: Machine> AddressSpace<M> {
    /// madvise(2): EINVAL unless aligned, or for advice that does not suit the mapping; ENOMEM where something is not mapped
    /// (the rest is advised all the same, as in Linux); EFAULT when populating meets a bus error; EACCES: MADV_REMOVE of
    /// memory that is not shared and writable.
    pub fn advise(&self, start: VirtAddr, len: u64, advice: Advice) -> Result<(), Error> {
        if !start.is_aligned(PAGE_SIZE) || matches!(advice, Advice::Mergeable | Advice::Unmergeable)
        {
            return Err(Error::Inval);
        }
        if len == 0 {
            return Ok(());
        }
        let range = user_pages::<M>(start, len).ok_or(if start.checked_add(len).is_none() {
            Error::Inval
        } else {
            Error::NoMem
        })?;
        match advice {
            Advice::PopulateRead => self.populate_advice(range, Access::Read),
            Advice::PopulateWrite => self.populate_advice(range, Access::Write),
            Advice::Remove => self.remove_pages(range),
            Advice::Collapse => self.collapse_advice(range),
            _ => self.inner.lock().advise(&self.mm, self.asid, range, advice),
        }
    }

    fn populate_advice(&self, range: VirtRange, access: Access) -> Result<(), Error> {
        match self.populate_as(range, |_| Some(access)) {
            Resolution::Done => Ok(()),
            Resolution::Denied => Err(Error::Inval),
            Resolution::Bus => Err(Error::Fault),
            Resolution::NotMapped | Resolution::NoMem => Err(Error::NoMem),
        }
    }

    /// MADV_COLLAPSE: each whole 2 MiB in the range; goes on after one that cannot be and reports it.
    fn collapse_advice(&self, range: VirtRange) -> Result<(), Error> {
        if !self.inner.lock().vmas.covers(range) {
            return Err(Error::NoMem);
        }
        let step = PMD_ORDER.bytes();
        let mut result = Ok(());
        let mut at = range.start.align_up(step).unwrap_or(range.end);
        while at.checked_add(step).is_some_and(|end| end <= range.end) {
            result = self.collapse_now(at).and(result);
            at += step;
        }
        result
    }

    /// MADV_REMOVE: punches a hole into the object.
    fn remove_pages(&self, range: VirtRange) -> Result<(), Error> {
        let mut at = range.start;
        while at < range.end {
            let (end, hole) = self.inner.lock().hole(VirtRange {
                start: at,
                end: range.end,
            })?;
            let (object, first, pages) = hole;
            object.punch(first << PAGE_SHIFT, pages << PAGE_SHIFT);
            self.zap_object_range(&object, first, first + pages, true);
            at = end;
        }
        Ok(())
    }
}

impl<M: Machine> Inner<M> {
    fn advise(
        &mut self,
        mm: &Mm<M>,
        asid: Asid,
        range: VirtRange,
        advice: Advice,
    ) -> Result<(), Error> {
        if let Some((set, clear)) = flags(advice) {
            self.vmas.reserve_update(range)?;
            let unsuitable = |v: &Vma<M>| {
                advice == Advice::WipeOnFork && (v.shared() || !matches!(v.backing, Backing::Anon))
            };
            if self.vmas.iter_in(range).any(unsuitable) {
                return Err(Error::Inval);
            }
            self.split_ends(mm, asid, range)?;
            self.vmas
                .update(range, |v| v.flags = (v.flags - clear) | set);
        } else {
            self.advise_pages(mm, asid, range, advice)?;
        }
        if self.vmas.covers(range) {
            Ok(())
        } else {
            Err(Error::NoMem)
        }
    }

    fn advise_pages(
        &mut self,
        mm: &Mm<M>,
        asid: Asid,
        range: VirtRange,
        advice: Advice,
    ) -> Result<(), Error> {
        let mut next = self.vmas.from(range.start);
        while let Some(slot) = next {
            let vma = self.vmas.get(slot).clone();
            if vma.range.start >= range.end {
                break;
            }
            next = self.vmas.next(slot);
            let Some(part) = vma.range.intersection(&range) else {
                continue;
            };
            match advice {
                Advice::DontNeed | Advice::Free => {
                    let anonymous = matches!(vma.backing, Backing::Anon);
                    if vma.flags.contains(VmaFlags::LOCKED) || advice == Advice::Free && !anonymous
                    {
                        return Err(Error::Inval);
                    }
                    // MADV_FREE may free at once: memory is there to be given back, and it reads as zeros then, as allowed.
                    self.split_ends(mm, asid, part)?;
                    let mut gather = Gather::new(mm, asid);
                    self.zap(
                        mm,
                        &vma,
                        part,
                        &mut gather,
                        Zap {
                            keep_tables: true,
                            ..Zap::default()
                        },
                    );
                    gather.finish();
                }
                Advice::Cold | Advice::PageOut => clear_accessed(mm, &mut self.table, part),
                _ => {}
            }
        }
        Ok(())
    }

    fn hole(&self, range: VirtRange) -> Result<(VirtAddr, Hole<M>), Error> {
        let vma = self
            .vmas
            .get(self.vmas.find(range.start).ok_or(Error::NoMem)?);
        if vma.flags.contains(VmaFlags::LOCKED) {
            return Err(Error::Inval);
        }
        let (object, first) = vma.object_page(range.start).ok_or(Error::Inval)?;
        if !vma.shared() || !vma.prot.contains(Prot::WRITE) {
            return Err(Error::Acces);
        }
        let end = vma.range.end.min(range.end);
        Ok((
            end,
            (object.clone(), first, (end - range.start) >> PAGE_SHIFT),
        ))
    }
}

/// Flags that the advice sets and clears; `None` for advice about pages.
fn flags(advice: Advice) -> Option<(VmaFlags, VmaFlags)> {
    let (none, order) = (VmaFlags::empty(), VmaFlags::RANDOM | VmaFlags::SEQUENTIAL);
    Some(match advice {
        Advice::Normal => (none, order),
        Advice::Random => (VmaFlags::RANDOM, order),
        Advice::Sequential => (VmaFlags::SEQUENTIAL, order),
        Advice::DontFork => (VmaFlags::DONTFORK, none),
        Advice::DoFork => (none, VmaFlags::DONTFORK),
        Advice::WipeOnFork => (VmaFlags::WIPEONFORK, none),
        Advice::KeepOnFork => (none, VmaFlags::WIPEONFORK),
        Advice::DontDump => (VmaFlags::DONTDUMP, none),
        Advice::DoDump => (none, VmaFlags::DONTDUMP),
        Advice::HugePage => (VmaFlags::HUGEPAGE, VmaFlags::NOHUGEPAGE),
        Advice::NoHugePage => (VmaFlags::NOHUGEPAGE, VmaFlags::HUGEPAGE),
        _ => return None,
    })
}
