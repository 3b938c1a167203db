//! fork(2): a copy of an address space for a child.

use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::manager::{Result, SpaceKey};
use crate::mutant::{self, Mutant};
use crate::space::{AREAS, AddressSpace, Areas, Error, Handle, Inner};
use crate::stat::Event;
use crate::switch::ForkBy;
use crate::table::{Budget, ForkCopy};
use crate::tlb::Gather;
use crate::verbs::userfault;
use crate::vma::{Vma, VmaTree};

impl<M: Machine> AddressSpace<M> {
    /// Copies the space for a child: private pages become copy-on-write. Pages held only by an
    /// object are left to the child's faults. On failure the child is dropped and the parent's
    /// counts are as before.
    ///
    /// VMAs are copied at once, tables in steps: the child may or may not see concurrent writes.
    pub fn fork(&self) -> Result<Handle<M>, Error> {
        let mut child = Handle::for_child(self)?;
        child.change_thp_permit(|_| self.thp_permit());
        let mut parent = self.areas()?;
        // Listed before another change of the parent: who asks all spaces waits for that claim.
        let copied = copy(&mut parent, child.unlisted()).and_then(|()| Ok(child.list()?));
        drop(parent);
        self.mm.count(Event::Fork, 1);
        // An incomplete child is dropped here, with its references.
        copied.map(|()| child)
    }
}

fn copy<M: Machine>(parent: &mut Areas<'_, M>, child: &mut AddressSpace<M>) -> Result<(), Error> {
    let mut vmas = copy_areas(parent, child.key, child.inner.get_mut())?;
    parent.may_copy(&vmas)?;
    let mut gather = parent.gather();
    let mut copying = Copying {
        budget: Budget::step(parent.mm()),
        gather: &mut gather,
        parent,
        child,
    };
    let copied = vmas.iter().try_for_each(|vma| copying.pages(vma));
    // Invariant: no writable translation of the parent survives into copy-on-write.
    gather.finish();
    if child.inner.get_mut().has_monitors {
        userfault::forget_others(&mut vmas);
    }
    // Last: the VMAs lead to what the tables hold.
    let child = child.inner.get_mut();
    child.vmas = vmas;
    child.note_total();
    child.settle_charge(parent.mm());
    copied
}

fn copy_areas<M: Machine>(
    parent: &mut Areas<'_, M>,
    key: SpaceKey,
    child: &mut Inner<M>,
) -> Result<VmaTree<M>, Error> {
    let copy = |vma: &Vma<M>| vma.for_child(key);
    child.limits = parent.limits;
    (child.has_restricted_vmas, child.mdwe) = (parent.has_restricted_vmas, parent.mdwe.inherited());
    child.has_monitors = parent.has_monitors;
    child.keys = parent.keys;
    (child.mmap_top, child.brk_start, child.brk) = (parent.mmap_top, parent.brk_start, parent.brk);
    let figures = parent.vmas.figures();
    if parent.vmas.len() <= AREAS {
        return Ok(VmaTree::copy_of(figures, parent.vmas.iter(), copy)?);
    }
    let (mut at, mut left, mut ends) = (VirtAddr(0), AREAS, false);
    let vmas = core::iter::from_fn(|| {
        if left == 0 {
            left = AREAS;
            ends = parent.pause();
        }
        let slot = parent.vmas.walk_from(at).filter(|_| !ends)?;
        let vma = parent.vmas.get(slot).clone();
        at = vma.range.end;
        left -= 1;
        Some(vma)
    });
    let copied = VmaTree::copy_of(figures, vmas, copy);
    match ends {
        true => Err(Error::Interrupted),
        false => Ok(copied?),
    }
}

/// A fork that copies the tables.
struct Copying<'f, 's, M: Machine> {
    parent: &'f mut Areas<'s, M>,
    child: &'f mut AddressSpace<M>,
    gather: &'f mut Gather<'s, M>,
    budget: Budget,
}

impl<M: Machine> Copying<'_, '_, M> {
    /// Shares the private pages of a VMA, in steps.
    fn pages(&mut self, vma: &Vma<M>) -> Result<(), Error> {
        let mut rest = vma.range;
        loop {
            let stopped = match self.budget.take(1) {
                true => self.some_pages(vma, rest)?,
                false => Some(rest.start),
            };
            let Some(next) = stopped else {
                return Ok(());
            };
            rest.start = next;
            self.gather.finish();
            self.budget = Budget::step(self.gather.mm());
            if !vma.in_huge_page(next) && self.parent.pause() {
                return Err(Error::Interrupted);
            }
        }
    }

    /// Shares the private pages of `range` in a VMA within the budget; returns where the rest
    /// begins.
    #[inline]
    fn some_pages(&mut self, vma: &Vma<M>, range: VirtRange) -> Result<Option<VirtAddr>> {
        if !vma.copies_entries() {
            return Ok(None);
        }
        let mm = self.gather.mm();
        let Inner { table, rss, .. } = self.child.inner.get_mut();
        // A pin keeps the contents as of the fork, so every page loses WRITE, which needs a copy by
        // entry.
        let tables = mm.switches().fork() == ForkBy::Share && self.child.id.family.pins() == 0;
        let mut copy = ForkCopy {
            mm,
            child: &self.child.id.owner,
            gather: self.gather,
            pinned: self.parent.pinned,
            tables: tables && vma.shares_tables(),
            huge: vma.flags.is_hugetlb(),
            anon: 0,
            swapped: 0,
            object: 0,
        };
        let stopped = copy.range(&mut self.parent.table, table, range, &mut self.budget);
        rss.add(vma, copy.anon, copy.object);
        rss.swapped += copy.swapped;
        let leaves = vma.flags.is_uffd_wp() && vma.flags.leaves_monitor_at_fork();
        if leaves && !mutant::on(Mutant::InheritProtection) {
            let end = stopped
                .as_ref()
                .map_or(range.start, |end| end.unwrap_or(range.end));
            let mut gather = Gather::dead(mm, &self.child.id);
            let mut edit = table.edit(&mut gather);
            edit.uffd_unprotect_some(VirtRange::new(range.start, end), &mut Budget::default());
            gather.finish();
        }
        stopped
    }
}
