//! /sys/kernel/debug, debugfs: root's, for tests and for looking inside.

mod gup_test;

use crate::fs::kinds::pseudo_tree::Tree;
use crate::fs::tree::inode::Inode;
use crate::thp::survey;

/// All of it.
pub fn tree() -> Tree {
    let tree = Tree::new(None);
    tree.dir("").node().change(|a| a.mode = 0o700);
    tree.store("split_huge_pages", survey::split);
    tree.enter("gup_test", gup_test::file(tree.device()));
    tree
}
