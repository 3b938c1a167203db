//! Faults on huge pages ([`crate::hugetlb`]). They fill and copy under the lock of the space: a
//! program with huge pages has few faults.

use super::request::{Fault, Reach, Stop, absent};
use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Attrs, Machine, PhysMem};
use crate::folio::Folio;
use crate::frame::Kind;
use crate::hugetlb::level_of;
use crate::manager::OutOfMemory;
use crate::object::{Below, Object};
use crate::space::gathered;
use crate::stat::Event;
use crate::table::{Cursor, Leaf};
use crate::vma::VmaFlags;
use alloc::sync::Arc;

/// How a huge page is mapped that was not there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// As the VMA and the access allow.
    Freely,
    /// In the place of its markers, write-protected by userfaultfd as they are.
    Protected,
}

impl Filled {
    pub(super) fn attrs(self, attrs: Attrs) -> Attrs {
        match self {
            Filled::Freely => attrs,
            Filled::Protected => (attrs - Attrs::WRITE) | Attrs::UFFD_WP,
        }
    }
}

impl<M: Machine> Fault<'_, M> {
    /// Maps the huge page of an absent entry, or of one that markers stand for. Without one left:
    /// SIGBUS.
    #[cold]
    pub(super) fn huge_page(self, cursor: &mut Cursor<'_, M>, filled: Filled) -> Result<Pfn, Stop> {
        let (object, index) = self.huge_place()?;
        let order = object.huge_order().unwrap_or_default();
        cursor.prepare(level_of(order))?;
        let page = match self.vma.shared() {
            true => object
                .huge_page(index)?
                .ok_or_else(|| absent(&object, index))?,
            false if self.vma.flags.contains(VmaFlags::HUGE_LOST) => {
                return Err(Resolution::Bus.into());
            }
            false => match object.below(index) {
                Below::HwPoison => return Err(Resolution::Poisoned(order).into()),
                Below::End => return Err(Resolution::Bus.into()),
                Below::Page(page) if self.access != Access::Write => page,
                below => {
                    let page = self.huge_private(&object, index, below, cursor.root())?;
                    return Ok(self.install_huge(cursor, page, Kind::Anon, filled));
                }
            },
        };
        Ok(self.install_huge(cursor, page, Kind::Object, filled))
    }

    /// Copies a private huge page that is mapped without WRITE, and not exclusive. Without one
    /// left: SIGBUS.
    #[cold]
    pub(super) fn copy_huge(self, cursor: &mut Cursor<'_, M>, old: &Leaf) -> Result<Pfn, Stop> {
        let (object, index) = self.huge_place()?;
        let from = self.mm.frames().folio(old.pfn);
        let page = object.huge_copy(index, cursor.root());
        let page = page.map_err(|OutOfMemory| Resolution::Bus)?;
        self.fill_from(&page, from.head, from.order);
        // The old one is mapped up to the flush.
        gathered(self.mm, self.id, |gather| {
            cursor.edit(gather).take_huge_page();
            gather.flush();
            cursor.install_huge(page, self.attrs_of_copy(old), &self.id.owner);
        });
        self.mm.count(Event::CowCopied, 1);
        Ok(self.page_of_leaf(cursor))
    }

    /// Makes a huge page with a long-term pin of this space writable: all of it is exclusive.
    #[cold]
    pub(super) fn reuse_huge(mut self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> Pfn {
        self.mm.count(Event::CowReused, 1);
        self.touch(cursor, leaf, Reach::Page);
        leaf.pfn
    }

    fn huge_place(&self) -> Result<(Arc<Object<M>>, u64), Stop> {
        let place = self.vma.object_page(self.va).ok_or(Resolution::NotMapped)?;
        Ok((place.0.clone(), place.1))
    }

    /// A page of private memory with the contents of what is below.
    fn huge_private(
        &self,
        object: &Object<M>,
        index: u64,
        below: Below,
        root: Pfn,
    ) -> Result<Folio, Stop> {
        let page = object.huge_copy(index, root);
        let from = match below {
            Below::Page(page) => Some(page),
            _ => None,
        };
        let order = object.huge_order().unwrap_or_default();
        if let (Ok(page), Some(from)) = (&page, &from) {
            self.fill_from(page, from.pfn(), order);
        } else if let Ok(page) = &page {
            self.mm.zero(page.pfn(), order);
        }
        from.into_iter().for_each(|from| from.free(self.mm));
        page.map_err(|OutOfMemory| Resolution::Bus.into())
    }
    fn fill_from(&self, page: &Folio, from: Pfn, order: Order) {
        self.mm.count(Event::Copied, order.pages());
        self.mm.machine().mem().copy(from, page.pfn(), order);
    }

    /// Maps a huge page, the object's or a private one, where there is none.
    fn install_huge(
        self,
        cursor: &mut Cursor<'_, M>,
        page: Folio,
        kind: Kind,
        filled: Filled,
    ) -> Pfn {
        let mut attrs = filled.attrs(self.attrs());
        let order = self.vma.huge_order().unwrap_or_default();
        gathered(self.mm, self.id, |g| cursor.edit(g).clear_for_huge(order));
        if kind == Kind::Object {
            cursor.install_huge_object(page.into_pfn(), attrs);
        } else {
            if self.access != Access::Write {
                // The first write decides between copy and reuse.
                attrs -= Attrs::WRITE;
            }
            cursor.install_huge(page, attrs, &self.id.owner);
        }
        self.rss.add(self.vma, 0, order.pages());
        self.page_of_leaf(cursor)
    }

    /// The frame of the page that the fault is for.
    fn page_of_leaf(&self, cursor: &Cursor<'_, M>) -> Pfn {
        debug_assert!(self.va.is_aligned(PAGE_SIZE));
        cursor.leaf().expect("it was mapped just now").pfn
    }
}
