//! Growth of a stack on a fault below its start.

use super::Resolution;
use crate::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr};
use crate::arch::Machine;
use crate::space::{Locked, MMAP_MIN_ADDR, STACK_GUARD_GAP};
use crate::stat::Event;
use crate::vma::{Slot, VmaFlags};

impl<M: Machine> Locked<'_, M> {
    /// Extends the stack above `addr` down to it and returns the slot of its VMA; not while a verb
    /// that changes VMAs pauses.
    #[cold]
    #[inline(never)]
    pub(super) fn grow_stack(&mut self, addr: VirtAddr) -> Result<Slot, Resolution> {
        match self.refused(Resolution::NotMapped) {
            Resolution::NotMapped => extend(self, addr).ok_or(Resolution::NotMapped),
            claimed => Err(claimed),
        }
    }
}

/// [`Locked::grow_stack`], within RLIMIT_STACK and RLIMIT_AS, keeping the guard gap to the mapping
/// below.
fn extend<M: Machine>(inner: &mut Locked<'_, M>, addr: VirtAddr) -> Option<Slot> {
    let slot = inner.vmas.from(addr)?;
    let vma = inner.vmas.get(slot);
    let start = addr.align_down(PAGE_SIZE);
    if !vma.flags.contains(VmaFlags::GROWSDOWN) || start.0 < MMAP_MIN_ADDR {
        return None;
    }
    let old = vma.range.start;
    let more = (old - start) >> PAGE_SHIFT;
    if vma.range.end - start > inner.limits.stack
        || (inner.vmas.pages() + more) << PAGE_SHIFT > inner.limits.address_space
    {
        return None;
    }
    if let Some(below) = inner.vmas.before(slot).map(|s| inner.vmas.get(s)) {
        // A mapping without access is a guard itself; stacks may touch.
        let guards = below.prot.is_none() || below.flags.contains(VmaFlags::GROWSDOWN);
        if !guards && start - below.range.end < STACK_GUARD_GAP {
            return None;
        }
    }
    if vma.flags.is_locked() && !inner.may_lock(more) || inner.may_commit(more, vma).is_err() {
        return None;
    }
    if vma.anon_vma.is_none() {
        inner.vmas.prepare_write(slot);
    }
    inner.vmas.change(old, |vma| vma.range.start = start);
    inner.note_total();
    let mm = inner.mm();
    inner.settle_charge(mm);
    mm.count(Event::StackGrown, 1);
    Some(slot)
}
