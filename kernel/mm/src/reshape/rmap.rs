//! Mappings of a folio without a reverse map: the account names the exclusive owner, the frame
//! table the last known address, and the owner's tables whether it is still mapped there. A folio
//! moved with its table is searched in all private memory of the space, which also updates the
//! frame table, so that the next one is found at once.

use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::frame::{Block, Kind};
use crate::manager::Mm;
use crate::space::{AddressSpace, Locked, user_pages};
use crate::table::Leaf;

impl<M: Machine> AddressSpace<M> {
    /// Address of a private folio's page in this space, fastest if it is exclusive ([`Mm::owner`]);
    /// `None` in a shared table.
    pub fn address_of(&self, pfn: Pfn) -> Option<VirtAddr> {
        let locked = self.lock();
        let info = self.mm.frame_info(pfn)?;
        let mut found = None;
        if info.block.kind == Kind::Anon {
            locked.mappings(info.block.head, &mut |leaf| {
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
        let locked = self.lock();
        locked.mappings(head, &mut |leaf| {
            (found, shared) = (true, shared || leaf.sharers > 1);
        });
        shared || !found
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Calls `f` for each leaf of this space that maps the private folio; returns whether those are
    /// all references. Searches beyond the last known address only while references are missing.
    pub(crate) fn mappings(&self, head: Pfn, f: &mut impl FnMut(Leaf)) -> bool {
        let mm = self.mm();
        let meta = mm.frames().get(head);
        let near = user_pages::<M>(meta.anon().index().start(), meta.order().bytes());
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

    /// Where this space maps a private folio, a single page or a huge one, which it does once at
    /// most. Searches beyond the last known address only if it is not there.
    pub(crate) fn place_of(&self, head: Pfn) -> Option<VirtAddr> {
        let meta = self.mm().frames().get(head);
        let near = user_pages::<M>(meta.anon().index().start(), meta.order().bytes());
        let mut found = None;
        if let Some(range) = near {
            self.mappings_in(range, head, &mut |leaf| {
                found.get_or_insert(leaf.va);
            });
        }
        if found.is_none() {
            let of_folio = maps(self.mm(), head);
            self.private_leaves(&mut |leaf| {
                if of_folio(&leaf) {
                    found.get_or_insert(leaf.va);
                }
            });
        }
        found
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
            .set_index(VirtAddr(start).page());
    }
}
