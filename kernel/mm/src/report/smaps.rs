//! Figures of one VMA in /proc/PID/smaps: its pages and their folios.

use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::{Block, Kind};
use crate::manager::Mm;
use crate::own::Owner;
use crate::space::{AddressSpace, FolioUse, Inner, Smaps};
use crate::table::{Leaf, step};
use crate::thp::PMD_ORDER;
use crate::vma::VmaFlags;

/// Pages of an object that are looked up in a step.
const OBJECT_STEP: u64 = 2048;

/// Running figures of a range of pages.
#[derive(Default)]
pub struct SmapsWalk {
    rest: VirtRange,
    out: Smaps,
    current: Option<Current>,
}

impl SmapsWalk {
    /// Begins the walk of a range.
    pub fn begin(&mut self, range: VirtRange) {
        self.rest = range;
        self.out = Smaps::default();
        self.current = None;
    }

    /// The figures of a VMA with these flags, after the last [`AddressSpace::smaps_step`].
    pub fn finish(&mut self, flags: VmaFlags) -> &Smaps {
        self.leave();
        if flags.is_locked() {
            self.out.locked = self.out.pss;
        }
        &self.out
    }

    /// Counts the folio that the walk leaves.
    fn leave(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        let whole = current.in_order && current.pages == current.order.pages();
        self.out.folios[usize::from(current.order.0)] += FolioUse {
            whole: whole.into(),
            part: (!whole).into(),
            contpte: (whole && current.folded == current.pages).into(),
        };
    }
}

impl<M: Machine> AddressSpace<M> {
    /// The smaps figures of the VMA that starts at `start`.
    pub fn smaps(&self, start: VirtAddr) -> Option<Smaps> {
        let vma = self.vma_at(start).filter(|v| v.range.start == start)?;
        let mut walk = SmapsWalk::default();
        walk.begin(vma.range);
        while !self.smaps_step(&mut walk) {}
        Some(*walk.finish(vma.flags))
    }

    /// Adds up one step of some 100,000 instructions; returns whether that was all. Concurrent
    /// changes are seen or not.
    pub fn smaps_step(&self, walk: &mut SmapsWalk) -> bool {
        let mut inner = self.lock();
        let mut tally = Tally {
            mm: &self.mm,
            owner: &self.id.owner,
            walk,
        };
        let (mut range, Inner { vmas, table, .. }) = (tally.walk.rest, &mut *inner);
        let vma = vmas.at(range.start);
        let vma = vma.filter(|vma| vma.shared() && self.mm.slots().used() != 0);
        // No entry says what the object has in slots.
        let object = vma.and_then(|vma| vma.object_page(range.start));
        if object.is_some() {
            // No leaf goes on behind it.
            let end = range.start + OBJECT_STEP * PAGE_SIZE;
            range.end = range.end.min(end.align_down(PMD_ORDER.bytes()));
        }
        let end = step(&self.mm, &self.id, table, range, &mut |leaf| {
            tally.leaf(&leaf)
        });
        if let Some((object, index)) = object {
            let pages = (end - range.start) / PAGE_SIZE;
            walk.out.swap += object.in_slots(index..index + pages) * PAGE_SIZE;
        }
        walk.rest.start = end;
        walk.rest.is_empty()
    }
}

/// The large folio of the walk's position.
struct Current {
    head: Pfn,
    order: Order,
    /// Whether it is exclusive, except for what lies in a shared table.
    owned: bool,
    /// Pages seen.
    pages: u64,
    /// Of them, in folded blocks or in a PMD leaf.
    folded: u64,
    /// The next page if the folio is mapped contiguously and in order.
    next: (VirtAddr, Pfn),
    in_order: bool,
}

/// The running figures of a walk over a VMA's leaves.
struct Tally<'a, M: Machine> {
    mm: &'a Mm<M>,
    owner: &'a Owner,
    walk: &'a mut SmapsWalk,
}

