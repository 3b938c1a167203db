//! Faults in VMAs that a userfaultfd monitors: what is asked, and what needs no answer.

use super::huge::Filled;
use super::request::{Attempt, Fault, Request, Stop, absent, allowed};
use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Attrs, Level, Machine, PteFormat};
use crate::space::{AddressSpace, Inner, Locked, gathered};
use crate::stat::Event;
use crate::table::{Cursor, Leaf, Marker, is_swapped};
use crate::thp::PMD_ORDER;
use crate::vma::{Question, Vma};

/// A question, and which monitor is to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The number that the VMA was registered with.
    pub monitor: u16,
    /// The page, or huge page.
    pub page: VirtAddr,
    /// The question.
    pub question: Question,
}

impl<M: Machine> AddressSpace<M> {
    /// What an access that ended with [`Resolution::Userfault`] asks, and whom; `None`: nothing any
    /// more, so it is to be tried again.
    pub fn asked(&self, addr: VirtAddr, access: Access) -> Option<Asked> {
        let mut inner = self.lock();
        let slot = (addr < M::Pte::USER_END).then(|| inner.vmas.find(addr))??;
        let leaf = Cursor::new(&self.mm, &mut inner.table, addr.align_down(PAGE_SIZE)).leaf();
        let vma = inner.vmas.get(slot);
        let question = question(vma, addr, access, leaf.as_ref())?;
        let size = vma.huge_order().unwrap_or_default().bytes();
        Some(Asked {
            monitor: vma.monitor,
            page: addr.align_down(size),
            question,
        })
    }
}

/// What an access, which the VMA allows, asks of the VMA's monitor; `leaf` is in an unshared table.
fn question<M: Machine>(
    vma: &Vma<M>,
    va: VirtAddr,
    access: Access,
    leaf: Option<&Leaf>,
) -> Option<Question> {
    let asks = |question| vma.flags.asks(question);
    let protected = leaf.is_some_and(|leaf| leaf.attrs.contains(Attrs::UFFD_WP));
    let marker = leaf.and_then(|leaf| Marker::of(leaf.attrs));
    if leaf.is_none() || marker == Some(Marker::WriteProtected) {
        match vma.object_page(va) {
            None if asks(Question::Missing) => return Some(Question::Missing),
            Some((object, index)) if asks(Question::Missing) && object.is_hole(index) => {
                return Some(Question::Missing);
            }
            Some((object, index)) if asks(Question::Minor) && object.has_page(index) => {
                return Some(Question::Minor);
            }
            _ => {}
        }
    }
    let asks = asks(Question::WriteProtected);
    (protected && asks && access == Access::Write).then_some(Question::WriteProtected)
}

impl<M: Machine> Locked<'_, M> {
    /// [`Locked::attempt`] in a VMA with [`VmaFlags::MARKED`], after what comes before it.
    #[cold]
    #[inline(never)]
    pub(super) fn past_markers(
        &mut self,
        request: Request,
        most: Order,
    ) -> Result<Attempt, Resolution> {
        let markers_passed = Request {
            markers_passed: true,
            ..request
        };
        match self.marked(request)? {
            Some(pfn) => Ok(Attempt::Mapped(pfn)),
            None => self.attempt(markers_passed, most),
        }
    }

    /// What comes before an access in a VMA with [`VmaFlags::MARKED`]: its monitor is asked, or
    /// what keeps the access away goes, or the access fails. Returns the page where that is all
    /// there is to do.
    fn marked(&mut self, request: Request) -> Result<Option<Pfn>, Resolution> {
        let space = self.space;
        let slot = self.vmas.find(request.addr).ok_or(Resolution::NotMapped)?;
        let Inner {
            vmas, table, rss, ..
        } = &mut **self;
        let vma = vmas.get(slot);
        if !allowed(vma, request.access, request.force) {
            return Ok(None);
        }
        let fault = Fault::new(space, request, PMD_ORDER, vma, rss);
        let mut cursor = Cursor::new(&space.mm, table, fault.va);
        fault.past_markers(&mut cursor)
    }
}

