//! Changes of protection and flags of a part of what is mapped: the part becomes a VMA of its
//! own, or joins a neighbour.

use super::merge::joinable;
use super::store::{LEAF, Slot, VmaStore};
use super::tree::VmaTree;
use super::types::Vma;
use crate::addr::VirtRange;
use crate::arch::Machine;

impl<M: Machine> VmaTree<M> {
    /// Changes protection and flags of what lies in `range`, VMA by VMA from the lowest on: what
    /// `f` changes is cut off from the rest of its VMA and joined with its neighbours, what it
    /// leaves as it was is left alone. Room was reserved.
    pub fn update(&mut self, range: VirtRange, mut f: impl FnMut(&mut Vma<M>)) {
        let mut at = range.start;
        while at < range.end
            && let Some(slot) = self.from(at)
        {
            let vma = self.get(slot);
            // What lies before `at` was looked at; it may have become one with this.
            let Some(part) = vma.range.intersection(&VirtRange::new(at, range.end)) else {
                break;
            };
            at = part.end;
            let mut changed = vma.clone();
            f(&mut changed);
            // The monitor changes only with the flags of its registration.
            if (changed.prot, changed.flags) != (vma.prot, vma.flags) {
                changed.cut_to(part);
                self.replace(slot, changed);
            }
        }
    }

    /// Puts `part` where a part of the VMA in `slot`, or all of it, was.
    fn replace(&mut self, slot: Slot, part: Vma<M>) {
        let (whole, range) = (self.get(slot).range, part.range);
        let (below, above) = (whole.start < range.start, range.end < whole.end);
        let low = if below { None } else { self.before(slot) };
        let high = if above { None } else { self.next(slot) };
        let joins = low.is_some_and(|low| joinable(self.get(low), &part))
            || high.is_some_and(|high| joinable(&part, self.get(high)));
        let more = usize::from(below) + usize::from(above);
        if !joins && self.store.leaf_takes(slot, more) {
            self.figures.change(self.store.get(slot), &part);
            return self.store.cut_around(slot, part);
        }
        match (below, above) {
            (false, false) => self.remove_one(whole.start),
            (true, false) => self.change(whole.start, |v| v.range.end = range.start),
            (false, true) => self.change(whole.start, |v| v.cut_below(range.end)),
            (true, true) => {
                let mut upper = self.get(slot).clone();
                upper.cut_below(range.end);
                self.change(whole.start, |v| v.range.end = range.start);
                self.add(upper);
            }
        }
        self.insert(part);
    }
}

impl<M: Machine> VmaStore<M> {
    /// Whether the leaf of a slot has room for `n` more VMAs.
    fn leaf_takes(&self, slot: Slot, n: usize) -> bool {
        self.leaves.get(slot.leaf).len() + n <= LEAF
    }
    /// Puts `part` where a part of the VMA in a slot, or all of it, was, between what is left of
    /// it. The leaf has room. Together they cover what the VMA covered, so no inner node changes.
    fn cut_around(&mut self, slot: Slot, part: Vma<M>) {
        let (leaf, mut at) = (self.leaves.get_mut(slot.leaf), slot.at as usize);
        let (whole, range) = (leaf[at].range, part.range);
        if range.end < whole.end {
            let mut above = leaf[at].clone();
            above.cut_below(range.end);
            leaf.insert(at + 1, above);
            self.len += 1;
        }
        if whole.start < range.start {
            leaf[at].range.end = range.start;
            at += 1;
            leaf.insert(at, part);
            self.len += 1;
        } else {
            leaf[at] = part;
        }
        // Changes often come in order: the next one looks behind this one.
        self.expect(slot.with(at as u32 + 1));
    }
}
