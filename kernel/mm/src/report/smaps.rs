//! What /proc/PID/smaps shows of one VMA: its pages, and the folios that they belong to.

use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::{Block, Kind};
use crate::manager::Mm;
use crate::own::Owner;
use crate::space::{AddressSpace, FolioUse, Smaps};
use crate::table::{Leaf, owns, step};
use crate::vma::VmaFlags;

/// The figures of a range of pages while they are added up, step by step.
#[derive(Default)]
pub struct SmapsWalk {
    rest: VirtRange,
    out: Smaps,
    current: Option<Current>,
}

impl SmapsWalk {
    /// Begins with a range, of which nothing has been seen.
    pub fn begin(&mut self, range: VirtRange) {
        self.rest = range;
        self.out = Smaps::default();
        self.current = None;
    }

    /// The figures, once [`AddressSpace::smaps_step`] has seen everything, of an area with these
    /// flags.
    pub fn finish(&mut self, flags: VmaFlags) -> &Smaps {
        self.leave();
        if flags.contains(VmaFlags::LOCKED) {
            self.out.locked = self.out.pss;
        }
        &self.out
    }

    /// Counts the folio that the walk was in.
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

    /// Adds up what some 100,000 instructions can; returns whether that was all. Pages that come
    /// and go between two steps are seen or not.
    pub fn smaps_step(&self, walk: &mut SmapsWalk) -> bool {
        let mut inner = self.lock();
        let mut tally = Tally {
            mm: &self.mm,
            owner: &self.id.owner,
            walk,
        };
        let range = tally.walk.rest;
        let end = step(&self.mm, &self.id, &mut inner.table, range, &mut |leaf| {
            tally.leaf(&leaf)
        });
        walk.rest.start = end;
        walk.rest.is_empty()
    }
}

/// The large folio that the walk is in.
struct Current {
    head: Pfn,
    order: Order,
    /// Whether the space has it for itself, but for what lies in a table that others share.
    owned: bool,
    /// Pages seen.
    pages: u64,
    /// Of them, in folded blocks or in a PMD leaf.
    folded: u64,
    /// The page that comes next when the folio is mapped side by side and in order.
    next: (VirtAddr, Pfn),
    in_order: bool,
}

/// The figures while the leaves of a VMA are walked.
struct Tally<'a, M: Machine> {
    mm: &'a Mm<M>,
    owner: &'a Owner,
    walk: &'a mut SmapsWalk,
}

impl<M: Machine> Tally<'_, M> {
    fn leaf(&mut self, leaf: &Leaf) {
        let Block { head, kind, order } = self.mm.frames().folio(leaf.pfn);
        if kind == Kind::Kernel {
            // Zeros that everybody shares.
            return;
        }
        if kind == Kind::Anon && order != Order(0) {
            self.enter(leaf, head, order);
            self.large(leaf, order);
        } else {
            self.walk.leave();
            self.single(leaf, head, kind);
        }
    }

    /// A page of an object, or a private folio of one page.
    fn single(&mut self, leaf: &Leaf, head: Pfn, kind: Kind) {
        let refs = self.mm.references(head);
        // Those who share a table are one in the account.
        let times = (refs + leaf.sharers.saturating_sub(1))
            .saturating_sub(u64::from(kind == Kind::Object))
            .max(1);
        self.walk.out.add(leaf, times, times > 1);
        if kind == Kind::Anon {
            self.walk.out.anonymous += PAGE_SIZE;
            self.walk.out.folios[0].whole += 1;
        }
    }

    /// Pages of a large folio. How often each is mapped is not counted: the mean is what there is.
    fn large(&mut self, leaf: &Leaf, order: Order) {
        let Some(current) = &mut self.walk.current else {
            return;
        };
        let refs = self.mm.references(current.head);
        let others = leaf.sharers.saturating_sub(1);
        let times = (refs.div_ceil(order.pages()) + others).max(1);
        // A folio may lie in two tables, of which others share one.
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

    /// Goes on in the folio of the leaf, or from another one to it.
    fn enter(&mut self, leaf: &Leaf, head: Pfn, order: Order) {
        if self.walk.current.as_ref().is_some_and(|c| c.head == head) {
            return;
        }
        self.walk.leave();
        let own = Leaf {
            sharers: 0,
            ..*leaf
        };
        self.walk.current = Some(Current {
            head,
            order,
            owned: owns(self.mm, self.owner, &own),
            pages: 0,
            folded: 0,
            next: (leaf.va, head),
            in_order: true,
        });
    }
}

impl Smaps {
    /// Adds the pages of a leaf that are mapped so many times.
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
