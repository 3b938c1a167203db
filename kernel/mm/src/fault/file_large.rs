//! Large folios of objects in shared mappings: the order of a new one, and how one is mapped.

use super::request::{Fault, Stop};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Level, Machine};
use crate::folio::Folio;
use crate::object::{Object, Part};
use crate::space::gathered;
use crate::stat::Event;
use crate::table::Cursor;
use crate::thp::PMD_ORDER;
use crate::thp::policy::block;
use crate::thp::shmem::{Allowed, Place, ShmemOrders};
use alloc::sync::Arc;

impl<M: Machine> Fault<'_, M> {
    /// Where the fault is, if a hole there may get a large folio.
    #[inline(always)]
    pub(super) fn large_place(&self, object: &Object<M>, index: u64) -> Option<Place> {
        let orders = self.mm.thp().controls.shmem();
        match orders.is_empty() || !self.vma.shared() {
            true => None,
            false => self.place_in(object, index, orders),
        }
    }
    #[cold]
    #[inline(never)]
    fn place_in(&self, object: &Object<M>, index: u64, orders: ShmemOrders) -> Option<Place> {
        let flags = self.vma.flags;
        let allowed = orders.allowed(flags.advises_large(), object.is_internal(), self.permit);
        let Allowed { always, within } = allowed;
        let none = flags.forbids_large() || always.with(within).is_empty();
        (!none).then_some(Place {
            va: self.va,
            vma: self.vma.range,
            index,
            allowed,
        })
    }

    /// Maps what the area and the page's table have of the page's large folio: by a PMD leaf, if
    /// that is all of one; else where entries are absent. Where first accesses are watched, the
    /// page alone.
    #[cold]
    #[inline(never)]
    pub(super) fn folio_of_object(
        self,
        cursor: &mut Cursor<'_, M>,
        object: &Arc<Object<M>>,
        index: u64,
        page: Folio,
    ) -> Result<Pfn, Stop> {
        let (pfn, table) = (page.pfn(), block(self.va, PMD_ORDER));
        let within = match self.vma.flags.faults_singly() {
            true => index..index + 1,
            false => {
                let area = table.intersection(&self.vma.range).unwrap_or(table);
                let first = index - (self.va - area.start) / PAGE_SIZE;
                first..first + area.pages()
            }
        };
        let part = object.part(index, page, within);
        let huge = part.pages == PMD_ORDER.pages()
            && self.vma.flags.map_orders(self.permit).contains(PMD_ORDER)
            && cursor.pmd_is_empty();
        let level = if huge { Level::Pmd } else { Level::Pte };
        if let Err(error) = cursor.prepare(level) {
            object.drop_references(part.first, part.pages);
            return Err(error.into());
        }
        let mapped = match huge {
            true => self.leaf_of_object(cursor, &part),
            false => {
                let at = self.va.0 - (index - part.index) * PAGE_SIZE;
                let n = part.pages as usize;
                cursor.install_part(VirtAddr(at), n, part.first, self.attrs())
            }
        };
        object.drop_references(part.first, part.pages - mapped);
        self.rss.add(self.vma, 0, mapped);
        self.mm.count(Event::FaultAround, mapped - 1);
        Ok(pfn)
    }

    fn leaf_of_object(&self, cursor: &mut Cursor<'_, M>, part: &Part) -> u64 {
        gathered(self.mm, self.id, |g| cursor.edit(g).remove_empty_table());
        cursor.install_leaf(part.first, self.attrs());
        part.pages
    }
}