impl<M: Machine> Tally<'_, M> {
    fn leaf(&mut self, leaf: &Leaf) {
        let Block { head, kind, order } = self.mm.frames().folio(leaf.pfn);
        if kind == Kind::Kernel {
            // The zero page.
            return;
        }
        if kind == Kind::Swap {
            return self.slots(leaf, head, order);
        }
        match kind {
            Kind::Anon if order != Order(0) => {
                self.enter(leaf, head, order);
                self.large(leaf, order);
            }
            _ if order != Order(0) && self.mm.frames().get(head).is_hugetlb() => {
                self.hugetlb(leaf, head, order, 1);
            }
            _ => {
                self.walk.leave();
                self.single(leaf, head, kind);
            }
        }
    }

    /// Pages in slots, of which the mean counts.
    #[cold]
    fn slots(&mut self, leaf: &Leaf, head: Pfn, order: Order) {
        // One reference is the folio's.
        let names = self.mm.references(head) - 1;
        let times = names.div_ceil(order.pages()) + leaf.sharers.saturating_sub(1);
        let (bytes, out) = (leaf.pages * PAGE_SIZE, &mut self.walk.out);
        out.swap += bytes;
        out.swap_pss += bytes / times.max(1);
    }

    /// A huge page, or a part of it, which counts in nothing else; `others` are references to it
    /// that are no mappings.
    #[cold]
    fn hugetlb(&mut self, leaf: &Leaf, head: Pfn, order: Order, others: u64) {
        let shared = self.mm.references(head) - others > order.pages();
        let out = &mut self.walk.out;
        *match shared {
            true => &mut out.shared_hugetlb,
            false => &mut out.private_hugetlb,
        } += leaf.pages * PAGE_SIZE;
    }

    /// A page of an object, or an order-0 private folio.
    fn single(&mut self, leaf: &Leaf, head: Pfn, kind: Kind) {
        let refs = self.mm.references(head);
        let pages = match kind {
            // The object's references are one for each page; of its mappings the mean counts.
            Kind::Object => self.mm.frames().get(head).order().pages(),
            _ => 1,
        };
        // Sharers of a table are one in the account.
        let times = (refs.div_ceil(pages) + leaf.sharers.saturating_sub(1))
            .saturating_sub(u64::from(kind == Kind::Object))
            .max(1);
        if leaf.level != Level::Pte {
            self.walk.out.shmem_huge += leaf.pages * PAGE_SIZE;
        }
        self.walk.out.add(leaf, times, times > 1);
        if kind == Kind::Anon {
            self.walk.out.anonymous += PAGE_SIZE;
            self.walk.out.folios[0].whole += 1;
        }
    }

    /// Pages of a large folio. There are no per-page counts: uses the mean.
    fn large(&mut self, leaf: &Leaf, order: Order) {
        let Some(current) = &mut self.walk.current else {
            return;
        };
        let refs = self.mm.references(current.head);
        let others = leaf.sharers.saturating_sub(1);
        let times = (refs.div_ceil(order.pages()) + others).max(1);
        // A folio may lie in two tables, one of them shared.
        let owned = current.owned && leaf.sharers <= 1;
        current.pages += leaf.pages;
        current.in_order &= current.next == (leaf.va, leaf.pfn);
        current.next = (leaf.va + leaf.pages * PAGE_SIZE, leaf.pfn + leaf.pages);
        if leaf.folded || leaf.level != Level::Pte {
            current.folded += leaf.pages;
        }
        self.walk
            .out
            .add(leaf, if owned { 1 } else { times.max(2) }, !owned);
        self.walk.out.anonymous += leaf.pages * PAGE_SIZE;
        if leaf.level == Level::Pmd {
            self.walk.out.anon_huge += leaf.pages * PAGE_SIZE;
        }
    }

    /// Enters the folio of the leaf, unless it is the current one.
    fn enter(&mut self, leaf: &Leaf, head: Pfn, order: Order) {
        if self.walk.current.as_ref().is_some_and(|c| c.head == head) {
            return;
        }
        self.walk.leave();
        if self.mm.frames().get(head).is_hugetlb() {
            return self.hugetlb(leaf, head, order, 0);
        }
        let own = Leaf {
            sharers: 0,
            ..*leaf
        };
        self.walk.current = Some(Current {
            head,
            order,
            owned: self.mm.owns(self.owner, &own),
            pages: 0,
            folded: 0,
            next: (leaf.va, head),
            in_order: true,
        });
    }
}

impl Smaps {
    /// Adds the pages of a leaf, each mapped `times` times.
    fn add(&mut self, leaf: &Leaf, times: u64, shared: bool) {
        let (bytes, dirty) = (leaf.pages * PAGE_SIZE, leaf.attrs.contains(Attrs::DIRTY));
        self.rss += bytes;
        self.pss += bytes / times;
        if dirty {
            self.pss_dirty += bytes / times;
        }
        *match (shared, dirty) {
            (true, true) => &mut self.shared_dirty,
            (true, false) => &mut self.shared_clean,
            (false, true) => &mut self.private_dirty,
            (false, false) => &mut self.private_clean,
        } += bytes;
        if leaf.attrs.contains(Attrs::ACCESSED) {
            self.referenced += bytes;
        }
    }
}
