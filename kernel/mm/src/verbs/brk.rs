//! brk(2).

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::space::{AddressSpace, Areas, Locked, user_pages};
use crate::vma::{Backing, Prot, Taken, Vma, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// Sets the start of the empty heap; exec sets it after the program's data.
    pub fn set_brk(&self, start: VirtAddr) {
        let mut inner = self.lock();
        (inner.brk_start, inner.brk) = (start, start);
    }

    /// The current heap: VMAs that overlap it are shown as `[heap]`.
    pub fn heap(&self) -> VirtRange {
        let inner = self.lock();
        VirtRange::new(inner.brk_start, inner.brk)
    }

    /// brk(2): returns the break after the call, unchanged if refused.
    pub fn brk(&self, wanted: VirtAddr) -> VirtAddr {
        let Ok(mut inner) = self.areas() else {
            return self.lock().brk;
        };
        let before = inner.brk;
        let removed = inner.move_brk(wanted);
        let (after, future) = (inner.brk, inner.future);
        drop(inner);
        drop(removed);
        if let (true, Some(from), Some(to)) = (
            future.populates(),
            before.align_up(PAGE_SIZE),
            after.align_up(PAGE_SIZE),
        ) && from < to
        {
            let _ = self.populate(VirtRange::new(from, to));
        }
        after
    }
}

impl<M: Machine> Areas<'_, M> {
    /// Moves the break; `None` if refused, else the VMAs to drop after the lock.
    fn move_brk(&mut self, wanted: VirtAddr) -> Option<Taken<M>> {
        if wanted < self.brk_start {
            return None;
        }
        let (old_end, new_end) = (
            self.brk.align_up(PAGE_SIZE)?,
            user_pages::<M>(wanted, 0)?.end,
        );
        let mut removed = None;
        if new_end < old_end {
            self.check_seals(VirtRange::new(new_end, old_end)).ok()?;
            removed = Some(self.remove(VirtRange::new(new_end, old_end)).ok()?);
        } else if new_end > old_end {
            self.grow_heap(VirtRange::new(old_end, new_end), wanted)?;
        }
        self.brk = wanted;
        Some(removed.unwrap_or(Taken::one(None)))
    }
}

impl<M: Machine> Locked<'_, M> {
    fn grow_heap(&mut self, range: VirtRange, wanted: VirtAddr) -> Option<()> {
        // One page stays free above the heap, and a stack's whole guard gap.
        let with_gap = user_pages::<M>(range.start, range.len() + PAGE_SIZE)?;
        if wanted - self.brk_start > self.limits.data || !self.is_free(with_gap) {
            return None;
        }
        let (prot, flags) = (Prot::READ | Prot::WRITE, VmaFlags::ACCOUNT | self.future);
        let vma = Vma::new(range, prot, flags, Backing::Anon);
        self.may_map(&vma, 0).ok()?;
        self.vmas.reserve_take(range, 1).ok()?;
        self.vmas.insert(vma);
        self.note_total();
        Some(())
    }
}
