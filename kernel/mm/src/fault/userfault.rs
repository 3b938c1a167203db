//! Faults in VMAs that a userfaultfd monitors: what is asked, and what needs no answer.

use super::resolve::{Fault, Stop, attrs};
use super::{Access, Resolution};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Attrs, Level, Machine, PteFormat};
use crate::space::{AddressSpace, gathered};
use crate::stat::Event;
use crate::table::{Cursor, Leaf, Marker};
use crate::vma::{Vma, VmaFlags};

/// What an access asks of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Nothing is there.
    Missing,
    /// It would write to what is write-protected.
    WriteProtected,
    /// The page is in the object, but not mapped.
    Minor,
}

/// A question, and which monitor is to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The number that the VMA was registered with.
    pub monitor: u16,
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
        Some(Asked {
            monitor: vma.monitor,
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
    let has = |flag| vma.flags.contains(flag);
    let protected = leaf.is_some_and(|leaf| leaf.attrs.contains(Attrs::UFFD_WP));
    let marker = leaf.and_then(|leaf| Marker::of(leaf.attrs));
    if leaf.is_none() || marker == Some(Marker::WriteProtected) {
        match vma.object_page(va) {
            None if has(VmaFlags::UFFD_MISSING) => return Some(Question::Missing),
            Some((object, index)) if has(VmaFlags::UFFD_MISSING) && object.is_hole(index) => {
                return Some(Question::Missing);
            }
            Some((object, index)) if has(VmaFlags::UFFD_MINOR) && object.has_page(index) => {
                return Some(Question::Minor);
            }
            _ => {}
        }
    }
    let asks = has(VmaFlags::UFFD_WP) && !has(VmaFlags::UFFD_WP_ASYNC);
    (protected && asks && access == Access::Write).then_some(Question::WriteProtected)
}

impl<M: Machine> Fault<'_, M> {
    /// Whether the monitor is asked where nothing is mapped.
    #[cold]
    #[inline(never)]
    pub(super) fn hole_asks(&self) -> bool {
        question(self.vma, self.va, self.access, None).is_some()
    }

    /// The entry is a marker, or userfaultfd write-protects its page.
    #[cold]
    #[inline(never)]
    pub(super) fn marked(self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> Result<Pfn, Stop> {
        let marker = Marker::of(leaf.attrs);
        match marker {
            Some(Marker::Guard) => return Err(Stop::Failed(Resolution::Guard)),
            Some(Marker::Poison) => return Err(Stop::Failed(Resolution::Poisoned)),
            _ => {}
        }
        if question(self.vma, self.va, self.access, Some(leaf)).is_some() {
            return Err(Stop::Failed(Resolution::Asks));
        }
        match (marker, self.access) {
            (Some(_), Access::Write) => {
                let page = self.vma.object_page(self.va);
                if page.is_some_and(|(object, index)| !object.covers(index)) {
                    return Err(Stop::Failed(Resolution::Bus));
                }
                cursor.take_marker();
                self.at(cursor)
            }
            (Some(_), _) => self.fill_marker(cursor),
            (None, Access::Write) => self.write_unprotected(cursor, leaf),
            (None, _) => self.touch_protected(cursor, leaf),
        }
    }

    /// A read where a marker is: zeros, or the object's page, write-protected.
    fn fill_marker(self, cursor: &mut Cursor<'_, M>) -> Result<Pfn, Stop> {
        let attrs = (attrs(self.vma, Access::Read) - Attrs::WRITE) | Attrs::UFFD_WP;
        let Some((object, index)) = self.vma.object_page(self.va) else {
            cursor.take_marker();
            cursor.install_zero_page(attrs);
            self.mm.count(Event::ZeroPage, 1);
            return Ok(self.mm.zero_page());
        };
        let page = object.page(index)?.ok_or(Resolution::Bus)?.into_pfn();
        cursor.take_marker();
        cursor.install_page(page, attrs);
        self.rss.add(self.vma, 0, 1);
        Ok(page)
    }

    /// A write that ends the protection of its page, and of no other.
    fn write_unprotected(self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> Result<Pfn, Stop> {
        gathered(self.mm, self.id, |gather| {
            if leaf.level == Level::Pmd {
                cursor.edit(gather).open()?;
            }
            cursor.edit(gather).uffd_unprotect();
            Ok::<_, Resolution>(())
        })?;
        self.at(cursor)
    }

    /// A read of a protected page, which lacks ACCESSED.
    fn touch_protected(self, cursor: &mut Cursor<'_, M>, leaf: &Leaf) -> Result<Pfn, Stop> {
        self.mm.count(Event::Minor, 1);
        gathered(self.mm, self.id, |gather| {
            let area = self.vma.range;
            cursor.edit(gather).add_bits(Attrs::ACCESSED, area);
        });
        Ok(leaf.pfn)
    }
}
