//! The other CPUs are started, one after the other, and wait until there are threads.

use crate::arch;
use crate::arch::boot::BootInfo;
use crate::arch::cpus::SETTLE;
use crate::arch::trap::Irq;
use crate::arch::{cpu, timer};
use crate::base::above::Above;
use crate::base::cmdline;
use crate::base::cpus::{self, State};
use crate::base::kstack::KernelStack;
use crate::base::requests::{self, Requests};
use crate::sched::{self, Entry, kernel_lock};
use alloc::vec::Vec;
use arch_boot::cpus::{Cpu, Roster, Stacks, Start, Unfit, pretend_least};
use core::mem::forget;
use mm::addr::{PhysAddr, PhysRange};

/// A CPU is waited for in steps of so many ns, and is asked a second time after the first: a
/// machine that is stopped meanwhile loses one step.
const STEP: u64 = 20_000_000;
/// The steps in which it may come up: a second.
const STEPS: u32 = 50;

/// Starts the CPUs that the firmware listed, `most` in all with this one; reports those that are
/// left out, and how many there are.
pub fn all(info: &BootInfo, most: u32) {
    let roster = Roster::new(&info.cpus, arch::cpus::own_id(), most as usize);
    cpus::set_present(roster.numbered.len());
    let others = &roster.numbered[1..roster.wanted];
    if !others.is_empty() {
        locks::set_cpu(arch::cpus::current, requests::wait_for_lock);
        match arch::cpus::prepare(others) {
            Ok(()) => {
                start_each(info, others);
                level();
            }
            Err(why) => log::warn!("the other CPUs stay off: {why}"),
        }
    }
    if roster.beyond > 0 {
        let more = if info.cpus.is_full() { " or more" } else { "" };
        log::warn!("{}{more} CPUs are left out: too many", roster.beyond);
    }
    match (roster.numbered.len(), cpus::others().count() + 1) {
        (1, _) => log::info!("CPUs: 1"),
        (count, up) => log::info!("CPUs: {count}, of which {up} run"),
    }
}

fn start_each(info: &BootInfo, others: &[Cpu]) {
    pretend_least(cmdline::get().least_cpu);
    if let Some(time) = SETTLE {
        wait(timer::now() + time, &|| false);
    }
    for (number, cpu) in (1..).zip(others) {
        if let Err(why) = start(info, cpu, number) {
            log::warn!("CPU {number} (ID {:#x}) is left out: {why}", cpu.id);
        }
    }
}

/// What the kernel uses, and shows to programs, is what all CPUs have: each is set up by that.
fn level() {
    if cpus::others().next().is_none() {
        return;
    }
    if requests::rendezvous(arch::cpus::level) {
        let (hwcap, hwcap2) = cpu::hwcap();
        log::info!("CPUs: not alike; AT_HWCAP of what all have: {hwcap:#x}, {hwcap2:#x}");
    }
    cpus::this().set_up();
    requests::ask_others(Requests::SET_UP);
    // Each has done that when it has passed.
    requests::barrier();
}

/// Starts one CPU and waits until it is up.
fn start(info: &BootInfo, cpu: &Cpu, number: usize) -> Result<(), &'static str> {
    if let Start::Spin(at) = cpu.start
        && !info.has(PhysRange::new(at, PhysAddr(at.0.saturating_add(8))))
    {
        return Err("its spin table is not in RAM");
    }
    let mut stacks = Vec::new();
    for _ in 0..3 {
        let Ok(stack) = KernelStack::new() else {
            return Err("there is no memory for its stacks");
        };
        stacks.push(stack);
    }
    let tops = Stacks {
        own: stacks[0].top(),
        emergency: [stacks[1].top(), stacks[2].top()],
    };
    let started = arch::cpus::start(cpu, number, &tops);
    if started.is_ok() && came(number) {
        // It is on them, now or soon.
        forget(stacks);
    }
    started?;
    match cpus::of(number).state() {
        State::Up => Ok(()),
        State::Off => Err("it has not come up within a second"),
        State::Lacking => Err("it lacks a feature that the other CPUs use already"),
        State::Unreachable => Err("the interrupt controller has no part for it"),
    }
}

/// Waits for the CPU that was started. False: it was given up.
fn came(number: usize) -> bool {
    let there = || cpus::of(number).state() != State::Off;
    let step = || wait(timer::now() + STEP, &there);
    if step() {
        return true;
    }
    arch::cpus::start_again(number);
    (1..STEPS).any(|_| step()) || !arch::cpus::give_up()
}

/// Sleeps until `until` (ns since boot), or until another CPU has made `done` true. Returns whether
/// it is.
#[inline(never)]
fn wait(until: u64, done: &dyn Fn() -> bool) -> bool {
    timer::set_deadline(Some(until));
    while !done() {
        match cpu::wait_for_interrupt() {
            Irq::Timer => break,
            irq => Above::interrupt(irq),
        }
    }
    timer::set_deadline(None);
    done()
}

/// Where another CPU goes when it is ready: it says so and waits for requests.
pub fn secondary(number: usize, fit: Result<(), Unfit>) -> ! {
    cpus::of(number).arrive(fit);
    if fit.is_err() {
        arch::cpus::halt();
    }
    arch::cpus::interrupt(0);
    while !kernel_lock::is_shared() {
        match cpu::wait_for_interrupt() {
            Irq::Ipi => requests::serve(),
            Irq::Timer => cpus::this().rang(),
            _ => {}
        }
    }
    sched::start()
}

/// Lets the others run threads, as this CPU does from now on.
pub fn run_threads() {
    if cpus::others().next().is_some() {
        kernel_lock::share();
        sched::empty_space();
        cpus::others().for_each(sched::come_up);
        cpus::others().for_each(arch::cpus::interrupt);
    }
}
