//! /sys/devices/system: which CPUs and memory nodes there are.

use crate::base::cpus;
use crate::base::machine::mm;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::fs::tree::inode::LinkTarget;
use crate::sched;
use crate::views::proc::meminfo;
use arch_boot::cpus::NR_CPUS;
use core::fmt;

/// Enters all of it. A CPU that has not come up is offline.
pub fn register(tree: &Tree) {
    let all = u64::MAX >> (NR_CPUS - cpus::present());
    let cpu = |name: &str| alloc::format!("devices/system/cpu/{name}");
    tree.show(&cpu("possible"), move |out| out.is(CpuList(all)));
    tree.show(&cpu("present"), move |out| out.is(CpuList(all)));
    tree.show(&cpu("online"), |out| out.is(CpuList(sched::online_mask())));
    let offline = move || CpuList(all & !sched::online_mask());
    tree.show(&cpu("offline"), move |out| out.is(offline()));
    tree.show("devices/system/cpu/kernel_max", |out| out.is(NR_CPUS - 1));
    for cpu in 0..cpus::present() {
        topology(tree, cpu);
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
    node(tree);
}

/// Each CPU is a core of its own, of one package.
fn topology(tree: &Tree, cpu: usize) {
    let file = |name: &str| alloc::format!("devices/system/cpu/cpu{cpu}/topology/{name}");
    tree.show(&file("core_id"), move |out| out.is(cpu));
    tree.show(&file("physical_package_id"), |out| out.is(0));
    for name in ["thread_siblings", "core_cpus"] {
        tree.show(&file(name), move |out| out.is(CpuMap(1 << cpu)));
        let list = alloc::format!("{name}_list");
        tree.show(&file(&list), move |out| out.is(CpuList(1 << cpu)));
    }
    for name in ["core_siblings", "package_cpus"] {
        tree.show(&file(name), |out| out.is(CpuMap(sched::online_mask())));
        let list = alloc::format!("{name}_list");
        tree.show(&file(&list), |out| out.is(CpuList(sched::online_mask())));
    }
}

/// The one memory node, as lscpu(1), numactl(8) and hwloc read it.
fn node(tree: &Tree) {
    let file = |name: &str| alloc::format!("devices/system/node/node0/{name}");
    tree.show(&file("cpulist"), |out| {
        out.is(CpuList(sched::online_mask()))
    });
    tree.show(&file("cpumap"), |out| out.is(CpuMap(sched::online_mask())));
    // To itself.
    tree.show(&file("distance"), |out| out.is(10));
    tree.show(&file("meminfo"), meminfo::show_node);
    tree.show(&file("numastat"), |out| {
        let pages = mm().counts().total - mm().counts().free;
        for (name, value) in [
            ("numa_hit", pages),
            ("numa_miss", 0),
            ("numa_foreign", 0),
            ("interleave_hit", 0),
            ("local_node", pages),
            ("other_node", 0),
        ] {
            out.put(format_args!("{name} {value}\n"));
        }
        Ok(())
    });
    for cpu in 0..cpus::present() {
        let target = alloc::format!("../../cpu/cpu{cpu}");
        let link = move || Ok(LinkTarget::Path(target.clone().into_bytes()));
        tree.link(&file(&alloc::format!("cpu{cpu}")), link);
    }
}

/// CPUs, a bit each, as a hexadecimal number with a comma after each 32 bits.
struct CpuMap(u64);

impl fmt::Display for CpuMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match cpus::present() {
            n @ ..=32 => write!(f, "{:0digits$x}", self.0, digits = n.div_ceil(4)),
            n => {
                let digits = (n - 32).div_ceil(4);
                write!(f, "{:0digits$x},{:08x}", self.0 >> 32, self.0 as u32)
            }
        }
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
