//! Huge pages that a monitor puts where there are none. Their bytes are copied from user memory
//! without a lock, so UFFDIO_COPY has two steps: a page is taken, and when it is filled, mapped.

use super::fill::{Content, Filling, filled_attrs, object_access};
use crate::addr::{Order, VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::fault::Access;
use crate::folio::Folio;
use crate::hugetlb::level_of;
use crate::object::Unmapped;
use crate::space::{AddressSpace, Error, Inner, Locked, Result, gathered};
use crate::table::Cursor;
use crate::vma::{Slot, Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// Bytes of the pages of the VMA at an address: [`PAGE_SIZE`], or more of huge ones.
    pub fn userfault_page_size(&self, at: VirtAddr) -> u64 {
        self.lock().huge_order_at(at).bytes()
    }

    /// A page for the huge page at `at`, which the caller fills, and then maps by
    /// [`Self::userfault_map`]. Errors as of [`Self::userfault_fill`].
    pub fn userfault_take<'a>(
        &self,
        filling: impl Into<Filling<'a>>,
        at: VirtAddr,
        protect: bool,
    ) -> Result<Unmapped<M>> {
        let mut inner = self.areas()?;
        let slot = inner.fillable(filling.into(), at, protect)?;
        let vma = inner.vmas.get(slot);
        let (object, index) = vma.object_page(at).ok_or(Error::Inval)?;
        match vma.shared() {
            true if object.has_page(index) => Err(Error::Exist),
            true if !object.covers(index) => Err(Error::Fault),
            shared => {
                let who = (!shared).then(|| inner.table.root());
                Ok(object.unmapped_page(index, who)?)
            }
        }
    }

    /// Maps a filled page at the place that it was taken for. Errors as of
    /// [`Self::userfault_fill`].
    pub fn userfault_map<'a>(
        &self,
        page: Unmapped<M>,
        filling: impl Into<Filling<'a>>,
        at: VirtAddr,
        protect: bool,
    ) -> Result {
        let mut inner = self.areas()?;
        let slot = inner.fillable(filling.into(), at, protect)?;
        let vma = inner.vmas.get(slot);
        if !vma
            .object_page(at)
            .is_some_and(|(object, index)| page.is_for(object, index))
        {
            return Err(Error::NoEnt);
        }
        let shared = vma.shared();
        inner.prepare_huge(at)?;
        let page = page.enter()??;
        inner.install_huge(slot, at, page, shared, protect);
        Ok(())
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Maps the object's huge page at `at`, where none is mapped, or marks it as poison.
    pub(super) fn fill_huge(
        &mut self,
        slot: Slot,
        at: VirtAddr,
        content: Content<'_>,
        protect: bool,
    ) -> Result {
        let vma = self.vmas.get(slot);
        let size = vma.huge_order().unwrap_or_default().bytes();
        match content {
            _ if !at.is_aligned(size) => Err(Error::Inval),
            Content::Object => {
                let (object, index) = vma.object_page(at).ok_or(Error::Inval)?;
                let page = object.page_if_there(index)?.ok_or(Error::Fault)?;
                match self.prepare_huge(at) {
                    Ok(()) => self.install_huge(slot, at, page, true, protect),
                    Err(why) => {
                        page.free(self.mm());
                        return Err(why);
                    }
                }
                Ok(())
            }
            Content::Poison => self.poison_huge(slot, at),
            Content::Bytes(_) | Content::Zeros => Err(Error::Inval),
        }
    }

    /// The order of the pages of the VMA at an address: 0 unless they are huge ones.
    fn huge_order_at(&self, at: VirtAddr) -> Order {
        self.vmas
            .at(at)
            .and_then(Vma::huge_order)
            .unwrap_or_default()
    }

    /// Makes the tables above a huge page.
    fn prepare_huge(&mut self, at: VirtAddr) -> Result {
        let (mm, order) = (self.mm(), self.huge_order_at(at));
        Ok(Cursor::new(mm, &mut self.table, at).prepare(level_of(order))?)
    }

    /// Maps a huge page, an object's or a private one, in the place of markers if there are any.
    fn install_huge(&mut self, slot: Slot, at: VirtAddr, page: Folio, shared: bool, protect: bool) {
        let space = self.space;
        let Inner {
            vmas, table, rss, ..
        } = &mut **self;
        let vma = vmas.get(slot);
        let mut cursor = Cursor::new(&space.mm, table, at);
        let order = vma.huge_order().unwrap_or_default();
        gathered(&space.mm, &space.id, |gather| {
            cursor.edit(gather).clear_for_huge(order)
        });
        match shared {
            true => {
                let attrs = filled_attrs(vma, object_access(vma), protect);
                cursor.install_huge_object(page.into_pfn(), attrs);
            }
            false => {
                let attrs = filled_attrs(vma, Access::Write, protect);
                cursor.install_huge(page, attrs, &space.id.owner);
            }
        }
        rss.add(vma, 0, order.pages());
    }

    /// Marks all of a huge page as poison.
    fn poison_huge(&mut self, slot: Slot, at: VirtAddr) -> Result {
        let order = self.huge_order_at(at);
        self.edit(|edit| edit.poison(VirtRange::new(at, at + order.bytes())))?;
        self.vmas.get_mut(slot).flags |= VmaFlags::POISONED;
        Ok(())
    }
}
