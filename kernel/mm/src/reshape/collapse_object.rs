//! MADV_COLLAPSE of shared memory. There is no reverse map: every space that maps the object is
//! asked to unmap the pages first, as when a file is truncated.

use crate::addr::VirtAddr;
use crate::arch::{Level, Machine};
use crate::fault::{Access, fresh_attrs};
use crate::object::{Collapsed, Object};
use crate::space::{AddressSpace, Error, Inner, Locked, Pages, Result, gathered};
use crate::table::Cursor;
use crate::thp::PMD_ORDER;
use crate::thp::policy::block;
use crate::thp::shmem::indices;
use alloc::sync::Arc;

/// How often all spaces are asked: faults may map pages again in one that was asked before.
const ROUNDS: usize = 3;

impl<M: Machine> AddressSpace<M> {
    /// Collapses the 2 MiB of a shared mapping around `at`, and maps them by a PMD leaf; `None`:
    /// there is no such mapping. EINVAL: nothing is there; EAGAIN: a page is pinned, or in use all
    /// the time; ENOMEM.
    pub(crate) fn collapse_shared(&self, at: VirtAddr) -> Option<Result> {
        let (object, first) = self.lock().shared_block(at)?;
        Some(self.collapse_object(at, &object, first))
    }

    fn collapse_object(&self, at: VirtAddr, object: &Arc<Object<M>>, first: u64) -> Result {
        for _ in 0..ROUNDS {
            match object.collapse(first)? {
                Collapsed::Done => {
                    self.lock().map_collapsed(at, object, first);
                    return Ok(());
                }
                Collapsed::No => return Err(Error::Inval),
                Collapsed::Monitored => return Err(Error::Busy),
                Collapsed::Busy => {}
            }
            let folio = Pages::new(object, indices(first, PMD_ORDER));
            object.for_each_mapper(&mut |space| space.zap(&folio));
        }
        Err(Error::Again)
    }
}

impl<M: Machine> Locked<'_, M> {
    /// The object that a shared area has in all of the 2 MiB around `at`, and the first index, both
    /// aligned; where a large folio may be.
    fn shared_block(&self, at: VirtAddr) -> Option<(Arc<Object<M>>, u64)> {
        let range = block(at, PMD_ORDER);
        let vma = self.vmas.at(range.start)?;
        let (object, first) = vma.object_page(range.start)?;
        let orders = vma.flags.collapse_orders(self.space.thp_permit());
        let allowed = vma.shared()
            && vma.range.covers(&range)
            && indices(first, PMD_ORDER).start == first
            && orders.contains(PMD_ORDER);
        allowed.then(|| (object.clone(), first))
    }

    /// Maps a folio that was made of an area's pages by a PMD leaf, if nothing is there by now.
    fn map_collapsed(&mut self, at: VirtAddr, object: &Arc<Object<M>>, first: u64) {
        let start = at.align_down(PMD_ORDER.bytes());
        let still = self.shared_block(at);
        if !still.is_some_and(|(now, index)| Arc::ptr_eq(&now, object) && index == first) {
            return;
        }
        let (space, slot) = (self.space, self.vmas.find(start));
        let (Some(slot), Ok(Some(page))) = (slot, object.page_if_there(first)) else {
            return;
        };
        let part = object.part(first, page, indices(first, PMD_ORDER));
        let Inner {
            vmas, table, rss, ..
        } = &mut **self;
        let mut cursor = Cursor::new(&space.mm, table, start);
        if part.pages != PMD_ORDER.pages()
            || !cursor.pmd_is_empty()
            || cursor.prepare(Level::Pmd).is_err()
        {
            return object.drop_references(part.first, part.pages);
        }
        let vma = vmas.get(slot);
        gathered(&space.mm, &space.id, |gather| {
            cursor.edit(gather).remove_empty_table()
        });
        cursor.install_leaf(part.first, fresh_attrs(vma, Access::Read));
        rss.add(vma, 0, part.pages);
    }
}
