//! Placement of mappings without a fixed address: top-down, as in Linux.

use crate::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr, VirtRange};
use crate::arch::{Level, Machine, PteFormat};
use crate::space::{Inner, MMAP_MIN_ADDR};
use crate::thp::PMD_ORDER;
use crate::vma::{Backing, guarded_start};

impl<M: Machine> Inner<M> {
    /// An address for `len` bytes (whole pages) of this backing: the hint if it is free, else the
    /// highest gap below the top, else the lowest above it. Without a hint, private memory in
    /// multiples of the PMD size is aligned to it where there is room, for the largest folios
    /// (Linux since 6.7), and an object is mapped where its large folios can be mapped whole.
    pub(super) fn find_place(
        &self,
        hint: VirtAddr,
        len: u64,
        backing: &Backing<M>,
    ) -> Option<VirtAddr> {
        if let Some(order) = backing.huge_order() {
            return self.find_huge(hint, len, order.bytes());
        }
        self.place_at_hint(hint, len)
            .or_else(|| {
                let (unit, like) = if hint.0 == 0 {
                    unit(len, backing)?
                } else {
                    return None;
                };
                self.highest_congruent_gap(len, unit, like)
            })
            .or_else(|| self.highest_gap(len))
            .or_else(|| self.lowest_gap(len))
    }

    /// A multiple of the size of huge pages: the hint rounded up if it is free, else the highest.
    #[cold]
    fn find_huge(&self, hint: VirtAddr, len: u64, size: u64) -> Option<VirtAddr> {
        let hinted = hint
            .align_up(size)
            .and_then(|at| self.place_at_hint(at, len));
        let below = || self.highest_congruent_gap(len, size, VirtAddr(0));
        let above = || self.lowest_gap(len + size)?.align_up(size);
        hinted.or_else(below).or_else(above)
    }

    /// An address for `len` bytes moved from `like`: if possible congruent to it modulo the largest
    /// unit that `len` holds, so that entries of that size move whole.
    pub(super) fn find_congruent(
        &self,
        like: VirtAddr,
        len: u64,
        backing: &Backing<M>,
    ) -> Option<VirtAddr> {
        let block = M::Pte::CONTIG_ORDER.map_or(PAGE_SIZE, |order| order.bytes());
        let levels = [Level::Pgd, Level::Pud, Level::Pmd].map(Level::bytes);
        levels
            .into_iter()
            .chain([block])
            .filter(|unit| *unit <= len)
            .find_map(|unit| self.highest_congruent_gap(len, unit, like))
            .or_else(|| self.find_place(VirtAddr(0), len, backing))
    }

    /// The hint, if it is given and free.
    pub(super) fn place_at_hint(&self, hint: VirtAddr, len: u64) -> Option<VirtAddr> {
        if hint.0 == 0 {
            return None;
        }
        let start = VirtAddr(hint.align_up(PAGE_SIZE)?.0.max(MMAP_MIN_ADDR));
        let range = VirtRange::new(start, start.checked_add(len)?);
        (range.end <= M::Pte::USER_END && self.is_free(range)).then_some(start)
    }

    /// Whether `range` has neither a mapping nor a stack's guard gap.
    pub(super) fn is_free(&self, range: VirtRange) -> bool {
        let next = self.vmas.from(range.start);
        next.is_none_or(|slot| range.end <= guarded_start(self.vmas.get(slot)))
    }

    fn highest_gap(&self, len: u64) -> Option<VirtAddr> {
        let end = self
            .vmas
            .highest_gap(len, VirtAddr(MMAP_MIN_ADDR), self.mmap_top)?;
        Some(VirtAddr(end.0 - len))
    }

    /// The highest address congruent to `like` modulo `unit`, in the highest gap with one for any
    /// position of its end.
    fn highest_congruent_gap(&self, len: u64, unit: u64, like: VirtAddr) -> Option<VirtAddr> {
        let slack = unit - PAGE_SIZE;
        let last = self.highest_gap(len.checked_add(slack)?)? + slack;
        let over = last.0.wrapping_sub(like.0) & (unit - 1);
        Some(VirtAddr(last.0 - over))
    }

    /// The lowest place above the top: bisects for the lowest end below which there is one.
    fn lowest_gap(&self, len: u64) -> Option<VirtAddr> {
        let floor = self.mmap_top;
        let below = |end| self.vmas.highest_gap(len, floor, end);
        let (mut low, mut high) = (floor.checked_add(len)?, below(M::Pte::USER_END)?);
        while low < high {
            let middle = low + (high - low) / 2;
            match below(middle.align_down(PAGE_SIZE)) {
                Some(end) => high = end,
                None => low = middle.align_down(PAGE_SIZE) + PAGE_SIZE,
            }
        }
        Some(VirtAddr(high.0 - len))
    }
}

/// What the address of a mapping is best congruent to, and modulo how many bytes.
fn unit<M: Machine>(len: u64, backing: &Backing<M>) -> Option<(u64, VirtAddr)> {
    match backing {
        Backing::Anon => {
            let large = len.is_multiple_of(PMD_ORDER.bytes());
            large.then_some((PMD_ORDER.bytes(), VirtAddr(0)))
        }
        Backing::Object { object, offset, .. } => {
            let order = object.largest_order(len)?;
            Some((order.bytes(), VirtAddr(offset << PAGE_SHIFT)))
        }
    }
}
