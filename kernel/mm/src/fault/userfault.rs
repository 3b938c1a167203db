//! Faults in VMAs that a userfaultfd monitors: what is asked, and what needs no answer.

use super::huge::Filled;
use super::request::{Attempt, Fault, Request, Stop, absent, allowed, attrs};
use super::resolve::{attempt, resolve};
use super::{Access, Resolution};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Attrs, Level, Machine, PteFormat};
use crate::manager::SpaceId;
use crate::space::{AddressSpace, Inner, Locked, Rss, gathered};
use crate::stat::Event;
use crate::table::{Cursor, Leaf, Marker};
use crate::thp::{PMD_ORDER, Permit};
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
    /// What an access that ended with [`Resolution::Asks`] asks, and whom; `None`: nothing any
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

    /// [`AddressSpace::fault`] again, if the VMA's marks were why it failed.
    #[cold]
    #[inline(never)]
    pub(super) fn fault_past_marks(
        &self,
        addr: VirtAddr,
        access: Access,
        why: Resolution,
    ) -> Resolution {
        if why != Resolution::Asks {
            return why;
        }
        let request = Request {
            tried: true,
            ..Request::new(addr, access)
        };
        match resolve(&mut self.lock(), request) {
            Ok(_) => Resolution::Done,
            Err(why) => why,
        }
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
    /// Resolves an access that failed for this reason, if that is the VMA's marks.
    #[cold]
    #[inline(never)]
    pub(super) fn past_marks(
        &mut self,
        request: Request,
        why: Resolution,
    ) -> Result<Pfn, Resolution> {
        if why != Resolution::Asks {
            return Err(why);
        }
        let unmarked = true;
        match self.marked(request)? {
            Some(pfn) => Ok(pfn),
            None => resolve(
                self,
                Request {
                    unmarked,
                    ..request
                },
            ),
        }
    }

    /// [`attempt`], after what comes before it.
    #[cold]
    #[inline(never)]
    pub(super) fn attempt_past_marks(
        &mut self,
        request: Request,
        most: Order,
    ) -> Result<Attempt, Resolution> {
        let tried = |unmarked| Request {
            unmarked,
            ..request
        };
        match attempt(self, tried(false), most) {
            Err(Resolution::Asks) => {}
            result => return result,
        }
        match self.marked(request)? {
            Some(pfn) => Ok(Attempt::Mapped(pfn)),
            None => attempt(self, tried(true), most),
        }
    }

    /// What comes before an access in a VMA with [`VmaFlags::MARKED`]: its monitor is asked, or
    /// what keeps the access away goes, or the access fails. Returns the page where that is all
    /// there is to do.
    #[cold]
    #[inline(never)]
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
        let va = request.addr.align_down(PAGE_SIZE);
        let mut marked = Marked {
            id: &space.id,
            permit: space.thp_permit(),
            vma,
            request,
            rss,
            cursor: Cursor::new(&space.mm, table, va),
        };
        marked.resolve()
    }
}

/// An access in a VMA with marks.
struct Marked<'a, M: Machine> {
    id: &'a SpaceId,
    permit: Permit,
    vma: &'a Vma<M>,
    request: Request,
    rss: &'a mut Rss,
    cursor: Cursor<'a, M>,
}

