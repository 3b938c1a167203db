//! The local APIC (by MSR when the CPU has x2APIC, else by its page) and the first I/O APIC (SDM
//! Vol 3 ch. 11; Intel 82093AA).

use super::{acpi, direct_map, features};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use x86_64::instructions::port::Port;
use x86_64::registers::model_specific::Msr;

/// First vector of the I/O APIC's inputs that are used.
pub const SERIAL_VECTOR: u8 = 0x30;
/// Vector of the keyboard.
pub const KEYBOARD_VECTOR: u8 = 0x31;
/// Vector of the local timer.
pub const TIMER_VECTOR: u8 = 0xf0;
/// Vector of an interrupt from another CPU.
pub const IPI_VECTOR: u8 = 0xf1;
/// Spurious-interrupt vector; needs no end-of-interrupt.
const SPURIOUS_VECTOR: u8 = 0xff;

// Register numbers: the offset in the page divided by 16, the MSR less 0x800.
const ID: u32 = 0x02;
const TASK_PRIORITY: u32 = 0x08;
const END_OF_INTERRUPT: u32 = 0x0b;
const SPURIOUS: u32 = 0x0f;
const COMMAND: u32 = 0x30;
const COMMAND_HIGH: u32 = 0x31;
const LVT_TIMER: u32 = 0x32;
const LVT_LINT0: u32 = 0x35;
const LVT_LINT1: u32 = 0x36;
const LVT_ERROR: u32 = 0x37;
const INITIAL_COUNT: u32 = 0x38;
const CURRENT_COUNT: u32 = 0x39;
const DIVIDE: u32 = 0x3e;

const MASKED: u32 = 1 << 16;
/// Delivery modes of the command register (SDM Vol 3, 11.6.1).
pub const NMI: u32 = 4 << 8;
/// The CPU waits for [`STARTUP`].
pub const INIT: u32 = 5 << 8;
/// The CPU starts at the page whose number is the vector.
pub const STARTUP: u32 = 6 << 8;
const ASSERT: u32 = 1 << 14;
const PENDING: u32 = 1 << 12;
const TSC_DEADLINE_MODE: u32 = 2 << 17;
const DIVIDE_BY_1: u32 = 0b1011;

const APIC_BASE: Msr = Msr::new(0x1b);
const TSC_DEADLINE: Msr = Msr::new(0x6e0);
const ENABLED: u64 = 1 << 11;
const X2APIC: u64 = 1 << 10;

static BY_MSR: AtomicBool = AtomicBool::new(false);

fn write(register: u32, value: u32) {
    if BY_MSR.load(Relaxed) {
        let mut msr = Msr::new(0x800 + register);
        // SAFETY: x2APIC mode is on, and the register numbers above exist in it.
        unsafe { msr.write(u64::from(value)) }
    } else {
        let at = direct_map::pointer::<u32>(acpi::platform().local_apic + u64::from(register) * 16);
        // SAFETY: the local APIC's page, which the kernel maps because `BootInfo::devices` says so.
        unsafe { at.write_volatile(value) }
    }
}

fn read(register: u32) -> u32 {
    if BY_MSR.load(Relaxed) {
        // SAFETY: as in `write`.
        unsafe { Msr::new(0x800 + register).read() as u32 }
    } else {
        // SAFETY: as in `write`.
        unsafe {
            direct_map::pointer::<u32>(acpi::platform().local_apic + u64::from(register) * 16)
                .read_volatile()
        }
    }
}

/// Turns the local APIC on and masks the old 8259s.
pub fn init() {
    // SAFETY: the 8259s' mask registers; nothing is lost, no driver uses them.
    unsafe {
        Port::<u8>::new(0x21).write(0xff);
        Port::<u8>::new(0xa1).write(0xff);
    }
    // Firmware may have switched to an x2APIC already, which only a reset undoes.
    BY_MSR.store(enable(features::get().x2apic), Relaxed);
    init_local();
}

/// Turns the local APIC of another CPU than the first on, in the same mode.
pub fn init_secondary() {
    enable(BY_MSR.load(Relaxed));
    init_local();
    set_timer_mode(features::get().tsc_deadline);
}

/// Turns this CPU's local APIC on, as an x2APIC if `by_msr`; returns whether it is one now.
fn enable(by_msr: bool) -> bool {
    let mut base = APIC_BASE;
    // SAFETY: every long-mode CPU has the register; the mode bits are set as the SDM (11.12.5)
    // allows: off -> xAPIC -> x2APIC.
    unsafe {
        let value = base.read() | ENABLED;
        base.write(value);
        if by_msr {
            base.write(value | X2APIC);
        }
        base.read() & X2APIC != 0
    }
}

