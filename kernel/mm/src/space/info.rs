//! What /proc and mincore(2) show.

use crate::addr::{PAGE_SIZE, VirtAddr};
use crate::arch::{Attrs, Machine};
use crate::frame::Kind;
use crate::state::{AddressSpace, Error, PageInfo, Usage, user_pages};
use crate::table::{Leaf, for_each_leaf, lookup, owns, settle};
use crate::tlb::Gather;
use crate::vma::{Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// Each VMA in address order. `f` runs without the lock, so it may ask files for their names, and without a copy of
    /// the list, which may be long: VMAs that come and go meanwhile are seen or not.
    pub fn for_each_vma(&self, f: &mut dyn FnMut(&Vma<M>)) {
        let mut at = VirtAddr(0);
        while let Some(vma) = self.vma_from(at) {
            at = vma.range.end;
            f(&vma);
        }
    }

    /// The first VMA that ends above `addr`.
    pub fn vma_from(&self, addr: VirtAddr) -> Option<Vma<M>> {
        let inner = self.inner.lock();
        inner
            .vmas
            .from(addr)
            .map(|slot| inner.vmas.get(slot).clone())
    }

    /// The VMA that contains `addr`.
    pub fn vma_at(&self, addr: VirtAddr) -> Option<Vma<M>> {
        let inner = self.inner.lock();
        inner.vmas.find(addr).map(|i| inner.vmas.get(i).clone())
    }

    /// The figures of the whole space.
    pub fn usage(&self) -> Usage {
        let inner = self.inner.lock();
        let figures = inner.vmas.figures();
        Usage {
            total: figures.total,
            peak_total: inner.peak_total,
            rss_anon: inner.rss.anon,
            rss_file: inner.rss.file,
            rss_shmem: inner.rss.shmem,
            peak_rss: inner.rss.peak,
            data: figures.data,
            stack: figures.stack,
            exec: figures.exec,
            locked: figures.locked,
            page_tables: inner.table.pages(),
        }
    }

    /// What the page of `addr` is.
    pub fn page_info(&self, addr: VirtAddr) -> PageInfo {
        let inner = self.inner.lock();
        let inside = user_pages::<M>(addr.align_down(PAGE_SIZE), PAGE_SIZE).is_some();
        let find = || lookup(&self.mm, &inner.table, addr);
        let mut leaf = inside.then(find).flatten();
        if leaf.as_ref().is_some_and(|leaf| leaf.sharers == 1) {
            // The others have left the table: the account is to say so.
            let mut gather = Gather::new(&self.mm, &self.id);
            settle(&self.mm, &inner.table, addr, &mut gather);
            gather.finish();
            leaf = find();
        }
        let vma = inner.vmas.find(addr).map(|slot| inner.vmas.get(slot));
        let tracked = vma.is_none_or(|vma| vma.flags.contains(VmaFlags::TRACKED));
        let info = match &leaf {
            Some(leaf) => self.describe(leaf),
            _ => PageInfo::default(),
        };
        let clean = leaf.is_none_or(|leaf| leaf.attrs.contains(Attrs::TRACKED));
        PageInfo {
            soft_dirty: !(tracked && clean),
            ..info
        }
    }

    fn describe(&self, leaf: &Leaf) -> PageInfo {
        let (head, kind, _) = self.mm.frames().folio(leaf.pfn);
        let exclusive = match kind {
            Kind::Anon => owns(&self.mm, &self.id.owner, leaf),
            // The object's own reference and this one.
            Kind::Object => self.mm.frames().get(head).refs() == 2,
            _ => false,
        };
        PageInfo {
            present: true,
            pfn: leaf.pfn.0,
            file_or_shared: kind == Kind::Object,
            exclusive,
            writable: leaf.attrs.contains(Attrs::WRITE),
            dirty: leaf.attrs.contains(Attrs::DIRTY),
            zero_page: kind == Kind::Kernel,
            soft_dirty: false,
        }
    }

    /// mincore(2): one byte per page, 1 when it is in memory. EINVAL unless aligned; ENOMEM where something is not mapped.
    pub fn mincore(&self, start: VirtAddr, into: &mut [u8]) -> Result<(), Error> {
        if !start.is_aligned(PAGE_SIZE) {
            return Err(Error::Inval);
        }
        let range = user_pages::<M>(start, (into.len() as u64).saturating_mul(PAGE_SIZE))
            .ok_or(Error::NoMem)?;
        let inner = self.inner.lock();
        if !inner.vmas.covers(range) {
            return Err(Error::NoMem);
        }
        into.fill(0);
        let index = |va: VirtAddr| ((va - range.start) / PAGE_SIZE) as usize;
        for vma in inner.vmas.iter_in(range) {
            let Some(part) = vma.range.intersection(&range) else {
                continue;
            };
            if let Some((object, first)) = vma.object_page(part.start) {
                // A page that the object has is in memory, mapped or not.
                object.for_each_page(first, first + part.pages(), &mut |page, _| {
                    into[index(part.start) + (page - first) as usize] = 1;
                    true
                });
            }
        }
        for_each_leaf(&self.mm, &inner.table, range, &mut |leaf| {
            let first = index(leaf.va);
            into[first..first + leaf.pages as usize].fill(1);
        });
        Ok(())
    }
}
