//! /sys/devices/system: which CPUs and memory nodes there are.

use crate::base::cpus;
use crate::base::errno::Result;
use crate::base::machine::mm;
use crate::fs::kinds::pseudo::Text;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::fs::tree::inode::LinkTarget;
use crate::sched;
use crate::views::proc::meminfo;
use alloc::format;
use arch_boot::cpus::NR_CPUS;
use core::fmt;

/// A file: its path in a folder, and its text, of the CPU whose folder it is.
type File = (&'static str, fn(usize, &mut Text) -> Result);

/// What devices/system has. A CPU that has not come up is offline.
const ALL: [File; 10] = [
    ("cpu/possible", |_, out| out.is(CpuList(all()))),
    ("cpu/present", |_, out| out.is(CpuList(all()))),
    ("cpu/online", online_list),
    ("cpu/offline", |_, out| {
        out.is(CpuList(all() & !sched::online_mask()))
    }),
    ("cpu/kernel_max", |_, out| out.is(NR_CPUS - 1)),
    ("node/online", zero),
    ("node/possible", zero),
    ("node/has_cpu", zero),
    ("node/has_memory", zero),
    ("node/has_normal_memory", zero),
];

/// Each CPU is a core of its own, of one package.
const TOPOLOGY: [File; 10] = [
    ("core_id", |cpu, out| out.is(cpu)),
    ("physical_package_id", zero),
    ("thread_siblings", itself),
    ("thread_siblings_list", itself_in_list),
    ("core_cpus", itself),
    ("core_cpus_list", itself_in_list),
    ("core_siblings", online),
    ("core_siblings_list", online_list),
    ("package_cpus", online),
    ("package_cpus_list", online_list),
];

/// The one memory node, as lscpu(1), numactl(8) and hwloc read it.
const NODE: [File; 5] = [
    ("cpulist", online_list),
    ("cpumap", online),
    // To itself.
    ("distance", |_, out| out.is(10)),
    ("meminfo", |_, out| meminfo::show_node(out)),
    ("numastat", |_, out| numastat(out)),
];

/// Enters all of it.
pub fn register(tree: &Tree) {
    enter(tree, "devices/system", &ALL, 0);
    enter(tree, "devices/system/node/node0", &NODE, 0);
    for cpu in 0..cpus::present() {
        let folder = format!("devices/system/cpu/cpu{cpu}/topology");
        enter(tree, &folder, &TOPOLOGY, cpu);
        let target = format!("../../cpu/cpu{cpu}").into_bytes();
        let link = format!("devices/system/node/node0/cpu{cpu}");
        tree.link(&link, move || Ok(LinkTarget::Path(target.clone())));
    }
}

// Called at several places, and would be there as often.
#[inline(never)]
fn enter(tree: &Tree, folder: &str, files: &'static [File], cpu: usize) {
    for (name, text) in files {
        tree.show(&format!("{folder}/{name}"), move |out| text(cpu, out));
    }
}

fn all() -> u64 {
    u64::MAX >> (NR_CPUS - cpus::present())
}

fn zero(_: usize, out: &mut Text) -> Result {
    out.is(0)
}

fn itself(cpu: usize, out: &mut Text) -> Result {
    out.is(CpuMap(1 << cpu))
}

fn itself_in_list(cpu: usize, out: &mut Text) -> Result {
    out.is(CpuList(1 << cpu))
}

fn online(_: usize, out: &mut Text) -> Result {
    out.is(CpuMap(sched::online_mask()))
}

fn online_list(_: usize, out: &mut Text) -> Result {
    out.is(CpuList(sched::online_mask()))
}

fn numastat(out: &mut Text) -> Result {
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
