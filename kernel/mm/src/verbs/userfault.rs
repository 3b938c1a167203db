//! userfaultfd(2): registration of memory with a monitor, and its write protection. How a monitor
//! fills memory: `userfault/fill.rs`.

mod fill;
mod fill_huge;
mod moves;

pub use fill::{Content, Filling};

use crate::addr::{Order, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::mutant::{self, Mutant};
use crate::space::{AREA, AddressSpace, Areas, Error, Locked, Result};
use crate::table::Budget;
use crate::vma::{Backing, Question, Vma, VmaFlags, VmaTree};

/// What memory is registered with and for.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// The monitor, not 0.
    pub monitor: u16,
    /// Of [`VmaFlags::UFFD_ALL`].
    pub flags: VmaFlags,
}

impl Registration {
    /// Why a VMA cannot be registered like this.
    fn refusal<M: Machine>(&self, vma: &Vma<M>) -> Option<Error> {
        match vma.monitor {
            _ if !vma.suits_monitor(self.flags) => Some(Error::Inval),
            _ if vma.flags.contains(VmaFlags::NO_MAYWRITE) => Some(Error::Perm),
            0 => None,
            monitor => (monitor != self.monitor).then_some(Error::Busy),
        }
    }
}

impl<M: Machine> AddressSpace<M> {
    /// UFFDIO_REGISTER of whole pages, huge ones too. EINVAL: nothing is mapped there, or memory
    /// that the modes do not suit; EPERM: memory that could not be made writable; EBUSY: another
    /// monitor has it; ENOMEM: too many VMAs.
    pub fn userfault_register(&self, range: VirtRange, with: Registration) -> Result {
        let mut areas = self.areas()?;
        let (mut found, mut protects, mut why) = (false, false, None);
        areas.in_parts(range, |inner, part| {
            for vma in inner.vmas.iter_in(part) {
                found = true;
                protects |= vma.flags.is_uffd_wp();
                why = why.or(with.refusal(vma));
            }
            why.is_none()
        });
        match why {
            None if !found => return Err(Error::Inval),
            None => {}
            Some(why) => return Err(why),
        }
        areas.check_cut(range)?;
        if protects && !with.flags.is_uffd_wp() {
            areas.end_protection(range)?;
        }
        areas.has_monitors = true;
        areas.set_monitor(range, |vma| {
            if let Backing::Object { object, .. } = &vma.backing
                && with.flags.asks(Question::Missing)
            {
                object.note_monitor();
            }
            vma.set_monitor(with.monitor, with.flags);
        })
    }

    /// UFFDIO_UNREGISTER of whole pages. EINVAL: nothing is mapped there, or another monitor has
    /// it; ENOMEM: too many VMAs.
    pub fn userfault_unregister(&self, range: VirtRange, monitor: u16) -> Result {
        let mut areas = self.areas()?;
        let others = areas.pages_of(range, |vma| ![0, monitor].contains(&vma.monitor));
        if others != 0 || areas.vmas.is_clear(range) {
            return Err(Error::Inval);
        }
        areas.check_cut(range)?;
        areas.end_protection(range)?;
        areas.set_monitor(range, Vma::forget_monitor)
    }

    /// Ends all registrations with a monitor that is no more. Always completes.
    pub fn userfault_forget(&self, monitor: u16) {
        let mut areas = self.areas_at_last();
        let (mut at, mut budget) = (VirtAddr(0), Budget::step(&self.mm));
        while let Some(slot) = areas.vmas.from(at) {
            let vma = areas.vmas.get(slot);
            let range = vma.range;
            at = range.end;
            if vma.monitor == monitor {
                // No PMD leaf crosses an end of a VMA, so nothing is split.
                let _ = areas.end_protection(range);
                areas.vmas.change(range.start, Vma::forget_monitor);
            }
            if !budget.take(AREA) {
                areas.pause();
                budget = Budget::step(&self.mm);
            }
        }
    }

    /// The monitors of a child's VMAs are those that `adopt`, which may take locks, says for their
    /// parents'; 0 for none. Called before the child runs. Always completes.
    pub fn userfault_adopt(&self, mut adopt: impl FnMut(u16) -> u16) {
        let mut rest = VirtRange::new(VirtAddr(0), M::Pte::USER_END);
        while !rest.is_empty()
            && let Some((parents, range)) = self.next_monitored(rest)
        {
            rest.start = range.end;
            let number = adopt(parents);
            let mut inner = self.lock();
            if number == 0 {
                inner.end_moved_protection(range);
            }
            inner.vmas.change(range.start, |vma| match number {
                0 => vma.forget_monitor(),
                number => vma.monitor = number,
            });
        }
    }

