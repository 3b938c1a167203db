//! Mappings of a folio without a reverse map: the account names the exclusive owner, the frame
//! table the last known address, and the owner's tables whether it is still mapped there. A folio
//! moved with its table is searched in all private memory of the space, which also updates the
//! frame table, so that the next one is found at once.

use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::frame::{Block, Kind};
use crate::manager::Mm;
use crate::space::{AddressSpace, Areas, Locked, user_pages};
use crate::table::{Budget, Leaf};
use crate::thp::{PMD_ORDER, policy::block};

impl<M: Machine> AddressSpace<M> {
    /// Address of a private folio's page in this space, fastest if it is exclusive ([`Mm::owner`]);
    /// `None` in a shared table.
    pub fn address_of(&self, pfn: Pfn) -> Option<VirtAddr> {
        let info = self.mm.frame_info(pfn)?;
        let mut found = None;
        if info.block.kind == Kind::Anon {
            self.search(info.block.head, &mut |leaf| {
                if leaf.sharers < 2 && leaf.pfn <= pfn && pfn - leaf.pfn < leaf.pages {
                    found = Some(leaf.va + (pfn - leaf.pfn) * PAGE_SIZE);
                }
            });
        }
        found
    }

    /// Whether this space, the owner of a folio in the account, may map it by a shared table
    /// (`fork=share`): all sharers have one name in the account.
    pub fn may_share(&self, head: Pfn) -> bool {
        if self.mm.event("page_tables_shared") == Some(0) {
            return false;
        }
        let (mut found, mut shared) = (false, false);
        self.search(head, &mut |leaf| {
            (found, shared) = (true, shared || leaf.sharers > 1);
        });
        shared || !found
    }

    /// Calls `f` with each leaf of this space that maps the private folio, as [`Locked::mappings`],
    /// in steps: what changes meanwhile is met or not. The caller holds no lock.
    fn search(&self, head: Pfn, f: &mut impl FnMut(Leaf)) {
        let mut inner = self.lock();
        let references = self.mm.references(head);
        let mut found = 0;
        let mut count = |leaf: Leaf| {
            found += leaf.pages;
            f(leaf);
        };
        let near = inner.near(head);
        if let Some(range) = near {
            inner.mappings_in(range, head, &mut count);
        }
        let mut from = Some(VirtAddr(0));
        while let Some(at) = from.filter(|_| found < references) {
            let mut count = |leaf: Leaf| {
                if !near.is_some_and(|range| range.contains(leaf.va)) {
                    found += leaf.pages;
                    f(leaf);
                }
            };
            from = inner.search_some(head, at, &mut count);
            drop(inner);
            self.mm.machine().breathe();
            inner = self.lock();
        }
    }

    /// Notes where each of its private folios is mapped, in steps: the caller holds no lock.
    pub(super) fn note_places(&self) {
        let mut from = Some(VirtAddr(0));
        while let Some(at) = from {
            // There is no such folio.
            from = self
                .lock()
                .search_some(self.mm.zero_page(), at, &mut |_| {});
            self.mm.machine().breathe();
        }
    }
}

