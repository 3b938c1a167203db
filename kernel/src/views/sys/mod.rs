//! /sys, sysfs(5): the files that programs look for, and the memory manager's own part.

mod hugetlb;
mod quire;
mod thp;

use crate::base::cpus;
use crate::fs::devices::TERMINAL_NAME;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::sched;
use crate::thp::survey;
use arch_boot::cpus::NR_CPUS;
use core::fmt;

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
    hugetlb::register(&tree);
    tree.store("kernel/debug/split_huge_pages", survey::split);
    quire::register(&tree);
    tree
}

/// devices/system: which CPUs and memory nodes there are. A CPU that has not come up is offline.
fn cpu_lists(tree: &Tree) {
    let all = u64::MAX >> (NR_CPUS - cpus::present());
    let cpu = |name: &str| alloc::format!("devices/system/cpu/{name}");
    tree.show(&cpu("possible"), move |out| out.is(CpuList(all)));
    tree.show(&cpu("present"), move |out| out.is(CpuList(all)));
    tree.show(&cpu("online"), |out| out.is(CpuList(sched::online_mask())));
    let offline = move || CpuList(all & !sched::online_mask());
    tree.show(&cpu("offline"), move |out| out.is(offline()));
    tree.show("devices/system/cpu/kernel_max", |out| out.is(NR_CPUS - 1));
    for cpu in 0..cpus::present() {
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

/// CPUs, a bit each, in the form "0-3,7".
struct CpuList(u64);

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0;
        let mut comma = "";
        while left != 0 {
            let first = left.trailing_zeros();
            let count = (left >> first).trailing_ones();
            let last = first + count - 1;
            left &= u64::MAX.checked_shl(first + count).unwrap_or(0);
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}
