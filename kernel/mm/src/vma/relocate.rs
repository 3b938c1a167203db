//! Moving a VMA to another address (mremap), without a list of removed VMAs.

use super::store::Slot;
use super::tree::VmaTree;
use super::types::{Backing, Vma};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;

impl<M: Machine> VmaTree<M> {
    /// Moves `old`, a part of one VMA, to `new`, where nothing is and which may be longer. Room for
    /// two more was reserved. Returns whether it leaves its monitor with that.
    pub fn relocate(&mut self, old: VirtRange, new: VirtRange) -> bool {
        let mut left = false;
        if let Some(slot) = self.stays_in_order(old, new) {
            if old.len() == new.len() {
                // The sums stay what they are.
                self.store.change_in(slot, |vma| left = vma.move_to(new));
                return left;
            }
            let figures = &mut self.figures;
            self.store.change_in(slot, |vma| {
                figures.sub(vma);
                left = vma.move_to(new);
                figures.add(vma);
            });
            return left;
        }
        let mut vma = self.cut_out(old).expect("what is moved is mapped");
        left = vma.move_to(new);
        self.insert(vma);
        left
    }

    /// The VMA at `old`, all of it, when it stands between the same two at `new` and becomes one
    /// with neither.
    fn stays_in_order(&self, old: VirtRange, new: VirtRange) -> Option<Slot> {
        let slot = self.find(old.start)?;
        let (before, next) = (self.before(slot), self.next(slot));
        let low = before.is_none_or(|slot| self.get(slot).range.end < new.start);
        let high = next.is_none_or(|slot| new.end < self.get(slot).range.start);
        (low && high && self.get(slot).range == old).then_some(slot)
    }

    /// Adds a copy of the VMA at `at`, from there on, at `new`, where nothing is. Room for one more
    /// was reserved. Returns whether the copy has no monitor, unlike the VMA.
    pub fn duplicate(&mut self, at: VirtAddr, new: VirtRange) -> bool {
        let vma = self.at(at).expect("what is mapped again is mapped");
        let mut vma = vma.clone();
        vma.cut_below(at);
        let left = vma.move_to(new);
        self.insert(vma);
        left
    }

    /// The part of `range` that is covered, when one VMA covers it.
    pub(super) fn only_one(&self, range: VirtRange) -> Option<VirtRange> {
        let slot = self.from(range.start)?;
        let part = self.get(slot).range.intersection(&range)?;
        let next = self.next(slot).map(|next| self.get(next).range.start);
        next.is_none_or(|next| range.end <= next).then_some(part)
    }

    /// The part of `range` that is covered, when one VMA of private zeros covers it.
    pub fn only_private(&self, range: VirtRange) -> Option<VirtRange> {
        let part = self.only_one(range)?;
        matches!(self.at(part.start)?.backing, Backing::Anon).then_some(part)
    }

    /// Takes out `part` of one VMA; the rest of it stays. Room for one more was reserved.
    pub fn cut_out(&mut self, part: VirtRange) -> Option<Vma<M>> {
        let slot = self.find(part.start)?;
        let whole = self.get(slot).range;
        if whole == part {
            let vma = self.store.take_one(slot);
            self.figures.sub(&vma);
            return Some(vma);
        }
        let mut taken = None;
        if part.end < whole.end {
            // The upper rest stays in the place of all, the lower one is another.
            let mut low = None;
            self.change(part.start, |vma| {
                let upper = vma.split_off(part.end);
                let mut below = core::mem::replace(vma, upper);
                if whole.start < part.start {
                    taken = Some(below.split_off(part.start));
                    low = Some(below);
                } else {
                    taken = Some(below);
                }
            });
            if let Some(low) = low {
                self.add(low);
            }
        } else {
            self.change(part.start, |vma| taken = Some(vma.split_off(part.start)));
        }
        taken
    }
}
