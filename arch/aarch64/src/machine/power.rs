//! Power off, restart, and the exit status of a machine started by `run.sh`.

use super::{serial, watchdog};
use core::arch::asm;
use core::sync::atomic::{AtomicU8, Ordering};
use smccc::psci;
use smccc::{Hvc, Smc};

/// How PSCI is called: 0 not at all, 1 hvc, 2 smc.
static PSCI: AtomicU8 = AtomicU8::new(0);

/// How PSCI is called, by the device tree or ACPI: by `smc` (true) or `hvc`.
pub(crate) fn set_psci(smc: Option<bool>) {
    PSCI.store(smc.map_or(0, |smc| 1 + u8::from(smc)), Ordering::Relaxed);
}

/// Semihosting's SYS_WRITE0: a string that ends with a NUL.
const SYS_WRITE0: u64 = 0x04;
/// Semihosting's SYS_EXIT_EXTENDED and its reason ADP_Stopped_ApplicationExit (Arm's semihosting
/// specification).
const SYS_EXIT_EXTENDED: u64 = 0x20;
const APPLICATION_EXIT: u64 = 0x20026;

/// Makes a semihosting call, to QEMU or a debugger; without either it has no effect.
fn semihosting(call: u64, argument: u64) {
    // SAFETY: without semihosting the instruction is undefined, which its entry in `__ex_table`
    // turns into going on. The callers' arguments are what the calls take.
    unsafe {
        asm!(
            "2: hlt #0xf000", "3:",
            ".pushsection __ex_table, \"a\"", ".balign 8", ".quad 2b, 3b", ".popsection",
            inout("x0") call => _, in("x1") argument, options(nostack),
        );
    }
}

/// Prints a message on the serial port, or by semihosting before there is one.
pub(crate) fn last_words(why: &str) {
    for text in ["quire: ", why, "\r\n"] {
        if serial::is_there() {
            serial::write(text.as_bytes());
            continue;
        }
        for byte in text.bytes() {
            let string = [byte, 0];
            semihosting(SYS_WRITE0, (&raw const string) as u64);
        }
    }
}

/// Starts the CPU with these affinity fields at a physical address.
pub(crate) fn cpu_on(id: u64, entry: u64) -> Result<(), &'static str> {
    let answer = match PSCI.load(Ordering::Relaxed) {
        1 => psci::cpu_on::<Hvc>(id, entry, 0),
        2 => psci::cpu_on::<Smc>(id, entry, 0),
        _ => return Err("there is no PSCI"),
    };
    answer.map_err(|error| match error {
        psci::Error::InvalidParameters => "PSCI knows no such CPU",
        psci::Error::Denied | psci::Error::Disabled => "PSCI does not permit it",
        psci::Error::AlreadyOn | psci::Error::OnPending => "PSCI says that it is on already",
        _ => "PSCI has failed to start it",
    })
}

/// Ends the machine with a status that `run.sh` turns into its exit status (QEMU exit device or
/// semihosting), else powers off, else halts.
pub fn exit(status: u8) -> ! {
    tell(status);
    let _ = match PSCI.load(Ordering::Relaxed) {
        1 => psci::system_off::<Hvc>(),
        2 => psci::system_off::<Smc>(),
        _ => Ok(()),
    };
    watchdog::reset(true);
    halt()
}

/// [`exit`] after a failure: never powers off, so that the message stays on the screen.
pub fn stop(status: u8) -> ! {
    tell(status);
    halt()
}

/// Ends a machine started by `run.sh`.
fn tell(status: u8) {
    let block = [APPLICATION_EXIT, u64::from(status)];
    semihosting(SYS_EXIT_EXTENDED, (&raw const block) as u64);
}

/// Restarts the machine.
pub fn reboot() -> ! {
    let _ = match PSCI.load(Ordering::Relaxed) {
        1 => psci::system_reset::<Hvc>(),
        2 => psci::system_reset::<Smc>(),
        _ => Ok(()),
    };
    watchdog::reset(false);
    halt()
}

pub(crate) fn halt() -> ! {
    loop {
        // SAFETY: nothing is left to do; interrupts are off.
        unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) };
    }
}
