//! A tree from VMAs that come in order, in one pass.

use super::store::{Branch, INNER, LEAF, MAX_HEIGHT, Store};
use super::types::Vma;
use crate::arch::Machine;
use crate::frame::OutOfMemory;

/// The nodes that are being filled, one per level of inner nodes.
type Spine = [Option<u32>; MAX_HEIGHT];

impl<M: Machine> Store<M> {
    /// A store of these VMAs, which are sorted and do not overlap; its nodes are full.
    pub fn build(mut vmas: impl Iterator<Item = Vma<M>>) -> Result<Self, OutOfMemory> {
        let mut store = Store::new();
        let mut spine: Spine = [None; MAX_HEIGHT];
        let mut next = vmas.next();
        while let Some(first) = next.take() {
            if let Some(full) = store.root {
                store.add_branch(&mut spine, 0, full)?;
            }
            store.leaves.reserve(1)?;
            let leaf = store.leaves.take();
            let node = store.leaves.get_mut(leaf);
            node.push(first);
            for vma in vmas.by_ref() {
                if node.len() == LEAF {
                    next = Some(vma);
                    break;
                }
                node.push(vma);
            }
            store.len += node.len();
            store.root = Some(leaf);
        }
        store.close(&spine)?;
        Ok(store)
    }

    /// Hangs a filled node of `level` into the level above.
    fn add_branch(
        &mut self,
        spine: &mut Spine,
        level: usize,
        node: u32,
    ) -> Result<(), OutOfMemory> {
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
    fn close(&mut self, spine: &Spine) -> Result<(), OutOfMemory> {
        let mut spine = *spine;
        while let (Some(root), Some(_)) = (self.root, spine[self.height]) {
            self.add_branch(&mut spine, self.height, root)?;
            self.root = spine[self.height];
            self.height += 1;
        }
        Ok(())
    }
}
