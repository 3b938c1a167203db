//! Checks of the shape of the tree of VMAs.

use super::store::{INNER, LEAF, VmaStore};
use crate::arch::Machine;

impl<M: Machine> VmaStore<M> {
    /// Checks that every branch agrees with its subtree, that no node is empty, too full or lost.
    /// Panics with what is wrong.
    pub fn validate(&self) {
        let (mut leaves, mut inners) = (0, 0);
        if let Some(root) = self.root {
            self.validate_node(root, self.height, &mut leaves, &mut inners);
        }
        let in_use = (self.leaves.in_use(), self.inners.in_use());
        assert!(
            (leaves, inners) == in_use,
            "{leaves} leaves and {inners} inner nodes of {in_use:?} were found"
        );
    }
    fn validate_node(&self, node: u32, level: usize, leaves: &mut usize, inners: &mut usize) {
        if level == 0 {
            *leaves += 1;
            let len = self.leaves.get(node).len();
            assert!(
                len <= LEAF && (len > 0 || self.height == 0),
                "a leaf of {len} VMAs"
            );
            return;
        }
        *inners += 1;
        let branches = self.inners.get(node);
        let least = if level == self.height { 2 } else { 1 };
        assert!(
            (least..=INNER).contains(&branches.len()),
            "an inner node of {} branches",
            branches.len()
        );
        for branch in branches {
            self.validate_node(branch.node, level - 1, leaves, inners);
            let found = self.summary(branch.node, level - 1);
            assert!(*branch == found, "{branch:?} is {found:?}");
        }
    }
}