    /// The first part of `range` that has a monitor, and which.
    pub fn next_monitored(&self, range: VirtRange) -> Option<(u16, VirtRange)> {
        let inner = self.lock();
        let vma = inner.vmas.iter_in(range).find(|vma| vma.monitor != 0)?;
        Some((vma.monitor, vma.range.intersection(&range)?))
    }

    /// UFFDIO_WRITEPROTECT of whole pages, or with `on` unset its end. EINVAL: a part of a huge
    /// page; ENOENT: not all of it is registered for that; ENOMEM: what was protected by then stays
    /// protected.
    pub fn userfault_protect(&self, range: VirtRange, on: bool) -> Result {
        let mut areas = self.areas()?;
        let registered = |vma: &Vma<M>| vma.flags.is_uffd_wp();
        if areas.pages_of(range, registered) != range.pages() {
            return Err(Error::NoEnt);
        }
        areas.check_cut(range)?;
        match on {
            true => areas.protect_all(range, registered),
            false => areas.end_protection(range),
        }
    }

    /// Write-protects what lies in `range` and is monitored asynchronously, present or not
    /// (PAGEMAP_SCAN with PM_SCAN_WP_MATCHING). ENOMEM; EINVAL if it cuts a huge page.
    pub fn userfault_protect_async(&self, range: VirtRange) -> Result {
        let mut areas = self.areas()?;
        areas.check_cut(range)?;
        areas.protect_all(range, Vma::is_protected_async)
    }
}

/// A userfaultfd is about its own space; where the child gets one, too
/// ([`AddressSpace::userfault_adopt`]), it is that of the parent until then.
#[cold]
pub(super) fn forget_others<M: Machine>(vmas: &mut VmaTree<M>) {
    let mut next = vmas.walk_from(VirtAddr(0));
    while let Some(slot) = next {
        let vma = vmas.get_mut(slot);
        if vma.flags.leaves_monitor_at_fork() {
            vma.forget_monitor();
        }
        next = vmas.next(slot);
    }
}

impl<M: Machine> Areas<'_, M> {
    /// Changes what the VMAs in `range` say of their monitor.
    fn set_monitor(&mut self, range: VirtRange, f: impl Fn(&mut Vma<M>)) -> Result {
        self.vmas.reserve_update(range)?;
        self.split_ends(range)?;
        self.in_parts(range, |inner, part| {
            inner.vmas.update(part, &f);
            true
        });
        Ok(())
    }

    /// Write-protects what is in the VMAs of `range` that `wanted` selects.
    fn protect_all(&mut self, range: VirtRange, wanted: impl Fn(&Vma<M>) -> bool) -> Result {
        self.split_ends(range)?;
        let mut budget = Budget::step(self.mm());
        let mut rest = range;
        while let Some((part, order, empty)) = self.next_to_protect(rest, &wanted) {
            self.in_steps(part, &mut budget, |edit, part, budget| {
                edit.uffd_protect_some(part, order, empty, budget)
            })?;
            rest.start = part.end;
            if !budget.take(AREA) {
                self.pause();
                budget = Budget::step(self.mm());
            }
        }
        Ok(())
    }

    /// Ends the write protection of what is in `range`.
    pub(super) fn end_protection(&mut self, range: VirtRange) -> Result {
        self.split_ends(range)?;
        if mutant::on(Mutant::LeaveProtected) {
            return Ok(());
        }
        let mut budget = Budget::step(self.mm());
        self.in_steps(range, &mut budget, |edit, part, budget| {
            Ok(edit.uffd_unprotect_some(part, budget))
        })?;
        Ok(())
    }
}

impl<M: Machine> Locked<'_, M> {
    /// The part of `range` in its first VMA that `wanted` selects, the order of its pages, and
    /// whether what is not there is to be marked.
    fn next_to_protect(
        &self,
        range: VirtRange,
        wanted: &impl Fn(&Vma<M>) -> bool,
    ) -> Option<(VirtRange, Order, bool)> {
        let vma = self.vmas.iter_in(range).find(|vma| wanted(vma))?;
        let (part, order) = (vma.range.intersection(&range)?, vma.huge_order());
        Some((part, order.unwrap_or_default(), vma.marks_empty()))
    }

    /// Ends the write protection of pages that have left their monitor: all of a VMA's, or of those
    /// that moved into one. No PMD leaf crosses an end of the range.
    #[cold]
    pub(super) fn end_moved_protection(&mut self, new: VirtRange) {
        if !mutant::on(Mutant::MoveProtection) {
            self.edit(|edit| edit.uffd_unprotect_some(new, &mut Budget::default()));
        }
    }
}