/// Masks everything of this CPU's local APIC but the NMI input.
fn init_local() {
    write(TASK_PRIORITY, 0);
    write(LVT_TIMER, MASKED | u32::from(TIMER_VECTOR));
    write(LVT_LINT0, MASKED);
    write(LVT_LINT1, NMI);
    write(LVT_ERROR, MASKED);
    write(SPURIOUS, 1 << 8 | u32::from(SPURIOUS_VECTOR));
}

/// The highest APIC ID that [`send`] reaches: all bits set is everyone.
pub fn highest_id() -> u32 {
    if BY_MSR.load(Relaxed) {
        u32::MAX - 1
    } else {
        0xfe
    }
}

/// Sends an interrupt to a CPU: a vector, [`NMI`], [`INIT`] or [`STARTUP`] and a page's number.
#[cold]
pub fn send(id: u32, what: u32) {
    let command = what | ASSERT;
    // What this CPU has written before is visible to the other one when it is interrupted: with an
    // x2APIC the write below is not ordered after it (SDM Vol 3, 11.12.3).
    // SAFETY: barriers.
    unsafe { core::arch::asm!("mfence", "lfence", options(nostack, preserves_flags)) };
    if BY_MSR.load(Relaxed) {
        let mut msr = Msr::new(0x800 + COMMAND);
        // SAFETY: x2APIC mode is on; the callers know what the CPU does with it.
        unsafe { msr.write(u64::from(id) << 32 | u64::from(command)) };
        return;
    }
    // An interrupt that never leaves must not keep a panic's report.
    let mut looks = 0..1 << 20;
    while read(COMMAND) & PENDING != 0 && looks.next().is_some() {
        core::hint::spin_loop();
    }
    write(COMMAND_HIGH, id << 24);
    write(COMMAND, command);
}

/// Unmasks the timer, as one shot at the bus clock or by TSC deadline.
pub fn set_timer_mode(tsc_deadline: bool) {
    if tsc_deadline {
        write(LVT_TIMER, TSC_DEADLINE_MODE | u32::from(TIMER_VECTOR));
        // By memory, the mode may be written after the first deadline (SDM Vol 3, 11.5.4.1), which
        // would be lost.
        // SAFETY: a barrier.
        unsafe { core::arch::asm!("mfence", options(nostack, preserves_flags)) };
    } else {
        write(DIVIDE, DIVIDE_BY_1);
        write(LVT_TIMER, u32::from(TIMER_VECTOR));
    }
}

/// Starts the one-shot timer; 0 stops it.
pub fn set_timer_count(count: u32) {
    write(INITIAL_COUNT, count);
}

/// Remaining count of the one-shot timer.
pub fn timer_count() -> u32 {
    read(CURRENT_COUNT)
}

/// Sets the deadline as a TSC value; 0 stops the timer.
pub fn set_tsc_deadline(at: u64) {
    let mut msr = TSC_DEADLINE;
    // SAFETY: only called when CPUID reports the deadline mode.
    unsafe { msr.write(at) }
}

/// Routes an ISA interrupt line to this CPU.
pub fn route_isa(irq: u8, vector: u8) {
    let line = acpi::platform().isa_line(irq);
    let destination = if BY_MSR.load(Relaxed) {
        read(ID)
    } else {
        read(ID) >> 24
    };
    let index = 0x10 + 2 * line.input;
    io_write(index + 1, destination << 24);
    io_write(
        index,
        u32::from(vector) | u32::from(line.active_low) << 13 | u32::from(line.level) << 15,
    );
}

fn io_write(register: u32, value: u32) {
    let base = acpi::platform().io_apic;
    // SAFETY: the I/O APIC's page (in `BootInfo::devices`): select at 0, data at 0x10; interrupts
    // are off, so the pair is not torn.
    unsafe {
        direct_map::pointer::<u32>(base).write_volatile(register);
        direct_map::pointer::<u32>(base + 0x10).write_volatile(value);
    }
}

/// Ends the interrupt of `vector` at the controller. False for a spurious interrupt, which has no
/// source.
pub fn end(vector: u8) -> bool {
    let real = vector != SPURIOUS_VECTOR;
    if real {
        write(END_OF_INTERRUPT, 0);
    }
    real
}
