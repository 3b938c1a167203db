//! What /proc and mincore(2) show.

use crate::addr::{PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Attrs, Entry, Machine};
use crate::frame::{Kind, Mm};
use crate::state::{AddressSpace, Error, PageInfo, Smaps, Usage, user_pages};
use crate::table::{for_each_leaf, lookup};
use crate::vma::{Vma, VmaFlags};

/// How many page-table entries map the frame: its references less the object's own.
fn mappings<M: Machine>(mm: &Mm<M>, pfn: Pfn) -> u32 {
    let page = mm.frames().get(pfn);
    page.refs() - u32::from(page.kind() == Kind::Object)
}

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
    fn vma_from(&self, addr: VirtAddr) -> Option<Vma<M>> {
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

    /// The smaps figures of the VMA that starts at `start`.
    pub fn smaps(&self, start: VirtAddr) -> Option<Smaps> {
        let inner = self.inner.lock();
        let vma = inner
            .vmas
            .find(start)
            .map(|i| inner.vmas.get(i))
            .filter(|v| v.range.start == start)?;
        let mut out = Smaps::default();
        for_each_leaf(&self.mm, &inner.table, vma.range, &mut |_, pfn, attrs| {
            out.add_page(&self.mm, pfn, attrs)
        });
        if vma.flags.contains(VmaFlags::LOCKED) {
            out.locked = out.pss;
        }
        Some(out)
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
        match inside.then(|| lookup(&self.mm, &inner.table, addr).0) {
            Some(Entry::Leaf { pfn, attrs }) => self.describe(pfn, attrs),
            _ => PageInfo::default(),
        }
    }

    fn describe(&self, pfn: Pfn, attrs: Attrs) -> PageInfo {
        let zero_page = pfn == self.mm.zero_page();
        PageInfo {
            present: true,
            pfn: pfn.0,
            file_or_shared: self.mm.frames().get(pfn).kind() == Kind::Object,
            exclusive: !zero_page && mappings(&self.mm, pfn) == 1,
            writable: attrs.contains(Attrs::WRITE),
            dirty: attrs.contains(Attrs::DIRTY),
            zero_page,
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
        for_each_leaf(&self.mm, &inner.table, range, &mut |va, _, _| {
            into[index(va)] = 1
        });
        Ok(())
    }
}

impl Smaps {
    fn add_page<M: Machine>(&mut self, mm: &Mm<M>, pfn: Pfn, attrs: Attrs) {
        if pfn == mm.zero_page() {
            return;
        }
        let (times, dirty) = (
            u64::from(mappings(mm, pfn).max(1)),
            attrs.contains(Attrs::DIRTY),
        );
        self.rss += PAGE_SIZE;
        self.pss += PAGE_SIZE / times;
        if dirty {
            self.pss_dirty += PAGE_SIZE / times;
        }
        *match (times > 1, dirty) {
            (true, true) => &mut self.shared_dirty,
            (true, false) => &mut self.shared_clean,
            (false, true) => &mut self.private_dirty,
            (false, false) => &mut self.private_clean,
        } += PAGE_SIZE;
        if attrs.contains(Attrs::ACCESSED) {
            self.referenced += PAGE_SIZE;
        }
        if mm.frames().get(pfn).kind() == Kind::Anon {
            self.anonymous += PAGE_SIZE;
        }
    }
}
