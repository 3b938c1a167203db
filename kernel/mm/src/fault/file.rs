//! First touch of a page of an object.

use super::huge::Filled;
use super::request::{Fault, Stop, absent};
use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Attrs, Level, Machine};
use crate::folio::Folio;
use crate::frame::Kind;
use crate::object::Object;
use crate::stat::Event;
use crate::table::Cursor;
use crate::thp::policy::block;
use alloc::sync::Arc;

/// Fault-around window: 16 pages (Linux: fault_around_bytes).
const AROUND: Order = Order(4);

impl<M: Machine> Fault<'_, M> {
    /// Maps the object's page, or a copy for a private write.
    pub(super) fn object_page(mut self, cursor: &mut Cursor<'_, M>) -> Result<Pfn, Stop> {
        if self.vma.flags.is_hugetlb() {
            return self.huge_page(cursor, Filled::Freely);
        }
        let (object, index) = self
            .vma
            .object_page(self.va)
            .map(|(o, i)| (o.clone(), i))
            .ok_or(Resolution::NotMapped)?;
        let page = match self.large_place(&object, index) {
            None => object.page(index)?,
            Some(place) => object.page_of_folio(&place)?,
        };
        let page = page.ok_or_else(|| absent(&object, index))?;
        let private_write = self.access == Access::Write && !self.vma.shared();
        if self.vma.shared() && !self.mm.frames().get(page.pfn()).is(Kind::Object, Order(0)) {
            return self.folio_of_object(cursor, &object, index, page);
        }
        let folio = if private_write {
            let copy = Folio::copy_of(self.mm, page.pfn());
            page.free(self.mm);
            copy?
        } else {
            page
        };
        if let Err(error) = cursor.prepare(Level::Pte) {
            folio.free(self.mm);
            return Err(error.into());
        }
        let pfn = folio.pfn();
        if private_write {
            cursor.install_anon(folio, self.attrs(), &self.id.owner);
            self.mm.count(Event::CowCopied, 1);
            self.rss.add_anon(1);
        } else {
            cursor.install_page(folio.into_pfn(), self.attrs());
            self.rss.add(self.vma, 0, 1);
            if self.access != Access::Write && self.vma.flags.faults_around() {
                self.map_around(cursor, &object, index);
            }
        }
        Ok(pfn)
    }

    /// Maps the object's other pages in the window at absent entries, read-only where private. The
    /// PTE table exists, so no memory is needed.
    fn map_around(&mut self, cursor: &mut Cursor<'_, M>, object: &Arc<Object<M>>, index: u64) {
        let Some(part) = block(self.va, AROUND).intersection(&self.vma.range) else {
            return;
        };
        let first = index - (self.va - part.start) / PAGE_SIZE;
        let attrs = self.attrs() - Attrs::DIRTY;
        let mut mapped = 0;
        object.for_each_page(first, first + part.pages(), &mut |page, pfn| {
            cursor.move_in_table(part.start + (page - first) * PAGE_SIZE);
            if cursor.leaf().is_none() {
                cursor.install_page(Folio::share(self.mm, pfn).into_pfn(), attrs);
                mapped += 1;
            }
            true
        });
        self.rss.add(self.vma, 0, mapped);
        self.mm.count(Event::FaultAround, mapped);
    }
}
