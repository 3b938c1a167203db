//! The other CPUs: started by PSCI's CPU_ON (Arm DEN 0022, 5.6) or a spin table (Devicetree
//! Specification 3.8), reached by software-generated interrupts.

use super::percpu::{self, PerCpu};
use super::{boot, features, image, interrupts, launch, power, regs, timer, trap};
use alloc::boxed::Box;
use arch_boot::cpus::{Cpu, Stacks, Start, Unfit};
use arch_boot::secondary_main;
use mm::addr::PhysAddr;

pub use super::percpu::number as current;

/// How long CPUs take from [`prepare`] until they can be started, in ns: they are ready.
pub const SETTLE: Option<u64> = None;
/// Affinity fields of MPIDR_EL1.
const AFFINITY: u64 = 0xff_00ff_ffff;

/// The ID of the running CPU, as lists of CPUs have it.
pub fn own_id() -> u64 {
    regs::read!("mpidr_el1") & AFFINITY
}

/// Prepares the others for [`start`]. An error is why none can be started.
pub fn prepare(_others: &[Cpu]) -> Result<(), &'static str> {
    if interrupts::are_ready() {
        Ok(())
    } else {
        Err("there is no interrupt controller that can be driven")
    }
}

unsafe extern "C" {
    static __secondary_start: u8;
}

/// Starts a CPU, which calls `secondary_main` with its number. One at a time: the next one after it
/// has said that it is there or was given up. The address of its spin table, if it has one, is RAM
/// that is kept for it.
pub fn start(cpu: &Cpu, number: usize, stacks: &Stacks) -> Result<(), &'static str> {
    let block = Box::leak(Box::new(PerCpu::new(number as u64, stacks.emergency[0])));
    let entry = image::physical(&raw const __secondary_start);
    // SAFETY: no other CPU is being started, says the caller; stack and block are new.
    unsafe { launch::open(cpu.id, stacks.own, &raw mut *block as u64) };
    let started = release(cpu, entry);
    if started.is_err() {
        launch::close();
    }
    started
}

fn release(cpu: &Cpu, entry: PhysAddr) -> Result<(), &'static str> {
    match cpu.start {
        Start::Psci => power::cpu_on(cpu.id, entry.0),
        Start::Spin(at) => {
            // SAFETY: `early_main` has reserved the address; the caller says that it is RAM.
            unsafe { launch::release(at, entry) };
            Ok(())
        }
        Start::Sipi | Start::Unknown => Err("the device tree names no method that is known"),
    }
}

/// Asks a second time: a CPU that looks at its spin table wakes at the next event.
pub fn start_again(_number: usize) {
    // SAFETY: an event to all CPUs.
    unsafe { core::arch::asm!("sev", options(nomem, nostack, preserves_flags)) };
}

/// Gives up the CPU that was started last. False: it has come, and uses its stacks.
pub fn give_up() -> bool {
    launch::close()
}

/// Called by `head` on another CPU, on its own stack, with the kernel half on and the identity
/// mapping of the head in TTBR0.
pub(super) extern "C" fn secondary(block: *mut PerCpu) -> ! {
    percpu::load(block);
    trap::load_vectors();
    boot::leave_early_tables();
    let number = current();
    timer::init_local();
    let fit = if !features::arrive(number) {
        Err(Unfit::Lacking)
    } else if !interrupts::init_secondary(number) {
        Err(Unfit::Unreachable)
    } else {
        Ok(())
    };
    secondary_main(number, fit)
}

/// From now on what is shown of features is what all CPUs have; whether that is less than what the
/// boot CPU has. Called on the boot CPU while the others stand still, before there are threads.
pub fn level() -> bool {
    features::level(arch_boot::online::others(current()))
}

/// Sets up the running CPU by the features in use: nothing, each has done so by its own.
pub fn set_up() {}

/// The registers by which this CPU is like any other: what is on, how it walks, what memory is, who
/// may touch the FPU.
pub fn controls() -> [u64; 4] {
    let pan = if features::has_pan() {
        regs::read!("S3_0_C4_C2_3")
    } else {
        0
    };
    [
        regs::read!("sctlr_el1"),
        regs::read!("tcr_el1") ^ regs::read!("mair_el1").rotate_left(32),
        regs::read!("ttbr1_el1"),
        regs::read!("cpacr_el1") | pan,
    ]
}

/// Interrupts a CPU: `Irq::Ipi`.
pub fn interrupt(number: usize) {
    arch_boot::online::count_interrupt(current(), number);
    interrupts::send(number);
}

/// The same, so that it stops if all are to. Interrupts that are off stay so on this machine.
pub fn interrupt_to_stop(number: usize) {
    interrupts::send(number);
}

/// Lets others run where CPUs share one of the host.
#[inline]
pub fn relax() {
    // SAFETY: a hint.
    unsafe { core::arch::asm!("yield", options(nomem, nostack, preserves_flags)) };
}

/// Stops the running CPU for good.
pub fn halt() -> ! {
    power::halt()
}
