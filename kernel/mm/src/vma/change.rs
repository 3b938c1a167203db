//! Insertion and removal of VMAs: a full node is split in two, neighbours that fit into one node
//! with some room are merged.

use super::pool::NodePool;
use super::store::{Branch, LEAF, MAX_HEIGHT, Path, Slot, VmaStore, guarded_start};
use super::types::Vma;
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::manager::Result;

impl<M: Machine> VmaStore<M> {
    /// Makes room for `n` VMAs more, wherever they go: each may cut a leaf and every node above it.
    pub fn reserve(&mut self, n: usize) -> Result {
        let room = self.height == 0 && self.root.is_some() && self.len + n <= LEAF;
        if room {
            return Ok(());
        }
        self.leaves.reserve(n)?;
        self.inners.reserve(n * (self.height + 1))
    }

    /// Adds a VMA where nothing is.
    pub fn insert(&mut self, vma: Vma<M>) {
        let root = match self.root {
            Some(root) => root,
            None => *self.root.insert(self.leaves.take()),
        };
        self.len += 1;
        let Some(right) = self.insert_below(root, self.height, vma) else {
            return;
        };
        let top = self.inners.take();
        let left = self.summary(root, self.height);
        self.inners.get_mut(top).extend([left, right]);
        self.root = Some(top);
        self.height += 1;
        debug_assert!(self.height <= MAX_HEIGHT);
    }
    /// Returns the new right neighbour of the node, if it had to be cut.
    fn insert_below(&mut self, node: u32, level: usize, vma: Vma<M>) -> Option<Branch> {
        let start = vma.range.start;
        if level == 0 {
            let at = self
                .leaves
                .get(node)
                .partition_point(|v| v.range.end <= start);
            let right = put(&mut self.leaves, node, at, vma);
            return right.map(|right| self.summary(right, 0));
        }
        let at = self.branch_for(node, start);
        let child = self.inners.get(node)[at].node;
        let split = self.insert_below(child, level - 1, vma);
        self.refresh(node, at, level);
        let right = put(&mut self.inners, node, at + 1, split?);
        right.map(|right| self.summary(right, level))
    }

    /// Changes the VMA that contains `at`; its place among the others stays.
    pub fn change(&mut self, at: VirtAddr, f: impl FnOnce(&mut Vma<M>)) {
        let path = self.path(at).expect("a VMA that is changed is there");
        let vma = self.get_mut(path.slot);
        let before = (guarded_start(vma), vma.range.end);
        f(vma);
        if (guarded_start(vma), vma.range.end) == before {
            return;
        }
        self.refresh_path(&path);
    }
    /// The summaries of a VMA whose bounds have changed.
    #[inline(never)]
    fn refresh_path(&mut self, path: &Path) {
        for (level, &(node, at)) in (1..).zip(path.steps[..self.height].iter().rev()) {
            self.refresh(node, at as usize, level);
        }
    }

    /// Changes the VMA in a slot; its place among the others stays.
    pub fn change_in(&mut self, slot: Slot, f: impl FnOnce(&mut Vma<M>)) {
        if self.height == 0 {
            return f(self.get_mut(slot));
        }
        self.change(self.get(slot).range.start, f);
    }

    /// Takes out the VMA in a slot.
    #[inline]
    pub fn take_one(&mut self, slot: Slot) -> Vma<M> {
        self.len -= 1;
        if self.height == 0 {
            return self.leaves.get_mut(slot.leaf).remove(slot.at as usize);
        }
        self.take_below(slot)
    }
    fn take_below(&mut self, slot: Slot) -> Vma<M> {
        let path = self.path(self.get(slot).range.start);
        let path = path.expect("a VMA that is taken out is there");
        let vma = self.leaves.get_mut(slot.leaf).remove(slot.at as usize);
        for (level, &(node, at)) in (1..).zip(path.steps[..self.height].iter().rev()) {
            self.settle(node, at as usize, level);
        }
        self.lower();
        vma
    }

