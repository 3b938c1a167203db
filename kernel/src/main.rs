//! Quire's kernel: everything around the memory manager, as thin as it can be while real programs
//! run.
//!
//! Start-up order: [`start`] below. The floors, and the way of a page fault: ARCHITECTURE.md.

#![no_std]
#![no_main]

extern crate alloc;

#[cfg(target_arch = "aarch64")]
use arch_aarch64::machine as arch;
#[cfg(target_arch = "x86_64")]
use arch_x86_64::machine as arch;

mod base;
mod entry;
mod exec;
mod fs;
mod pressure;
mod process;
mod sched;
mod syscall;
mod tests;
mod thp;
mod views;

use arch::boot::BootInfo;
use base::{cmdline, console, cpus, heap, klog, machine};
use core::fmt::Write;
use entry::{boot, bring_up, panic, payload};
use mm::addr::PhysRange;

/// From the boot protocol to the kernel's own tables; the architecture's `_start` comes here on the
/// boot stack.
fn start(info: BootInfo) -> ! {
    console::init(&info);
    klog::init();
    if let Some(missing) = info.missing {
        give_up(format_args!("{missing}"));
    }
    arch_boot::online::list(info.cpus.len());
    boot::take_over(&info);
    if !heap::reserve::refill() {
        give_up(format_args!("no memory to set aside for the kernel's heap"));
    }
    // Not before there is memory: 4 KiB of short words take more than the heap has at first.
    klog::set_console_level(cmdline::init(info.cmdline).loglevel);
    let emergency = [boot::emergency_stack(), boot::emergency_stack()];
    arch::boot::init_cpu(&info, emergency);
    // The boot stack has no guard page.
    boot::on_guarded_stack(info, run)
}

/// The rest of the way to the first program.
fn run(info: &BootInfo) -> ! {
    let cmdline = cmdline::get();
    payload::init(info, boot::payload_start(info), boot::physical_bytes);
    greet(info);
    for word in &cmdline.unknown {
        log::warn!("unknown command-line word \"{word}\" ignored (passed to init)");
    }
    thp::from_command_line(&cmdline.memory);
    if let Some(how) = &cmdline.crash {
        tests::crash(how);
    }
    if let Some(range) = info.initramfs.filter(|range| !info.has(*range)) {
        let (start, end) = (range.start.0, range.end.0);
        give_up(format_args!(
            "cannot unpack the initramfs: the loader says that it is at {start:#x} to {end:#x}, where there is no RAM"
        ));
    }
    let loaded = info
        .initramfs
        .map_or(&[][..], |range: PhysRange| boot::physical_bytes(range));
    // An initramfs from the loader replaces the built-in one.
    let archive = if loaded.is_empty() {
        payload::get().initramfs
    } else {
        loaded
    };
    if let Err(error) = fs::boot::init(&[archive]) {
        give_up(format_args!("cannot unpack the initramfs: {error}"));
    }
    let tests = cmdline.tests.iter();
    if let Some(plan) = ktest::Plan::of(tests.map(|setting| (&*setting.name, &*setting.value))) {
        tests::run(&plan);
    }
    if let Err(error) = exec::spawn_init(cmdline) {
        give_up(format_args!("cannot start {}: {error}", cmdline.init));
    }
    thp::khugepaged::start();
    pressure::worker::start();
    // Under QEMU's -icount these are guest instructions; a test reads them.
    log::info!("{} starts after {} ns", cmdline.init, arch::timer::now());
    bring_up::run_threads();
    sched::start()
}

/// The boot lines that every user sees; the other CPUs are started for theirs.
fn greet(info: &BootInfo) {
    let counts = machine::mm().counts();
    let mut features = alloc::string::String::new();
    // Writing to a String cannot fail.
    let _ = arch::cpu::features(&mut features);
    log::info!(
        "Quire {} on {} by {}",
        env!("CARGO_PKG_VERSION"),
        arch::cpu::NAME,
        info.protocol
    );
    log::info!("CPU features in use: {features}");
    bring_up::all(info, cmdline::get().max_cpus);
    log::info!(
        "memory: {} MiB, {} MiB free",
        counts.total >> 8,
        counts.free >> 8
    );
    match info.ram.left_out() >> 10 {
        0 => {}
        left_out => {
            log::warn!("{left_out} KiB of memory left out: out of reach, or in too many pieces");
        }
    }
    log::info!("command line: {}", info.cmdline);
}

/// There is nothing to run: says why and ends the machine as a panic does, without a backtrace that
/// would say nothing.
fn give_up(why: core::fmt::Arguments<'_>) -> ! {
    let _ = writeln!(klog::Console, "quire: {why}");
    cpus::stop_others();
    arch::cpu::stop(panic::STATUS)
}
