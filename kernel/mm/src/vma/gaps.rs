//! The search for free ranges between VMAs, by the largest gaps that branches record.

use super::store::{Path, Slot, VmaStore, gap, guarded_start};
use crate::addr::VirtAddr;
use crate::arch::Machine;

impl<M: Machine> VmaStore<M> {
    /// The end of the highest free range of `len` bytes in `floor..top`, guard gaps left out.
    pub fn highest_gap(&self, len: u64, floor: VirtAddr, top: VirtAddr) -> Option<VirtAddr> {
        let next = self.from(top);
        let limit = next.map_or(top, |slot| top.min(guarded_start(self.get(slot))));
        let below = match next {
            Some(slot) => self.before(slot),
            None => self.last(),
        };
        let start = below.map_or(floor, |slot| floor.max(self.get(slot).range.end));
        if gap(start, limit) >= len {
            return Some(limit);
        }
        let end = self.gap_below(below?, len)?;
        (end.0 >= floor.0.checked_add(len)?).then_some(end)
    }

    /// The end of the highest free range of `len` bytes below the VMA in `slot`; at last the one
    /// below the first VMA, however large that is.
    fn gap_below(&self, slot: Slot, len: u64) -> Option<VirtAddr> {
        let Path { steps, slot } = self.path(self.get(slot).range.start)?;
        if let Some(end) = self.gap_in_leaf(slot.leaf, slot.at as usize, len) {
            return Some(end);
        }
        for (level, &(node, at)) in (1..).zip(steps[..self.height].iter().rev()) {
            if let Some(end) = self.gap_in_inner(node, level, at as usize, len) {
                return Some(end);
            }
        }
        Some(self.summary(self.root?, self.height).low)
    }
    fn gap_in_leaf(&self, leaf: u32, upto: usize, len: u64) -> Option<VirtAddr> {
        let mut pairs = self.leaves.get(leaf)[..=upto].windows(2).rev();
        let found = pairs.find(|p| gap(p[0].range.end, guarded_start(&p[1])) >= len);
        found.map(|p| guarded_start(&p[1]))
    }
    /// In the branches before `upto`, and between them and it.
    fn gap_in_inner(&self, node: u32, level: usize, upto: usize, len: u64) -> Option<VirtAddr> {
        for pair in self.inners.get(node)[..=upto].windows(2).rev() {
            if gap(pair[0].end, pair[1].low) >= len {
                return Some(pair[1].low);
            }
            if pair[0].gap >= len {
                return self.gap_inside(pair[0].node, level - 1, len);
            }
        }
        None
    }
    /// In a subtree that has one.
    fn gap_inside(&self, node: u32, level: usize, len: u64) -> Option<VirtAddr> {
        if level == 0 {
            return self.gap_in_leaf(node, self.leaves.get(node).len() - 1, len);
        }
        let last = self.inners.get(node).last()?;
        if last.gap >= len {
            return self.gap_inside(last.node, level - 1, len);
        }
        self.gap_in_inner(node, level, self.inners.get(node).len() - 1, len)
    }
}
