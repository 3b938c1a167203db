//! Files about the machine as a whole.

use crate::arch;
use crate::cmdline;
use crate::errno::Result;
use crate::fs::pseudo::Text;
use crate::fs::{clock, devices, types};
use crate::kstack;
use crate::machine::mm;
use crate::sched;
use crate::syscall::system::{RELEASE, VERSION};
use crate::task;
use crate::timers;
use mm::addr::PAGE_SIZE;
use mm::arch::{Cpu, Machine};

const SECOND: u64 = 1_000_000_000;
const TICK: u64 = super::stat::TICK;

type Show = fn(&mut Text) -> Result;

/// Their names and texts.
pub const FILES: [(&str, Show); 15] = [
    ("meminfo", meminfo),
    ("stat", stat),
    ("uptime", uptime),
    ("loadavg", loadavg),
    ("version", version),
    ("cpuinfo", cpuinfo),
    ("cmdline", |out| out.is(&cmdline::get().text)),
    ("filesystems", filesystems),
    ("devices", device_list),
    ("buddyinfo", buddyinfo),
    ("interrupts", interrupts),
    ("swaps", |out| {
        out.is("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority")
    }),
    ("partitions", |out| out.is("major minor  #blocks  name\n")),
    ("modules", |_| Ok(())),
    ("diskstats", |_| Ok(())),
];

/// One line of meminfo.
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

fn meminfo(out: &mut Text) -> Result {
    let c = mm().counts();
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
    kb(out, "SwapCached", 0);
    // All pages of objects are memory only: they count as anonymous for the lists, as tmpfs does in Linux.
    for (name, pages) in [
        ("Active", c.anon),
        ("Inactive", c.object),
        ("Active(anon)", c.anon),
        ("Inactive(anon)", c.object),
        ("Active(file)", 0),
        ("Inactive(file)", 0),
        ("Unevictable", 0),
        ("Mlocked", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
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
        ("CommitLimit", c.total / 2),
        ("Committed_AS", committed()),
        ("VmallocTotal", (64 << 30) / PAGE_SIZE),
        ("VmallocUsed", stacks),
        ("VmallocChunk", 0),
        ("Percpu", 0),
        ("HardwareCorrupted", 0),
        ("AnonHugePages", 0),
        ("ShmemHugePages", 0),
        ("ShmemPmdMapped", 0),
        ("FileHugePages", 0),
        ("FilePmdMapped", 0),
    ] {
        kb(out, name, pages);
    }
    for name in [
        "HugePages_Total",
        "HugePages_Free",
        "HugePages_Rsvd",
        "HugePages_Surp",
    ] {
        out.put(format_args!("{:<16}{:>8}\n", alloc::format!("{name}:"), 0));
    }
    kb(out, "Hugepagesize", 512);
    kb(out, "Hugetlb", 0);
    Ok(())
}

/// Pages that processes may write to privately.
fn committed() -> u64 {
    let mut pages = 0;
    task::for_each_space(|space| {
        let usage = space.usage();
        pages += usage.data + usage.stack;
    });
    pages
}

/// User and system time of all processes, those that ended included, in ns.
fn cpu_times() -> (u64, u64) {
    let mut user = 0;
    for process in task::processes() {
        let times = process.times();
        user += times.user + times.children_user;
    }
    // What was neither idle nor in user mode was in the kernel.
    (user, timers::now().saturating_sub(user + sched::idle_ns()))
}

fn stat(out: &mut Text) -> Result {
    let (user, system) = cpu_times();
    let (user, system, idle) = (user / TICK, system / TICK, sched::idle_ns() / TICK);
    out.put(format_args!("cpu  {user} 0 {system} {idle} 0 0 0 0 0 0\n"));
    out.put(format_args!("cpu0 {user} 0 {system} {idle} 0 0 0 0 0 0\n"));
    let counts = task::counts();
    out.put(format_args!(
        "intr 0\nctxt {}\nbtime {}\n",
        sched::switches(),
        clock::boot_seconds()
    ));
    out.put(format_args!(
        "processes {}\nprocs_running {}\nprocs_blocked 0\n",
        counts.forks, counts.running
    ));
    out.put(format_args!("softirq 0 0 0 0 0 0 0 0 0 0 0\n"));
    Ok(())
}

fn hundredths(ns: u64) -> (u64, u64) {
    (ns / SECOND, ns % SECOND / TICK)
}

fn uptime(out: &mut Text) -> Result {
    let ((up, up_cs), (idle, idle_cs)) = (hundredths(timers::now()), hundredths(sched::idle_ns()));
    out.put(format_args!("{up}.{up_cs:02} {idle}.{idle_cs:02}\n"));
    Ok(())
}

fn loadavg(out: &mut Text) -> Result {
    let counts = task::counts();
    out.put(format_args!(
        "0.00 0.00 0.00 {}/{} {}\n",
        counts.running, counts.total, counts.last_pid
    ));
    Ok(())
}

fn version(out: &mut Text) -> Result {
    out.put(format_args!(
        "Linux version {RELEASE} (quire@quire) (rustc) {VERSION}\n"
    ));
    Ok(())
}

fn cpuinfo(out: &mut Text) -> Result {
    let _ = arch::cpu::describe(out);
    Ok(())
}

fn filesystems(out: &mut Text) -> Result {
    for name in types::NAMES {
        out.put(format_args!("nodev\t{name}\n"));
    }
    Ok(())
}

fn device_list(out: &mut Text) -> Result {
    out.put(format_args!("Character devices:\n"));
    for (major, name) in devices::MAJORS {
        out.put(format_args!("{major:3} {name}\n"));
    }
    out.put(format_args!("\nBlock devices:\n"));
    Ok(())
}

fn buddyinfo(out: &mut Text) -> Result {
    out.put(format_args!("Node 0, zone {:>8} ", "Normal"));
    for blocks in mm().free_blocks() {
        out.put(format_args!("{blocks:>6} "));
    }
    out.line("");
    Ok(())
}

fn interrupts(out: &mut Text) -> Result {
    out.put(format_args!("{:>12}", ""));
    for cpu in 0..arch::tlb::Hardware.cpu().count() {
        out.put(format_args!("CPU{cpu:<8}"));
    }
    out.line("");
    Ok(())
}
