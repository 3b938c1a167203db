//! /proc/meminfo, proc(5).

use super::locked::{Mlocked, NotMlocked};
use crate::base::errno::Result;
use crate::base::kstack;
use crate::base::machine::mm;
use crate::fs::kinds::pseudo::Text;
use crate::process::task;
use crate::thp::survey;
use alloc::format;
use mm::addr::{Order, PAGE_SIZE};
use mm::arch::Level;
use mm::hugetlb;

/// What a PMD entry maps.
const PMD: Order = Level::Pmd.order();

/// One line of meminfo.
#[inline(never)]
fn kb(out: &mut Text, name: &str, pages: u64) {
    let (blanks, value) = (
        15usize.saturating_sub(name.len()),
        pages * (PAGE_SIZE >> 10),
    );
    out.put(format_args!(
        "{name}:{:blanks$}{value:>8} kB
",
        ""
    ));
}

/// The file.
pub fn show(out: &mut Text) -> Result {
    let locked = Mlocked::now()?;
    let c = mm().counts();
    let (shmem, shmem_mapped) = mm().thp().shmem();
    let NotMlocked { anon, object } = locked.others(&c);
    let stacks = task::counts().total as u64 * (kstack::SIZE / PAGE_SIZE);
    let slab = c.kernel.saturating_sub(stacks);
    for (name, pages) in [
        ("MemTotal", c.total),
        ("MemFree", c.free),
        ("MemAvailable", c.free),
        ("Buffers", 0),
    ] {
        kb(out, name, pages);
    }
    kb(out, "Cached", c.object);
    let slots = mm().slots();
    let stored = mm().stored().original / PAGE_SIZE;
    kb(out, "SwapCached", slots.used().saturating_sub(stored));
    // All pages of objects are memory only: they count as anonymous for the lists, as tmpfs does in
    // Linux.
    for (name, pages) in [
        ("Active", anon),
        ("Inactive", object),
        ("Active(anon)", anon),
        ("Inactive(anon)", object),
        ("Active(file)", 0),
        ("Inactive(file)", 0),
        ("Unevictable", locked.total()),
        ("Mlocked", locked.total()),
        ("SwapTotal", slots.total()),
        ("SwapFree", slots.free()),
        ("Dirty", 0),
        ("Writeback", 0),
        ("AnonPages", c.anon),
        ("Mapped", 0),
        ("Shmem", c.object),
        ("KReclaimable", 0),
        ("Slab", slab),
        ("SReclaimable", 0),
        ("SUnreclaim", slab),
        ("KernelStack", stacks),
        ("PageTables", c.page_tables),
        ("SecPageTables", 0),
        ("NFS_Unstable", 0),
        ("Bounce", 0),
        ("WritebackTmp", 0),
        ("CommitLimit", mm().commit_limit()),
        ("Committed_AS", mm().committed()),
        ("VmallocTotal", (64 << 30) / PAGE_SIZE),
        ("VmallocUsed", stacks),
        ("VmallocChunk", 0),
        ("Percpu", 0),
        ("HardwareCorrupted", mm().hwpoisoned()),
        ("AnonHugePages", mm().thp().pmd_mappings() << PMD.0),
        ("ShmemHugePages", shmem << PMD.0),
        ("ShmemPmdMapped", shmem_mapped << PMD.0),
        ("FileHugePages", 0),
        ("FilePmdMapped", 0),
    ] {
        kb(out, name, pages);
    }
    let huge = mm().hugetlb(hugetlb::DEFAULT);
    for (name, pages) in [
        ("HugePages_Total", huge.total),
        ("HugePages_Free", huge.free),
        ("HugePages_Rsvd", huge.reserved),
        ("HugePages_Surp", huge.surplus),
    ] {
        out.put(format_args!("{:<16}{pages:>8}\n", format!("{name}:")));
    }
    kb(out, "Hugepagesize", hugetlb::DEFAULT.pages());
    kb(out, "Hugetlb", c.hugetlb);
    for order in survey::private_orders() {
        let name = format!("AnonFolios-{}kB", order.bytes() >> 10);
        kb(out, &name, survey::private(order) << order.0);
    }
    Ok(())
}

/// The file of the one memory node, /sys/devices/system/node/node0/meminfo.
pub fn show_node(out: &mut Text) -> Result {
    let (c, huge) = (mm().counts(), mm().hugetlb(hugetlb::DEFAULT));
    let stacks = task::counts().total as u64 * (kstack::SIZE / PAGE_SIZE);
    for (name, pages) in [
        ("MemTotal", c.total),
        ("MemFree", c.free),
        ("MemUsed", c.total - c.free),
        ("Active", c.anon),
        ("Inactive", c.object),
        ("FilePages", c.object),
        ("AnonPages", c.anon),
        ("Shmem", c.object),
        ("KernelStack", stacks),
        ("PageTables", c.page_tables),
        ("AnonHugePages", mm().thp().pmd_mappings() << PMD.0),
    ] {
        out.put(format_args!("Node 0 "));
        kb(out, name, pages);
    }
    for (name, pages) in [
        ("HugePages_Total", huge.total),
        ("HugePages_Free", huge.free),
        ("HugePages_Surp", huge.surplus),
    ] {
        out.put(format_args!("Node 0 {name}: {pages:>5}\n"));
    }
    Ok(())
}
