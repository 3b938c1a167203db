//! Faulting in ahead of use: MAP_POPULATE, mlock, MADV_POPULATE_*.

use super::resolve::{allowed, resolve};
use super::{Access, Resolution};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Machine};
use crate::state::AddressSpace;
use crate::table::Cursor;
use crate::vma::{Prot, Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// Faults in what is mapped in `range`, private writable memory as if written. Stops at the first page that cannot be
    /// had and leaves what is there; returns what stopped it. Memory without access is passed over.
    pub(crate) fn populate(&self, range: VirtRange) -> Resolution {
        self.populate_as(range, |vma| Ok(natural_access(vma)))
    }

    /// The same for what in `range` is locked, and may be written now: the rest of it is left alone.
    pub(crate) fn populate_again(&self, range: VirtRange) -> Resolution {
        let locked = |vma: &Vma<M>| vma.flags.contains(VmaFlags::LOCKED);
        self.populate_as(range, |vma| {
            Ok(locked(vma).then(|| natural_access(vma)).flatten())
        })
    }

    /// The same for mlock(2), which fails at memory without access.
    pub(crate) fn populate_locked(&self, range: VirtRange) -> Resolution {
        self.populate_as(range, |vma| {
            Ok(Some(natural_access(vma).unwrap_or(Access::Read)))
        })
    }

    /// The same with the access chosen by VMA: `Ok(None)` passes it over, `Err` stops there.
    pub(crate) fn populate_as(
        &self,
        range: VirtRange,
        access: impl Fn(&Vma<M>) -> Result<Option<Access>, Resolution>,
    ) -> Resolution {
        let mut inner = self.inner.lock();
        let mut at = range.start;
        while at < range.end {
            let Some(slot) = inner.vmas.find(at) else {
                return Resolution::NotMapped;
            };
            let vma = inner.vmas.get(slot);
            let end = vma.range.end.min(range.end);
            let wanted = match access(vma) {
                Ok(wanted) => wanted,
                Err(why) => return why,
            };
            // Pages may be there from before they were protected.
            if wanted.is_some_and(|wanted| !allowed(vma, wanted, false)) {
                return Resolution::Denied;
            }
            let Some(wanted) = wanted else {
                at = end;
                continue;
            };
            while at < end {
                if let Some(next) = ready_until(&self.mm, &mut inner.table, at, wanted) {
                    at = next;
                    continue;
                }
                if let Err(why) = resolve(self, &mut inner, at, (wanted, false), false) {
                    return why;
                }
                at += PAGE_SIZE;
            }
        }
        Resolution::Done
    }
}

/// What populating does to pages of a VMA; `None` where there is no access, or pages are locked only when they come.
fn natural_access<M: Machine>(vma: &Vma<M>) -> Option<Access> {
    match vma.prot {
        _ if vma.flags.contains(VmaFlags::LOCKONFAULT) => None,
        prot if prot.is_empty() => None,
        prot if prot.contains(Prot::WRITE) && !vma.shared() => Some(Access::Write),
        prot if prot == Prot::EXEC => Some(Access::Exec),
        _ => Some(Access::Read),
    }
}

/// If the page is there already, writable if it has to be: where its leaf ends.
fn ready_until<M: Machine>(
    mm: &crate::frame::Mm<M>,
    table: &mut crate::table::PageTable,
    va: VirtAddr,
    access: Access,
) -> Option<VirtAddr> {
    let leaf = Cursor::new(mm, table, va).leaf()?;
    let ready = access != Access::Write || leaf.attrs.contains(Attrs::WRITE);
    ready.then(|| va.align_down(leaf.level.bytes()) + leaf.level.bytes())
}
