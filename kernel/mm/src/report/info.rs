//! Figures for /proc and mincore(2).

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine, PteFormat};
use crate::frame::{Block, Kind};
use crate::space::{
    AREAS, AddressSpace, Error, Inner, Mapped, PageInfo, Result, Usage, user_pages,
};
use crate::table::{Leaf, Marker, is_swapped, step};
use crate::vma::Vma;
use alloc::vec::Vec;
use core::cell::Cell;

impl<M: Machine> AddressSpace<M> {
    /// Calls `f` with each VMA in address order, without the lock, as `f` may ask files for their
    /// names, and without a copy of the list: concurrent changes are seen or not. In steps: the
    /// caller holds no lock.
    pub fn for_each_vma(&self, f: &mut dyn FnMut(&Vma<M>)) {
        let (mut at, mut left) = (VirtAddr(0), AREAS);
        while let Some(vma) = self.vma_from(at) {
            at = vma.range.end;
            f(&vma);
            left -= 1;
            if left == 0 {
                left = AREAS;
                drop(vma);
                self.mm.machine().breathe();
            }
        }
    }

    /// The first VMA that ends above `addr`.
    pub fn vma_from(&self, addr: VirtAddr) -> Option<Vma<M>> {
        let inner = self.lock();
        inner
            .vmas
            .walk_from(addr)
            .map(|slot| inner.vmas.get(slot).clone())
    }

    /// Appends copies of the VMAs that end above `addr`, in address order, within the capacity of
    /// `into`.
    pub fn vmas_from(&self, addr: VirtAddr, into: &mut Vec<Vma<M>>) {
        self.lock().vmas.copies_from(addr, into);
    }

    /// The VMA that contains `addr`.
    pub fn vma_at(&self, addr: VirtAddr) -> Option<Vma<M>> {
        self.lock().vmas.at(addr).cloned()
    }

    /// The figures of the whole space.
    pub fn usage(&self) -> Usage {
        let inner = self.lock();
        Usage {
            mapped: inner.vmas.figures(),
            peak_total: inner.peak_total,
            rss: inner.rss,
            page_tables: inner.table.pages(),
        }
    }

    /// State of the page of `addr`.
    pub fn page_info(&self, addr: VirtAddr) -> PageInfo {
        let found = Cell::new(PageInfo::default());
        self.page_words(addr, &mut [0], |info| {
            found.set(*info);
            0
        });
        found.get()
    }

    /// States of the pages from `start` on, each encoded by `word`; 0 past the last user page. The
    /// space is locked meanwhile: ask for a few hundred at a time.
    pub fn page_words(&self, start: VirtAddr, words: &mut [u64], word: impl Fn(&PageInfo) -> u64) {
        words.fill(0);
        let start = start.align_down(PAGE_SIZE);
        let user = VirtRange::new(VirtAddr(0), M::Pte::USER_END);
        let end = VirtAddr(start.0.saturating_add(words.len() as u64 * PAGE_SIZE));
        let Some(range) = VirtRange::new(start, end).intersection(&user) else {
            return;
        };
        let index = |va: VirtAddr| ((va - start) / PAGE_SIZE) as usize;
        let mut inner = self.lock();
        let Inner { vmas, table, .. } = &mut *inner;
        for vma in vmas.iter_in(range) {
            let Some(mut part) = vma.range.intersection(&range) else {
                continue;
            };
            let tracked = vma.flags.is_tracked();
            let huge = vma.flags.is_hugetlb();
            let absent = PageInfo {
                mapped: true,
                soft_dirty: !tracked,
                tracks_writes: vma.is_protected_async(),
                ..PageInfo::default()
            };
            words[index(part.start)..index(part.end)].fill(word(&absent));
            while !part.is_empty() {
                part.start = step(&self.mm, &self.id, table, part, &mut |leaf| {
                    let clean = leaf.attrs.contains(Attrs::TRACKED);
                    let mut info = PageInfo {
                        soft_dirty: !(tracked && clean),
                        tracks_writes: absent.tracks_writes,
                        ..self.describe(&leaf)
                    };
                    info.huge |= huge && info.present;
                    for into in &mut words[index(leaf.va)..][..leaf.pages as usize] {
                        *into = word(&info);
                        info.pfn += 1;
                    }
                });
            }
        }
    }

    fn describe(&self, leaf: &Leaf) -> PageInfo {
        let write_protected = leaf.attrs.contains(Attrs::UFFD_WP);
        if let Some(marker) = Marker::of(leaf.attrs) {
            return PageInfo {
                mapped: true,
                guard: marker == Marker::Guard,
                marked: marker != Marker::Guard,
                write_protected,
                ..PageInfo::default()
            };
        }
        if is_swapped(leaf.attrs) {
            return PageInfo {
                mapped: true,
                swapped: true,
                pfn: leaf.pfn - self.mm.frames().slots().start,
                write_protected,
                ..PageInfo::default()
            };
        }
        let Block { head, kind, order } = self.mm.frames().folio(leaf.pfn);
        let exclusive = match kind {
            Kind::Anon => self.mm.owns(&self.id.owner, leaf),
            // The object's own reference and this leaf's; of a large folio the mean of both.
            Kind::Object => {
                let meta = self.mm.frames().get(head);
                match (meta.is_hugetlb(), meta.refs()) {
                    (true, refs) => refs == 1 + order.pages(),
                    (false, refs) => refs <= 2 * order.pages(),
                }
            }
            _ => false,
        };
        PageInfo {
            mapped: true,
            present: true,
            huge: leaf.level != Level::Pte,
            pfn: leaf.pfn.0,
            file_or_shared: kind == Kind::Object,
            exclusive,
            writable: leaf.attrs.contains(Attrs::WRITE),
            dirty: leaf.attrs.contains(Attrs::DIRTY),
            zero_page: kind == Kind::Kernel,
            write_protected,
            ..PageInfo::default()
        }
    }

    /// Calls `f` with what is mapped in one step at the start of `range`, some 100,000
    /// instructions; returns where the rest begins. Skips zero pages. The space is locked
    /// meanwhile.
    pub fn frames_step(&self, range: VirtRange, f: &mut impl FnMut(Mapped)) -> VirtAddr {
        let mut inner = self.lock();
        step(&self.mm, &self.id, &mut inner.table, range, &mut |leaf| {
            let kind = self.mm.frames().folio(leaf.pfn).kind;
            if kind != Kind::Kernel {
                f(Mapped {
                    first: leaf.pfn,
                    pages: leaf.pages,
                    kind,
                });
            }
        })
    }

    /// mincore(2): one byte per page, 1 if it is in memory. EINVAL: misaligned; ENOMEM: a hole.
    pub fn mincore(&self, start: VirtAddr, into: &mut [u8]) -> Result {
        if !start.is_aligned(PAGE_SIZE) {
            return Err(Error::Inval);
        }
        let range = user_pages::<M>(start, (into.len() as u64).saturating_mul(PAGE_SIZE))
            .ok_or(Error::NoMem)?;
        let inner = self.lock();
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
                // A page of the object is in memory, mapped or not.
                object.for_each_page(first, first + part.pages(), &mut |page, _| {
                    into[index(part.start) + (page - first) as usize] = 1;
                    true
                });
            }
        }
        inner.root().for_each_leaf(range, &mut |leaf| {
            let first = index(leaf.va);
            let present = !leaf.attrs.contains(Attrs::MARKER);
            into[first..first + leaf.pages as usize].fill(present.into());
        });
        Ok(())
    }
}