impl<M: Machine> Fault<'_, M> {
    /// As [`Locked::marked`].
    fn past_markers(mut self, cursor: &mut Cursor<'_, M>) -> Result<Option<Pfn>, Resolution> {
        if cursor.is_shared() {
            gathered(self.mm, self.id, |gather| cursor.edit(gather).open())?;
        }
        if let Some(leaf) = cursor.leaf().filter(|leaf| is_swapped(leaf.attrs))
            && !self.take_back(cursor, &leaf)
        {
            return Ok(None);
        }
        let leaf = cursor.leaf();
        let marker = leaf.as_ref().and_then(|leaf| Marker::of(leaf.attrs));
        match marker {
            Some(Marker::Guard) => return Err(Resolution::Guard),
            Some(Marker::Poison) => {
                let order = self.vma.huge_order().unwrap_or_default();
                return Err(Resolution::Poisoned(order));
            }
            _ => {}
        }
        if question(self.vma, self.va, self.access, leaf.as_ref()).is_some() {
            return Err(Resolution::Userfault);
        }
        let writes = self.access == Access::Write;
        match leaf.filter(|leaf| leaf.attrs.contains(Attrs::UFFD_WP)) {
            Some(_) if marker.is_some() && writes => self.take_marker(cursor)?,
            Some(_) if marker.is_some() => return self.fill_marker(cursor).map(Some),
            Some(leaf) if writes => self.unprotect(cursor, &leaf)?,
            Some(leaf) => return Ok(Some(self.read_protected(cursor, &leaf))),
            None => {}
        }
        Ok(None)
    }

    /// A write where a marker is, which goes.
    fn take_marker(&self, cursor: &mut Cursor<'_, M>) -> Result<(), Resolution> {
        let page = self.vma.object_page(self.va);
        if page.is_some_and(|(object, index)| !object.covers(index)) {
            return Err(Resolution::Bus);
        }
        match self.vma.huge_order() {
            Some(order) => cursor.take_markers(order),
            None => cursor.take_marker(),
        }
        Ok(())
    }

    /// A read where a marker is: zeros, or the object's page, write-protected. All markers of a
    /// huge page are alike.
    fn fill_marker(self, cursor: &mut Cursor<'_, M>) -> Result<Pfn, Resolution> {
        if self.vma.flags.is_hugetlb() {
            return match self.huge_page(cursor, Filled::Protected) {
                Ok(page) => Ok(page),
                Err(Stop::Failed(why)) => Err(why),
                Err(Stop::Wants(_)) => unreachable!("huge pages come from their pool"),
            };
        }
        let attrs = Filled::Protected.attrs(self.attrs());
        let Some((object, index)) = self.vma.object_page(self.va) else {
            cursor.take_marker();
            cursor.install_zero_page(attrs);
            self.mm.count(Event::ZeroPage, 1);
            return Ok(self.mm.zero_page());
        };
        let page = object.page(index)?.ok_or_else(|| absent(object, index))?;
        let page = page.into_pfn();
        cursor.take_marker();
        cursor.install_page(page, attrs);
        self.rss.add(self.vma, 0, 1);
        Ok(page)
    }

    /// Ends the protection of this page, and of no other.
    fn unprotect(&self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> Result<(), Resolution> {
        let huge = self.vma.flags.is_hugetlb();
        gathered(self.mm, self.id, |gather| {
            if huge {
                cursor.edit(gather).uffd_unprotect_huge();
                return Ok(());
            }
            if leaf.level == Level::Pmd {
                cursor.edit(gather).open()?;
            }
            cursor.edit(gather).uffd_unprotect();
            Ok(())
        })
    }

    /// A read of a protected page.
    fn read_protected(&self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> Pfn {
        if self.tried || !leaf.attrs.contains(Attrs::ACCESSED) {
            self.mm.count(Event::Minor, 1);
            gathered(self.mm, self.id, |gather| {
                let area = self.vma.range;
                cursor.edit(gather).add_bits(Attrs::ACCESSED, area);
            });
        }
        leaf.pfn
    }
}
