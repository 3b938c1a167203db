//! Power off, restart, and the exit status of a machine started by `run.sh`.

use super::acpi;
use core::arch::asm;
use x86_64::instructions::port::Port;

/// Ends the machine with a status that `run.sh` turns into its exit status (QEMU exit device or
/// semihosting), else powers off, else halts.
pub fn exit(status: u8) -> ! {
    tell(status);
    power_off();
    halt()
}

/// [`exit`] after a failure: never powers off, so that the message stays on the screen.
pub fn stop(status: u8) -> ! {
    tell(status);
    halt()
}

/// Ends a machine started by `run.sh`.
fn tell(status: u8) {
    // The exit device carries 7 bits, so the debug console carries the status first; without these
    // devices the writes have no effect. SAFETY: QEMU's ports for this purpose (isa-debugcon,
    // isa-debug-exit).
    unsafe {
        Port::<u8>::new(0xe9).write(status);
        Port::<u8>::new(0xf4).write(status & 0x7f);
    }
}

/// S5 by ACPI (6.5, 4.8.3.2 and 4.8.3.7): by the sleep control register (SLP_TYP is 5 in QEMU's
/// microvm, SLP_EN bit 5), else by PM1's.
fn power_off() {
    let platform = acpi::platform();
    if let Some(register) = platform.sleep_control {
        register.write(5 << 2 | 1 << 5, false);
    }
    if let Some(power) = platform.power {
        by_fixed_hardware(power);
    }
}

pub(crate) fn halt() -> ! {
    loop {
        // SAFETY: interrupts are off for good.
        unsafe { asm!("cli", "hlt") };
    }
}

fn by_fixed_hardware(power: acpi::Power) {
    /// Whether the firmware has handed the registers over.
    const SCI_EN: u16 = 1;
    const SLP_TYP: u16 = 7 << 10;
    const SLP_EN: u16 = 1 << 13;
    let (command, word) = power.enable;
    let controls = power
        .controls
        .map(|(port, off)| (Port::<u16>::new(port), port, off));
    for (mut control, port, off) in controls {
        if port == 0 {
            continue;
        }
        // SAFETY: the ports that the FADT names for this; the firmware answers within a second or
        // not at all.
        unsafe {
            if command != 0 && control.read() & SCI_EN == 0 {
                Port::new(command).write(word);
                (0..1 << 20).any(|_| control.read() & SCI_EN != 0);
            }
            let rest = control.read() & !(SLP_TYP | SLP_EN);
            control.write(rest | u16::from(off) << 10 & SLP_TYP | SLP_EN);
        }
    }
}

/// Restarts the machine: ACPI's reset register, the keyboard controller, then a triple fault.
pub fn reboot() -> ! {
    // SAFETY: QEMU's debug console, or an unused port. `run.sh` takes a reset without a status for
    // a triple fault.
    unsafe { Port::<u8>::new(0xe9).write(0) };
    if let Some((register, value)) = acpi::platform().reset {
        register.write(u16::from(value), false);
    }
    // SAFETY: 8042 command "pulse the reset line"; then an empty descriptor table, so that the next
    // trap resets the CPU.
    unsafe {
        Port::<u8>::new(0x64).write(0xfe);
        asm!("push 0", "push 0", "lidt [rsp]", "int3", options(noreturn));
    }
}
