//! Populate: faults ahead of use (MAP_POPULATE, mlock, MADV_POPULATE_*).

use super::keys::refused_by_key;
use super::request::{Request, allowed};
use super::{Access, Resolution};
use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Attrs, Machine};
use crate::space::AddressSpace;
use crate::table::{Budget, Cursor, Leaf};
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
            rest.start = match self.populate_read_locked(rest, &access) {
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
    fn populate_read_locked(
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
            let leaf = Cursor::new(&self.mm, &mut tables, at).leaf();
            let copy = || reading.copy_ahead(vma, at, end);
            if let Some(next) = without_fault(leaf, wanted, at, &mut budget, copy) {
                at = next.min(end);
                continue;
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
                let leaf = Cursor::new(&self.mm, &mut inner.table, at).leaf();
                let copy = || inner.copy_ahead(at, end);
                if let Some(next) = without_fault(leaf, wanted, at, &mut budget, copy) {
                    // A large leaf may cross the end of the range.
                    at = next.min(end);
                    continue;
                }
                let before = inner.rss.total();
                inner.resolve(Request::new(at, wanted))?;
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

/// Where the rest begins behind the page at `at` and this leaf, if that needs no fault: the access
/// is allowed, up to the end of the leaf, or `copy` copies pages from there on, and returns how
/// many.
fn without_fault(
    leaf: Option<Leaf>,
    access: Access,
    at: VirtAddr,
    budget: &mut Budget,
    copy: impl FnOnce() -> u64,
) -> Option<VirtAddr> {
    let leaf = leaf?;
    let allows = access != Access::Write || leaf.attrs.contains(Attrs::WRITE);
    if allows && !leaf.attrs.contains(Attrs::MARKER) {
        return Some(at.align_down(leaf.level.bytes()) + leaf.level.bytes());
    }
    let copied = copy();
    budget.take(COPIED * copied.max(1) as u32);
    (copied > 0).then(|| at + copied * PAGE_SIZE)
}
