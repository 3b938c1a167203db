//! Where a mapping goes when its address is free to choose: from the top down, as Linux does.

use crate::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::state::{Inner, MMAP_MIN_ADDR, STACK_GUARD_GAP};
use crate::vma::{Vma, VmaFlags};

/// The lowest address that a mapping below `vma` must end at.
fn guarded_start<M: Machine>(vma: &Vma<M>) -> VirtAddr {
    let gap = if vma.flags.contains(VmaFlags::GROWSDOWN) {
        STACK_GUARD_GAP
    } else {
        0
    };
    VirtAddr(vma.range.start.0.saturating_sub(gap))
}

impl<M: Machine> Inner<M> {
    /// An address for `len` bytes (whole pages): the hint if it is free, else the highest gap below the top, else the
    /// lowest above it.
    pub(super) fn find_place(&self, hint: VirtAddr, len: u64) -> Option<VirtAddr> {
        self.place_at_hint(hint, len)
            .or_else(|| self.highest_gap(len))
            .or_else(|| self.lowest_gap(len))
    }

    fn place_at_hint(&self, hint: VirtAddr, len: u64) -> Option<VirtAddr> {
        if hint.0 == 0 {
            return None;
        }
        let start = VirtAddr(hint.align_up(PAGE_SIZE)?.0.max(MMAP_MIN_ADDR));
        let range = VirtRange::from_len(start, len)?;
        (range.end <= M::Pte::USER_END && self.is_free(range)).then_some(start)
    }

    /// Whether nothing is mapped in `range` and no stack's guard gap lies there.
    pub(super) fn is_free(&self, range: VirtRange) -> bool {
        let next = self.vmas.from(range.start);
        next.is_none_or(|slot| range.end <= guarded_start(self.vmas.get(slot)))
    }

    fn highest_gap(&self, len: u64) -> Option<VirtAddr> {
        let mut end = self.mmap_top;
        let mut next = self.vmas.last();
        // VMAs that begin at or above the top only count by their guard gap.
        while let Some(slot) = next {
            next = self.vmas.before(slot);
            let vma = self.vmas.get(slot);
            let below = vma.range.end;
            if below < end && end - below >= len && end.0 - len >= MMAP_MIN_ADDR {
                return Some(VirtAddr(end.0 - len));
            }
            end = end.min(guarded_start(vma));
        }
        (end.0 >= len && end.0 - len >= MMAP_MIN_ADDR).then(|| VirtAddr(end.0 - len))
    }

    fn lowest_gap(&self, len: u64) -> Option<VirtAddr> {
        let mut start = self.mmap_top;
        let above = VirtRange::new(start, M::Pte::USER_END);
        for vma in self.vmas.iter_in(above) {
            let end = guarded_start(vma);
            if end > start && end - start >= len {
                return Some(start);
            }
            start = start.max(vma.range.end);
        }
        (M::Pte::USER_END.0.saturating_sub(start.0) >= len).then_some(start)
    }
}
