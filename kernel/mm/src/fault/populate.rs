//! Populate: faults ahead of use (MAP_POPULATE, mlock, MADV_POPULATE_*).

use super::keys::refused_by_key;
use super::request::{Request, allowed};
use super::resolve::resolve;
use super::{Access, Resolution};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Machine};
use crate::space::AddressSpace;
use crate::table::{Budget, Cursor};
use crate::vma::{Prot, Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// Faults in what is mapped in `range`, private writable memory as for a write. Returns the
    /// first failure; earlier pages stay. Memory without access is skipped.
    pub(crate) fn populate(&self, range: VirtRange) -> Result<(), Stopped> {
        self.populate_as(range, |vma| Ok(natural_access(vma)))
    }

    /// [`Self::populate`] with the access chosen by VMA: `Ok(None)` skips it, `Err` stops there. As
    /// in Linux it stops where the running thread's register refuses the key, too.
    pub(crate) fn populate_as(
        &self,
        range: VirtRange,
        access: impl Fn(&Vma<M>) -> Result<Option<Access>, Resolution>,
    ) -> Result<(), Stopped> {
        let access = |vma: &Vma<M>| {
            let wanted = access(vma)?;
            let refused = |wanted| refused_by_key(&self.mm, vma, wanted);
            match vma.prot.intersects(Prot::KEY) && wanted.is_some_and(refused) {
                true => Err(Resolution::Denied),
                false => Ok(wanted),
            }
        };
        let mut rest = range;
        while !rest.is_empty() {
            rest.start = match self.populate_beside(rest, &access) {
                Some(next) => next,
                None => self.after_claim(|| self.populate_some(rest, &access))?,
            };
            if !rest.is_empty() && self.mm.machine().breathe() {
                return Err(Stopped::Ends);
            }
        }
        Ok(())
    }

    /// One step beside the faults of other threads; returns where the next one begins. `None`: the
    /// first page needs the space's lock as a writer.
    fn populate_beside(
        &self,
        range: VirtRange,
        access: &impl Fn(&Vma<M>) -> Result<Option<Access>, Resolution>,
    ) -> Option<VirtAddr> {
        let reading = self.read_shared()?;
        let mut tables = reading.table.as_reader();
        let (mut budget, mut at) = (Budget::step(&self.mm), range.start);
        while at < range.end
            && let Some(vma) = reading.find(at)
            && let Ok(Some(wanted)) = access(vma)
            && allowed(vma, wanted, false)
            && budget.take(PAGE)
        {
            let end = vma.range.end.min(range.end);
            match look(&self.mm, &mut tables, at, wanted) {
                Found::Ready(next) => {
                    at = next.min(end);
                    continue;
                }
                Found::Less => {
                    let copied = reading.copy_ahead(vma, at, end);
                    budget.take(COPIED * copied.max(1) as u32);
                    if copied > 0 {
                        at += copied * PAGE_SIZE;
                        continue;
                    }
                }
                Found::Nothing => {}
            }
            let before = reading.anon();
            if !reading.fault(at, wanted) {
                break;
            }
            budget.take(reading.anon().wrapping_sub(before) as u32 * CLEARED);
            at += PAGE_SIZE;
        }
        (at > range.start).then_some(at)
    }

    /// One step from the start of a range; returns where the next one begins.
    fn populate_some(
        &self,
        range: VirtRange,
        access: &impl Fn(&Vma<M>) -> Result<Option<Access>, Resolution>,
    ) -> Result<VirtAddr, Resolution> {
        let mut inner = self.lock();
        let mut budget = Budget::step(&self.mm);
        let mut at = range.start;
        while at < range.end {
            let Some(slot) = inner.vmas.find(at) else {
                return Err(inner.refused(Resolution::NotMapped));
            };
            let vma = inner.vmas.get(slot);
            let end = vma.range.end.min(range.end);
            let wanted = access(vma)?;
            // Pages may be mapped from before they were protected.
            if wanted.is_some_and(|wanted| !allowed(vma, wanted, false)) {
                return Err(inner.refused(Resolution::Denied));
            }
            let Some(wanted) = wanted else {
                at = end;
                continue;
            };
            let turn = inner.turn();
            // VMAs may have changed while the lock was released.
            while at < end && inner.turn() == turn {
                if !budget.take(PAGE) {
                    return Ok(at);
                }
                match look(&self.mm, &mut inner.table, at, wanted) {
                    Found::Ready(next) => {
                        // A large leaf may cross the end of the range.
                        at = next.min(end);
                        continue;
                    }
                    Found::Less => {
                        let copied = inner.copy_ahead(at, end);
                        budget.take(COPIED * copied.max(1) as u32);
                        if copied > 0 {
                            at += copied * PAGE_SIZE;
                            continue;
                        }
                    }
                    Found::Nothing => {}
                }
                let before = inner.rss.total();
                resolve(&mut inner, Request::new(at, wanted))?;
                // Large folios are cleared, or copied, as a whole.
                budget.take(inner.rss.total().saturating_sub(before) as u32 * CLEARED);
                at += PAGE_SIZE;
            }
        }
        Ok(at)
    }
}

/// Reason for an early stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// A page could not be faulted in.
    Fault(Resolution),
    /// The thread is to end.
    Ends,
}

impl From<Resolution> for Stopped {
    fn from(why: Resolution) -> Stopped {
        match why {
            Resolution::Claimed => Stopped::Ends,
            why => Stopped::Fault(why),
        }
    }
}

/// Cost of a page in a step ([`Budget`]): a fault, or the test for one.
const PAGE: u32 = 8;
/// Cost of a page that is filled.
const CLEARED: u32 = 16;
/// Cost of a page that is copied, with a flush on other CPUs.
const COPIED: u32 = 64;

/// The access for populate; `None` without access, or if pages are locked on fault.
pub(crate) fn natural_access<M: Machine>(vma: &Vma<M>) -> Option<Access> {
    match vma.prot {
        _ if vma.flags.contains(VmaFlags::LOCKONFAULT) => None,
        prot if prot.is_none() => None,
        prot if prot.contains(Prot::WRITE) && !vma.shared() => Some(Access::Write),
        prot if prot & Prot::RIGHTS == Prot::EXEC => Some(Access::Exec),
        _ => Some(Access::Read),
    }
}

/// What a page has of an access before populate.
enum Found {
    /// It is allowed, up to here: the end of the leaf.
    Ready(VirtAddr),
    /// A leaf that does not allow it; where that is a write, the page may be copied.
    Less,
    /// No leaf.
    Nothing,
}

fn look<M: Machine>(
    mm: &crate::manager::Mm<M>,
    table: &mut crate::table::PageTable,
    va: VirtAddr,
    access: Access,
) -> Found {
    let Some(leaf) = Cursor::new(mm, table, va).leaf() else {
        return Found::Nothing;
    };
    let ready = access != Access::Write || leaf.attrs.contains(Attrs::WRITE);
    match ready && !leaf.attrs.contains(Attrs::MARKER) {
        true => Found::Ready(va.align_down(leaf.level.bytes()) + leaf.level.bytes()),
        false => Found::Less,
    }
}
