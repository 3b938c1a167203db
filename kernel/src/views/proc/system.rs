//! /proc files about the machine as a whole.

use crate::arch;
use crate::base::cmdline;
use crate::base::errno::Result;
use crate::base::machine::mm;
use crate::fs::devices::{self, zram};
use crate::fs::kinds::pseudo::Text;
use crate::fs::tree::inode::Device;
use crate::fs::tree::{clock, types};
use crate::pressure::stall;
use crate::process::task;
use crate::sched::timers;
use crate::sched::{self, Spent};
use crate::syscall::system::{RELEASE, VERSION};
use arch_boot::cpus::NR_CPUS;
use core::{array, fmt};
use mm::addr::PAGE_SHIFT;
use mm::arch::{Cpu, Machine};

const SECOND: u64 = 1_000_000_000;
const TICK: u64 = super::stat::TICK;

type Show = fn(&mut Text) -> Result;

/// Their names and texts.
pub const FILES: [(&str, Show); 13] = [
    ("stat", stat),
    ("uptime", uptime),
    ("loadavg", loadavg),
    ("version", version),
    ("cpuinfo", cpuinfo),
    ("cmdline", |out| out.is(&cmdline::get().text)),
    ("filesystems", filesystems),
    ("devices", device_list),
    ("interrupts", interrupts),
    ("swaps", swaps),
    ("partitions", partitions),
    ("modules", |_| Ok(())),
    ("diskstats", |_| Ok(())),
];

/// Time in which threads waited for memory, in Linux's words (accounting/psi.rst).
pub fn memory_pressure(out: &mut Text) -> Result {
    for (name, line) in ["some", "full"].into_iter().zip(stall::lines()) {
        let [ten, sixty, most] = line.averages().map(|n| (n / 100, n % 100));
        out.put(format_args!(
            "{name} avg10={}.{:02} avg60={}.{:02} avg300={}.{:02} total={}\n",
            ten.0,
            ten.1,
            sixty.0,
            sixty.1,
            most.0,
            most.1,
            line.total(),
        ));
    }
    Ok(())
}

/// The one area there is, if any: as Linux shows a device of zram.
fn swaps(out: &mut Text) -> Result {
    out.line(format_args!(
        "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority"
    ));
    if let Some(area) = zram::area() {
        let kb = |slots: u64| slots << (PAGE_SHIFT - 10);
        out.line(format_args!(
            "/dev/zram0                              partition\t{}\t\t{}\t\t{}",
            kb(area.pages),
            kb(mm().slots().used()),
            area.priority,
        ));
    }
    Ok(())
}

fn partitions(out: &mut Text) -> Result {
    out.line("major minor  #blocks  name\n");
    if zram::size() != 0 {
        let Device(major, minor) = zram::NUMBER;
        let blocks = zram::size() >> 10;
        out.line(format_args!("{major:4}  {minor:7} {blocks:10} zram0"));
    }
    Ok(())
}

/// A line of /proc/stat: user, system and idle time, in ns.
fn cpu_line(out: &mut Text, name: fmt::Arguments<'_>, times: [u64; 3]) {
    let [user, system, idle] = times.map(|ns| ns / TICK);
    out.put(format_args!(
        "{name} {user} 0 {system} {idle} 0 0 0 0 0 0\n"
    ));
}

fn stat(out: &mut Text) -> Result {
    // What was neither idle nor in user mode was in the kernel.
    let up = timers::now();
    let of = |cpu: Spent| [cpu.user, up.saturating_sub(cpu.user + cpu.idle), cpu.idle];
    let sum = |a: [u64; 3], b: [u64; 3]| array::from_fn(|n| a[n] + b[n]);
    // Read once, so that the lines add up.
    let mut spent = [Spent::default(); NR_CPUS];
    let count = spent
        .iter_mut()
        .zip(sched::spent())
        .map(|(to, cpu)| *to = cpu)
        .count();
    let spent = &spent[..count];
    let all = spent.iter().copied().map(of).fold([0; 3], sum);
    cpu_line(out, format_args!("cpu "), all);
    for cpu in spent {
        cpu_line(out, format_args!("cpu{}", cpu.cpu), of(*cpu));
    }
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
    for cpu in sched::spent() {
        let _ = arch::cpu::describe(out, cpu.cpu);
    }
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
    if zram::exists() {
        out.line(format_args!("{:3} zram", zram::NUMBER.0));
    }
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