impl<M: Machine> Marked<'_, M> {
    /// As [`Locked::marked`].
    fn resolve(&mut self) -> Result<Option<Pfn>, Resolution> {
        if self.cursor.is_shared() {
            gathered(self.cursor.mm(), self.id, |gather| {
                self.cursor.edit(gather).open()
            })?;
        }
        let leaf = self.cursor.leaf();
        let marker = leaf.as_ref().and_then(|leaf| Marker::of(leaf.attrs));
        match marker {
            Some(Marker::Guard) => return Err(Resolution::Guard),
            Some(Marker::Poison) => {
                let order = self.vma.huge_order().unwrap_or_default();
                return Err(Resolution::Poisoned(order));
            }
            _ => {}
        }
        let (va, access) = (self.cursor.va(), self.request.access);
        if question(self.vma, va, access, leaf.as_ref()).is_some() {
            return Err(Resolution::Asks);
        }
        match leaf.filter(|leaf| leaf.attrs.contains(Attrs::UFFD_WP)) {
            Some(_) if marker.is_some() && access == Access::Write => self.take_marker()?,
            Some(_) if marker.is_some() => return self.fill_marker().map(Some),
            Some(leaf) if access == Access::Write => self.unprotect(&leaf)?,
            Some(leaf) => return Ok(Some(self.touch(&leaf))),
            None => {}
        }
        Ok(None)
    }

    /// A write where a marker is, which goes.
    fn take_marker(&mut self) -> Result<(), Resolution> {
        let page = self.vma.object_page(self.cursor.va());
        if page.is_some_and(|(object, index)| !object.covers(index)) {
            return Err(Resolution::Bus);
        }
        match self.vma.huge_order() {
            Some(order) => self.cursor.take_markers(order),
            None => self.cursor.take_marker(),
        }
        Ok(())
    }

    /// Whether pages there are huge ones: all markers of one are alike.
    fn is_huge(&self) -> bool {
        self.vma.flags.is_hugetlb()
    }

    /// A read where a marker is: zeros, or the object's page, write-protected.
    fn fill_marker(&mut self) -> Result<Pfn, Resolution> {
        if self.is_huge() {
            return self.fill_huge_marker();
        }
        let attrs = (attrs(self.vma, Access::Read) - Attrs::WRITE) | Attrs::UFFD_WP;
        let mm = self.cursor.mm();
        let Some((object, index)) = self.vma.object_page(self.cursor.va()) else {
            self.cursor.take_marker();
            self.cursor.install_zero_page(attrs);
            mm.count(Event::ZeroPage, 1);
            return Ok(mm.zero_page());
        };
        let page = object.page(index)?.ok_or_else(|| absent(object, index))?;
        let page = page.into_pfn();
        self.cursor.take_marker();
        self.cursor.install_page(page, attrs);
        self.rss.add(self.vma, 0, 1);
        Ok(page)
    }

    /// A read where the markers of a huge page are.
    fn fill_huge_marker(&mut self) -> Result<Pfn, Resolution> {
        let fault = Fault {
            mm: self.cursor.mm(),
            id: self.id,
            permit: self.permit,
            va: self.cursor.va(),
            access: self.request.access,
            tried: self.request.tried,
            most: PMD_ORDER,
            vma: self.vma,
            rss: self.rss,
        };
        let filled = fault.huge_page(&mut self.cursor, Filled::Protected);
        filled.map_err(|stop| match stop {
            Stop::Failed(why) => why,
            Stop::Wants(_) => unreachable!("huge pages come from their pool"),
        })
    }

    /// Ends the protection of this page, and of no other.
    fn unprotect(&mut self, leaf: &Leaf) -> Result<(), Resolution> {
        let huge = self.is_huge();
        gathered(self.cursor.mm(), self.id, |gather| {
            if huge {
                self.cursor.edit(gather).uffd_unprotect_huge();
                return Ok(());
            }
            if leaf.level == Level::Pmd {
                self.cursor.edit(gather).open()?;
            }
            self.cursor.edit(gather).uffd_unprotect();
            Ok(())
        })
    }

    /// A read of a protected page.
    fn touch(&mut self, leaf: &Leaf) -> Pfn {
        if self.request.tried || !leaf.attrs.contains(Attrs::ACCESSED) {
            self.cursor.mm().count(Event::Minor, 1);
            gathered(self.cursor.mm(), self.id, |gather| {
                let area = self.vma.range;
                self.cursor.edit(gather).add_bits(Attrs::ACCESSED, area);
            });
        }
        leaf.pfn
    }
}
