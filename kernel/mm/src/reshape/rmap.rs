//! From a folio to its mappings, without a reverse map: the account names the space that has a
//! folio for itself, the frame table says where the folio was mapped, and the tables of that space
//! whether it still is. What was moved since, with its table and unseen, is looked for in all
//! private memory of the space, which puts right what the frame table says of all that is there:
//! the next one is found at once.

use crate::addr::{PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::Machine;
use crate::frame::{Block, Kind};
use crate::manager::Mm;
use crate::space::{AddressSpace, Locked, user_pages};
use crate::table::{Leaf, for_each_leaf};
use core::cell::Cell;

impl<M: Machine> AddressSpace<M> {
    /// Where this space maps the page of a private folio, most quickly one that it has for itself
    /// ([`Mm::owner`]); `None` where others share the table.
    pub fn address_of(&self, pfn: Pfn) -> Option<VirtAddr> {
        let locked = self.lock();
        let info = self.mm.frame_info(pfn)?;
        let mut found = None;
        if info.kind == Kind::Anon {
            locked.mappings(info.head, &mut |leaf| {
                if leaf.sharers < 2 && leaf.pfn <= pfn && pfn - leaf.pfn < leaf.pages {
                    found = Some(leaf.va + (pfn - leaf.pfn) * PAGE_SIZE);
                }
            });
        }
        found
    }

    /// Whether this space, which the account says has a folio for itself, may have it by a table
    /// that others share (`fork=share`): the account has one name for all of them.
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
    /// Calls `f` for each leaf of this space that maps pages of the private folio; returns whether
    /// those are all references that it has. Looks further than where the folio was last known to
    /// be only while there are others.
    pub(crate) fn mappings(&self, head: Pfn, f: &mut impl FnMut(Leaf)) -> bool {
        let mm = self.mm();
        let meta = mm.frames().get(head);
        let (references, pages) = (mm.references(head), meta.order().pages());
        let found = Cell::new(0);
        let mut see = |leaf: Leaf| {
            if leaf.pfn >= head && leaf.pfn - head < pages {
                found.set(found.get() + leaf.pages);
                f(leaf);
            }
        };
        let near = user_pages::<M>(meta.anon().index().start(), meta.order().bytes());
        if let Some(range) = near {
            for_each_leaf(mm, &self.table, range, &mut see);
        }
        if found.get() < references {
            self.private_leaves(&mut |leaf| {
                note_place(mm, &leaf);
                if !near.is_some_and(|range| range.contains(leaf.va)) {
                    see(leaf);
                }
            });
        }
        // Nobody has one that is on its way to the allocator.
        found.get() == references && references > 0
    }

    fn private_leaves(&self, f: &mut impl FnMut(Leaf)) {
        for vma in self.vmas.iter().filter(|vma| vma.has_anon) {
            for_each_leaf(self.mm(), &self.table, vma.range, f);
        }
    }
}

/// Notes where a private folio is mapped.
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
