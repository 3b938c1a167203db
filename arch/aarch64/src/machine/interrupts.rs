//! Interrupts through the board's controller. The end of interrupt follows right after the device
//! was silenced, because the kernel runs with interrupts off until it has served the device.

use super::power::halt;
use super::{bcm2836, gic, percpu, regs, serial, timer};
use crate::board::Controller;
use arch_boot::cpus::{NR_CPUS, must_stop};
use arch_boot::trap::Irq;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The virtual timer's private interrupt on every GIC so far (PPI 11).
const GIC_VIRTUAL_TIMER: u32 = 27;

/// Whether the controller is a BCM2836 and not a GIC; set by [`init`].
static BCM2836: AtomicBool = AtomicBool::new(false);
static READY: AtomicBool = AtomicBool::new(false);
static TIMER: AtomicU32 = AtomicU32::new(u32::MAX);
static SERIAL: AtomicU32 = AtomicU32::new(u32::MAX);
static IPI: AtomicU32 = AtomicU32::new(u32::MAX);
/// What the controller knows each CPU by, by number.
static TARGETS: [AtomicU64; NR_CPUS] = [const { AtomicU64::new(0) }; NR_CPUS];

fn is_bcm2836() -> bool {
    BCM2836.load(Ordering::Relaxed)
}

/// Turns the controller on and enables the interrupts of the virtual timer and the console.
pub(crate) fn init(controller: Controller, timer: Option<u32>, serial: Option<u32>) {
    let (usual, target) = match controller {
        Controller::GicV2(distributor, cpu) => (GIC_VIRTUAL_TIMER, gic::init_v2(distributor, cpu)),
        Controller::GicV3(distributor, redistributors) => {
            (GIC_VIRTUAL_TIMER, gic::init_v3(distributor, redistributors))
        }
        Controller::Bcm2836(cores, peripherals) => {
            let target = bcm2836::init(cores, peripherals);
            BCM2836.store(true, Ordering::Relaxed);
            (bcm2836::VIRTUAL_TIMER, target)
        }
    };
    TARGETS[0].store(target, Ordering::Relaxed);
    let ipi = if is_bcm2836() { bcm2836::IPI } else { gic::IPI };
    IPI.store(ipi, Ordering::Relaxed);
    READY.store(true, Ordering::Relaxed);
    enable(timer.unwrap_or(usual), &TIMER);
    if let Some(serial) = serial {
        enable(serial, &SERIAL);
    }
}

fn enable(interrupt: u32, role: &AtomicU32) {
    role.store(interrupt, Ordering::Relaxed);
    if is_bcm2836() {
        bcm2836::enable(interrupt);
    } else {
        gic::enable(interrupt);
    }
}

/// Acknowledges the pending interrupt, silences its device and ends it at the controller.
pub(crate) fn acknowledge() -> Irq {
    if !READY.load(Ordering::Relaxed) {
        return Irq::Spurious;
    }
    if is_bcm2836() {
        return bcm2836::take().map_or(Irq::Spurious, serve);
    }
    let Some(raw) = gic::take() else {
        return Irq::Spurious;
    };
    let irq = serve(gic::number(raw));
    gic::end(raw);
    irq
}

/// Silences the device and names the interrupt's source.
fn serve(number: u32) -> Irq {
    if number == TIMER.load(Ordering::Relaxed) {
        timer::stop();
        Irq::Timer
    } else if number == SERIAL.load(Ordering::Relaxed) {
        serial::acknowledge();
        Irq::Serial
    } else if number == IPI.load(Ordering::Relaxed) {
        let (pc, fp) = regs::here();
        if must_stop(percpu::number(), pc, fp) {
            halt();
        }
        Irq::Ipi
    } else {
        Irq::Other(number)
    }
}

/// Turns on another CPU's part of the controller: interrupts from CPUs reach it. False: it has
/// none.
pub(crate) fn init_secondary(number: usize) -> bool {
    let timer = TIMER.load(Ordering::Relaxed);
    let target = if is_bcm2836() {
        Some(bcm2836::init_secondary(bcm2836::bit(timer)))
    } else {
        gic::init_secondary(timer)
    };
    if let (Some(target), Some(slot)) = (target, TARGETS.get(number)) {
        slot.store(target, Ordering::Relaxed);
    }
    target.is_some()
}

/// Whether there is a controller.
pub(crate) fn are_ready() -> bool {
    READY.load(Ordering::Relaxed)
}

/// Interrupts another CPU.
pub(crate) fn send(number: usize) {
    let target = TARGETS[number].load(Ordering::Relaxed);
    // What this CPU has written before is visible to the other one when it is interrupted.
    regs::dsb_ish();
    if is_bcm2836() {
        bcm2836::send(target);
    } else {
        gic::send(target);
    }
}

/// The controller's name for the boot line.
pub(crate) fn describe(out: &mut dyn Write) -> fmt::Result {
    if is_bcm2836() {
        write!(out, "bcm2836")
    } else {
        write!(out, "gicv{}", gic::version())
    }
}