    /// Takes out the VMAs that lie inside `range`; none crosses its ends.
    pub fn remove(&mut self, range: VirtRange, out: &mut impl FnMut(Vma<M>)) {
        while let Some(root) = self.root
            && let Some(slot) = self.from(range.start)
            && self.get(slot).range.start < range.end
        {
            self.remove_below(root, self.height, range, out);
            self.lower();
        }
    }
    /// An inner root with a single branch is none.
    fn lower(&mut self) {
        while self.height > 0
            && let Some(top) = self.root
        {
            (self.root, self.height) = match *self.inners.get(top) {
                [] => (None, 0),
                [only] => (Some(only.node), self.height - 1),
                _ => return,
            };
            self.inners.give_back(top);
        }
    }
    /// Takes out of the first leaf that has some.
    fn remove_below(
        &mut self,
        node: u32,
        level: usize,
        range: VirtRange,
        out: &mut impl FnMut(Vma<M>),
    ) {
        if level == 0 {
            let leaf = self.leaves.get_mut(node);
            let first = leaf.partition_point(|v| v.range.end <= range.start);
            let end = leaf.partition_point(|v| v.range.start < range.end);
            debug_assert!(first < end, "nothing to remove in {range:?}");
            self.len -= end - first;
            leaf.drain(first..end).for_each(out);
            return;
        }
        let at = self.branch_for(node, range.start);
        let child = self.inners.get(node)[at].node;
        self.remove_below(child, level - 1, range, out);
        self.settle(node, at, level);
    }

    /// After a removal below branch `at` of an inner node: drops it when it is empty, joins it with
    /// a neighbour when both fit into one.
    fn settle(&mut self, node: u32, at: usize, level: usize) {
        let child = self.inners.get(node)[at].node;
        if self.items(child, level - 1) == 0 {
            self.inners.get_mut(node).remove(at);
            self.give_back(child, level - 1);
            return;
        }
        self.refresh(node, at, level);
        let count = self.inners.get(node).len();
        for left in [at, at.wrapping_sub(1)] {
            if left < count && left + 1 < count {
                let branches = self.inners.get(node);
                let (a, b) = (branches[left].node, branches[left + 1].node);
                let merged = match level {
                    1 => self.leaves.merge(a, b),
                    _ => self.inners.merge(a, b),
                };
                if merged {
                    self.inners.get_mut(node).remove(left + 1);
                    self.refresh(node, left, level);
                    return;
                }
            }
        }
    }
    fn items(&self, node: u32, level: usize) -> usize {
        match level {
            0 => self.leaves.get(node).len(),
            _ => self.inners.get(node).len(),
        }
    }
    fn give_back(&mut self, node: u32, level: usize) {
        match level {
            0 => self.leaves.give_back(node),
            _ => self.inners.give_back(node),
        }
    }
}

/// Puts an item into a node; returns the new right neighbour if the node was full. It is cut where
/// the item goes, so that items that come in order leave full nodes behind, but no part gets less
/// than a quarter.
fn put<T, const N: usize>(pool: &mut NodePool<T, N>, node: u32, at: usize, item: T) -> Option<u32> {
    if !pool.is_full(node) {
        pool.get_mut(node).insert(at, item);
        return None;
    }
    let cut = at.clamp(N / 4, N - N / 4);
    let right = pool.split(node, cut);
    if at <= cut {
        pool.get_mut(node).insert(at, item);
    } else {
        pool.get_mut(right).insert(at - cut, item);
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use super::{NodePool, put};
    use alloc::vec::Vec;

    /// Else a place where much is inserted would leave a trail of nodes that are almost empty.
    #[test]
    fn a_full_node_is_cut_so_that_each_part_has_a_quarter() {
        const N: usize = 32;
        for at in 0..=N {
            let mut pool = NodePool::<usize, N>::new();
            pool.reserve(2).unwrap();
            let node = pool.take();
            for n in 0..N {
                assert_eq!(put(&mut pool, node, n, n), None);
            }
            let right = put(&mut pool, node, at, N).expect("it was full");
            let parts = [node, right].map(|node| pool.get(node).to_vec());
            assert!(parts.iter().all(|part| part.len() >= N / 4), "{parts:?}");
            let mut whole: Vec<usize> = (0..N).collect();
            whole.insert(at, N);
            assert_eq!(parts.concat(), whole);
        }
    }
}
