//! /sys, sysfs(5): the files that programs look for, and the memory manager's own part.

mod quire;
mod thp;

use crate::arch;
use crate::fs::devices::TERMINAL_NAME;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::thp::survey;
use mm::arch::{Cpu, Machine};

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
    cpus(&tree);
    thp::register(&tree);
    tree.store("kernel/debug/split_huge_pages", survey::split);
    quire::register(&tree);
    tree
}

/// devices/system: which CPUs and memory nodes there are.
fn cpus(tree: &Tree) {
    let last = arch::tlb::Hardware.cpu().count() - 1;
    for name in ["online", "possible", "present"] {
        tree.show(&alloc::format!("devices/system/cpu/{name}"), move |out| {
            match last {
                0 => out.line(0),
                last => out.line(format_args!("0-{last}")),
            }
            Ok(())
        });
    }
    tree.show("devices/system/cpu/offline", |out| out.is(""));
    tree.show("devices/system/cpu/kernel_max", move |out| out.is(last));
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
