//! /sys, sysfs(5): the files that programs look for, and the memory manager's own part.

mod quire;
mod thp;

use crate::base::cpus;
use crate::fs::devices::TERMINAL_NAME;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::thp::survey;
use arch_boot::cpus::NR_CPUS;

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
    cpu_lists(&tree);
    thp::register(&tree);
    tree.store("kernel/debug/split_huge_pages", survey::split);
    quire::register(&tree);
    tree
}

/// devices/system: which CPUs and memory nodes there are. Programs run on CPU 0: the parked ones
/// are offline.
fn cpu_lists(tree: &Tree) {
    let last = cpus::present() - 1;
    for (name, first, last) in [
        ("online", 0, 0),
        ("possible", 0, last),
        ("present", 0, last),
        ("offline", 1, last),
    ] {
        tree.show(
            &alloc::format!("devices/system/cpu/{name}"),
            move |out| match last.checked_sub(first) {
                None => out.is(""),
                Some(0) => out.is(first),
                Some(_) => out.is(format_args!("{first}-{last}")),
            },
        );
    }
    tree.show("devices/system/cpu/kernel_max", |out| out.is(NR_CPUS - 1));
    for cpu in 0..=last {
        tree.dir(&alloc::format!("devices/system/cpu/cpu{cpu}"));
    }
    for name in [
        "online",
        "possible",
        "has_cpu",
        "has_memory",
        "has_normal_memory",
    ] {
        tree.show(&alloc::format!("devices/system/node/{name}"), |out| {
            out.is(0)
        });
    }
}