impl<M: Machine> Areas<'_, M> {
    /// Where this space maps a private folio, a single page or a huge one, which it does once at
    /// most. Searches beyond the last known address only if it is not there, and in steps: with the
    /// claim nothing moves meanwhile.
    pub(crate) fn find_folio(&mut self, head: Pfn) -> Option<VirtAddr> {
        let mut found = None;
        if let Some(range) = self.near(head) {
            self.mappings_in(range, head, &mut |leaf| {
                found.get_or_insert(leaf.va);
            });
        }
        let mut from = Some(VirtAddr(0));
        while let Some(at) = from.filter(|_| found.is_none()) {
            from = self.search_some(head, at, &mut |leaf| {
                found.get_or_insert(leaf.va);
            });
            if from.is_some() && found.is_none() {
                self.pause();
            }
        }
        found
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Calls `f` for each leaf of this space that maps the private folio; returns whether those are
    /// all references. Searches beyond the last known address only while references are missing.
    pub(crate) fn mappings(&self, head: Pfn, f: &mut impl FnMut(Leaf)) -> bool {
        let mm = self.mm();
        let near = self.near(head);
        let references = mm.references(head);
        let mut found = near.map_or(0, |range| self.mappings_in(range, head, f));
        if found < references {
            let of_folio = maps(mm, head);
            self.private_leaves(&mut |leaf| {
                note_place(mm, &leaf);
                if of_folio(&leaf) && !near.is_some_and(|range| range.contains(leaf.va)) {
                    found += leaf.pages;
                    f(leaf);
                }
            });
        }
        // A folio about to be freed has no references.
        found == references && references > 0
    }

    /// Where a private folio was mapped when its mappings were last looked up. Who asks without a
    /// reference may be late: then it is any range, or none.
    fn near(&self, head: Pfn) -> Option<VirtRange> {
        let meta = self.mm().frames().get(head);
        user_pages::<M>(meta.former_index().start(), meta.order().bytes())
    }

    /// One step of a search in all private memory from `from` on: calls `f` with each leaf that
    /// maps the folio, and notes where the others are mapped. Returns where the rest begins.
    fn search_some(&self, head: Pfn, from: VirtAddr, f: &mut impl FnMut(Leaf)) -> Option<VirtAddr> {
        let (mm, of_folio) = (self.mm(), maps(self.mm(), head));
        let mut budget = Budget::step(mm);
        let user = VirtRange::new(from, M::Pte::USER_END);
        for vma in self.vmas.iter_in(user) {
            let mut rest = VirtRange::new(vma.range.start.max(from), vma.range.end);
            if !budget.take(1) {
                return Some(rest.start);
            }
            while vma.has_anon
                && let Some(used) = self.root().first_used(rest)
            {
                let part = VirtRange::new(used, rest.end.min(block(used, PMD_ORDER).end));
                self.root().for_each_leaf(part, &mut |leaf| {
                    note_place(mm, &leaf);
                    if of_folio(&leaf) {
                        f(leaf);
                    }
                });
                rest.start = part.end;
                if !budget.take(part.pages() as u32) {
                    return Some(rest.start);
                }
            }
        }
        None
    }

    /// Calls `f` for each leaf in `range` that maps the private folio; returns the number of pages.
    pub(super) fn mappings_in(&self, range: VirtRange, head: Pfn, f: &mut impl FnMut(Leaf)) -> u64 {
        let (of_folio, mut found) = (maps(self.mm(), head), 0);
        self.root().for_each_leaf(range, &mut |leaf| {
            if of_folio(&leaf) {
                found += leaf.pages;
                f(leaf);
            }
        });
        found
    }

    fn private_leaves(&self, f: &mut impl FnMut(Leaf)) {
        for vma in self.vmas.iter().filter(|vma| vma.has_anon) {
            self.root().for_each_leaf(vma.range, f);
        }
    }
}

/// Whether a leaf maps pages of the folio.
fn maps<M: Machine>(mm: &Mm<M>, head: Pfn) -> impl Fn(&Leaf) -> bool {
    let pages = mm.frames().get(head).order().pages();
    move |leaf| leaf.pfn >= head && leaf.pfn - head < pages
}

/// Records the address of a private folio.
fn note_place<M: Machine>(mm: &Mm<M>, leaf: &Leaf) {
    let Block { head, kind, .. } = mm.frames().folio(leaf.pfn);
    let start = leaf.va.0.checked_sub((leaf.pfn - head) * PAGE_SIZE);
    if let (Kind::Anon, Some(start)) = (kind, start) {
        mm.frames()
            .get(head)
            .anon()
            .change_index(VirtAddr(start).page());
    }
}
