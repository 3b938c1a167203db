//! Construction of a tree from sorted VMAs in one pass.

use super::store::{Branch, INNER, LEAF, MAX_HEIGHT, VmaStore};
use super::types::Vma;
use crate::arch::Machine;
use crate::manager::Result;
use core::borrow::Borrow;

/// The nodes that are being filled, one per level of inner nodes.
type Spine = [Option<u32>; MAX_HEIGHT];

impl<M: Machine> VmaStore<M> {
    /// A store of the copies of these VMAs that `copy` makes, which are sorted and do not overlap,
    /// each changed by `change`; its nodes are full.
    pub fn build<V: Borrow<Vma<M>>>(
        vmas: impl Iterator<Item = V>,
        copy: impl Fn(&Vma<M>) -> Result<Vma<M>>,
        mut change: impl FnMut(&mut Vma<M>),
    ) -> Result<Self> {
        let mut store = VmaStore::new();
        let mut spine: Spine = [None; MAX_HEIGHT];
        // Copied to where it stays: a VMA is too large to be handed on.
        for vma in vmas {
            let open = store
                .root
                .filter(|leaf| store.leaves.get(*leaf).len() < LEAF);
            let leaf = match open {
                Some(leaf) => leaf,
                None => store.next_leaf(&mut spine)?,
            };
            let node = store.leaves.get_mut(leaf);
            node.push(copy(vma.borrow())?);
            node.last_mut().into_iter().for_each(&mut change);
            store.len += 1;
        }
        store.close(&spine)?;
        Ok(store)
    }

    /// Closes the leaf that is being filled and begins another.
    fn next_leaf(&mut self, spine: &mut Spine) -> Result<u32> {
        if let Some(full) = self.root {
            self.add_branch(spine, 0, full)?;
        }
        self.leaves.reserve(1)?;
        Ok(*self.root.insert(self.leaves.take()))
    }

    /// Hangs a filled node of `level` into the level above.
    fn add_branch(&mut self, spine: &mut Spine, level: usize, node: u32) -> Result {
        let branch: Branch = self.summary(node, level);
        if let Some(full) = spine[level].filter(|&inner| self.inners.get(inner).len() == INNER) {
            self.add_branch(spine, level + 1, full)?;
            spine[level] = None;
        }
        let inner = match spine[level] {
            Some(inner) => inner,
            None => {
                self.inners.reserve(1)?;
                *spine[level].insert(self.inners.take())
            }
        };
        self.inners.get_mut(inner).push(branch);
        Ok(())
    }

    /// Hangs the last nodes, filled or not, into the levels above; the one above all is the root.
    fn close(&mut self, spine: &Spine) -> Result {
        let mut spine = *spine;
        while let (Some(root), Some(_)) = (self.root, spine[self.height]) {
            self.add_branch(&mut spine, self.height, root)?;
            self.root = spine[self.height];
            self.height += 1;
        }
        Ok(())
    }
}
