//! /sys, sysfs(5): the files that programs look for, and the memory manager's own part.

mod hugetlb;
mod quire;
mod system;
mod thp;
mod zram;

use crate::fs::devices::TERMINAL_NAME;
use crate::fs::kinds::pseudo_tree::Tree;

/// All of /sys.
pub fn tree() -> Tree {
    let tree = Tree::new(None);
    for path in [
        "block",
        "bus",
        "class",
        "dev",
        "firmware",
        "fs",
        "module",
        "power",
        "kernel/debug",
    ] {
        tree.dir(path);
    }
    // Which terminal the console is: cttyhack(1) and init systems ask.
    tree.show("class/tty/console/active", |out| out.is(TERMINAL_NAME));
    system::register(&tree);
    thp::register(&tree);
    hugetlb::register(&tree);
    quire::register(&tree);
    zram::register(&tree);
    tree
}
