//! munmap(2), and dropping an object's pages.

use crate::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::frame::zone::For;
use crate::frame::{Mm, OutOfMemory, SpaceId};
use crate::object::Object;
use crate::state::{AddressSpace, Error, Inner, user_pages};
use crate::table::{Zap, split_ends, zap_range};
use crate::tlb::Gather;
use crate::vma::{Backing, Taken, Vma};
use alloc::sync::Arc;

impl<M: Machine> AddressSpace<M> {
    /// munmap(2): the range need not be mapped; EINVAL unless aligned, not empty and in user space; ENOMEM when a VMA would
    /// have to be cut and there are too many.
    pub fn unmap(&self, start: VirtAddr, len: u64) -> Result<(), Error> {
        if len == 0 || !start.is_aligned(PAGE_SIZE) {
            return Err(Error::Inval);
        }
        let range = user_pages::<M>(start, len).ok_or(Error::Inval)?;
        let mut inner = self.inner.lock();
        let removed = inner.remove(&self.mm, &self.id, range);
        // Files are dropped after the lock.
        drop(inner);
        removed.map(drop).map_err(Error::from)
    }

    /// Drops mappings of the object's pages from page `from` on, copies of them included (truncate).
    pub fn zap_object(&self, object: &Arc<Object<M>>, from: u64) {
        self.zap_object_range(object, from, u64::MAX, false);
    }

    /// Drops mappings of the object's pages `from..end`; with `keep_copies`, private copies stay (a punched hole).
    pub fn zap_object_range(
        &self,
        object: &Arc<Object<M>>,
        from: u64,
        end: u64,
        keep_copies: bool,
    ) {
        let mut inner = self.inner.lock();
        let Inner {
            vmas, table, rss, ..
        } = &mut *inner;
        let mut gather = Gather::new(&self.mm, &self.id);
        for vma in vmas.iter() {
            let Backing::Object {
                object: o, offset, ..
            } = &vma.backing
            else {
                continue;
            };
            if !Arc::ptr_eq(o, object) {
                continue;
            }
            let (first, last) = (from.max(*offset), end.min(offset + vma.range.pages()));
            if first < last {
                let at = |page: u64| vma.range.start + ((page - offset) << PAGE_SHIFT);
                let mut zap = Zap {
                    keep_anon: keep_copies,
                    ..Zap::default()
                };
                zap_range(
                    &self.mm,
                    table,
                    VirtRange::new(at(first), at(last)),
                    &mut gather,
                    &mut zap,
                );
                rss.sub(vma, &zap);
            }
        }
        gather.finish();
    }
}

impl<M: Machine> Inner<M> {
    /// Splits the PMD leaves that an end of `range` cuts: before a VMA is cut there, or a part of one changes.
    pub(crate) fn split_ends(
        &mut self,
        mm: &Mm<M>,
        id: &SpaceId,
        range: VirtRange,
    ) -> Result<(), OutOfMemory> {
        let mut gather = Gather::new(mm, id);
        let result = split_ends(mm, &mut self.table, range, For::User, &mut gather);
        gather.finish();
        result
    }

    /// Takes VMAs and pages out of `range`. The VMAs are returned, to be dropped after the lock.
    pub(super) fn remove(
        &mut self,
        mm: &Mm<M>,
        id: &SpaceId,
        range: VirtRange,
    ) -> Result<Taken<M>, OutOfMemory> {
        if self.vmas.is_clear(range) {
            return Ok(Taken::default());
        }
        self.vmas.reserve_take(range, 0)?;
        let mut gather = Gather::new(mm, id);
        let split = split_ends(mm, &mut self.table, range, For::GivingBack, &mut gather);
        let removed = split.and_then(|()| self.vmas.take(range));
        let Ok(removed) = removed else {
            gather.finish();
            return Err(OutOfMemory);
        };
        for vma in removed.iter() {
            self.zap(mm, vma, vma.range, &mut gather, Zap::default());
        }
        gather.finish();
        Ok(removed)
    }

    /// Takes the pages of `range`, which lies in `vma`, out of the tables and the figures.
    pub(super) fn zap(
        &mut self,
        mm: &Mm<M>,
        vma: &Vma<M>,
        range: VirtRange,
        gather: &mut Gather<'_, M>,
        mut zap: Zap,
    ) {
        zap_range(mm, &mut self.table, range, gather, &mut zap);
        self.rss.sub(vma, &zap);
    }
}
