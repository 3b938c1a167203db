//! The CPU: context switch, idle, power.

use crate::apic;
use crate::trap::Irq;
use crate::{acpi, percpu};
use core::arch::{asm, global_asm};
use x86_64::instructions::port::Port;

pub use crate::identify::{describe, features, hwcap};

/// uname -m and AT_PLATFORM.
pub const NAME: &str = "x86_64";

/// A kernel thread that is not running: its stack pointer; the rest is on its stack.
pub struct KernelContext {
    sp: u64,
}

global_asm!(
    r#"
    .pushsection .text.switch, "ax"
    .globl cpu_switch
    // rdi: where the running thread's stack pointer goes, rsi: where the next one's is. The rest is caller-saved.
cpu_switch:
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    mov [rdi], rsp
    mov rsp, [rsi]
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret
    // A new thread's first instruction: r12 the function, r13 its argument.
    .globl cpu_first
cpu_first:
    mov rdi, r13
    call r12
    ud2
    .popsection
    "#
);

unsafe extern "C" {
    fn cpu_switch(from: *mut u64, to: *const u64);
    fn cpu_first();
}

impl KernelContext {
    /// A context that calls `entry(argument)` on a new stack whose top is `stack_top`. `entry` never returns.
    pub fn new(stack_top: u64, entry: extern "C" fn(usize) -> !, argument: usize) -> Self {
        let first = cpu_first as *const () as u64;
        // r15 r14 r13 r12 rbx rbp, the return address, and two words of 0 that end a backtrace.
        let words = [
            0,
            0,
            argument as u64,
            entry as *const () as u64,
            0,
            0,
            first,
            0,
            0,
        ];
        // `cpu_first` starts with both words of 0 on the stack: aligned to 16, as a call wants it (System V ABI, 3.2.2).
        let sp = (stack_top & !15) - size_of_val(&words) as u64;
        let at = core::ptr::with_exposed_provenance_mut::<[u64; 9]>(sp as usize);
        // SAFETY: the caller hands over a mapped stack that nobody uses.
        unsafe { at.write(words) };
        KernelContext { sp }
    }

    /// The context of the thread that runs now, to be filled by the first switch.
    pub const fn running() -> Self {
        Self { sp: 0 }
    }
}

/// Saves the running thread into `from`, goes on with `to`, whose kernel stack's top is `to_stack_top` (for traps from user mode; this
/// machine's go into the `UserContext` instead, see `entry`).
///
/// # Safety
/// `to` was made by `new` or saved by `switch`, and both outlive the switch.
pub unsafe fn switch(from: *mut KernelContext, to: *const KernelContext, to_stack_top: u64) {
    let _ = to_stack_top;
    // SAFETY: the caller's promise.
    unsafe { cpu_switch(&raw mut (*from).sp, &raw const (*to).sp) }
}

/// Sleeps until an interrupt comes and returns what it was; interrupts are off before and after.
pub fn wait_for_interrupt() -> Irq {
    loop {
        // SAFETY: STI takes effect after the next instruction, so an interrupt cannot slip in before HLT; the handler
        // (`trap::from_kernel`) returns with interrupts off.
        unsafe { asm!("sti", "hlt", "cli") };
        if let Some(irq) = take() {
            return irq;
        }
    }
}

/// Takes an interrupt that is already pending, without waiting.
pub fn poll_interrupt() -> Option<Irq> {
    // SAFETY: as in `wait_for_interrupt`.
    unsafe { asm!("sti", "nop", "nop", "cli") };
    take()
}

fn take() -> Option<Irq> {
    // SAFETY: this CPU's own field; interrupts are off.
    let vector = unsafe { core::mem::take(&mut (*percpu::this()).irq) };
    (vector != 0).then(|| apic::acknowledge(vector as u8))
}

/// Ends the machine with a status that `run.sh` turns into its exit status (QEMU exit device or semihosting), else powers off, else halts.
pub fn exit(status: u8) -> ! {
    tell(status);
    power_off();
    halt()
}

/// [`exit`] after a failure: never powers off, so that the screen keeps what was said.
pub fn stop(status: u8) -> ! {
    tell(status);
    halt()
}

/// Ends a machine of `run.sh`.
fn tell(status: u8) {
    // The exit device carries 7 bits, so the debug console carries the status first; nobody listens on machines without them.
    // SAFETY: QEMU's ports for this purpose (isa-debugcon, isa-debug-exit).
    unsafe {
        Port::<u8>::new(0xe9).write(status);
        Port::<u8>::new(0xf4).write(status & 0x7f);
    }
}

/// S5 by ACPI (6.5, 4.8.3.2 and 4.8.3.7): by the sleep control register (SLP_TYP is 5 in QEMU's microvm, SLP_EN bit 5), else by PM1's.
fn power_off() {
    let platform = acpi::platform();
    if let Some(register) = platform.sleep_control {
        register.write(5 << 2 | 1 << 5, false);
    }
    if let Some(power) = platform.power {
        by_fixed_hardware(power);
    }
}

fn halt() -> ! {
    loop {
        // SAFETY: interrupts are off for good.
        unsafe { asm!("cli", "hlt") };
    }
}

fn by_fixed_hardware(power: acpi::Power) {
    /// The registers are ours.
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
        // SAFETY: the ports that the FADT names for this; the firmware answers within a second or not at all.
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
    // SAFETY: QEMU's debug console, or a port that nobody has. `run.sh` takes a reset without a status for a triple fault.
    unsafe { Port::<u8>::new(0xe9).write(0) };
    if let Some((register, value)) = acpi::platform().reset {
        register.write(u16::from(value), false);
    }
    // SAFETY: 8042 command "pulse the reset line"; then an empty descriptor table, so that the next trap resets the CPU.
    unsafe {
        Port::<u8>::new(0x64).write(0xfe);
        asm!("push 0", "push 0", "lidt [rsp]", "int3", options(noreturn));
    }
}

/// 64 bits from the CPU's generator, if it has one.
pub fn random() -> Option<u64> {
    let have = crate::features::get();
    // SDM Vol 1, 7.3.17: carry says whether there was a number; ten tries are enough for RDRAND on a healthy CPU.
    for _ in 0..10 {
        let (value, ok): (u64, u8);
        // SAFETY: only executed when CPUID reports the instruction.
        unsafe {
            if have.rdseed {
                asm!("rdseed {}", "setc {}", out(reg) value, out(reg_byte) ok, options(nomem, nostack));
            } else if have.rdrand {
                asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) ok, options(nomem, nostack));
            } else {
                return None;
            }
        }
        if ok != 0 {
            return Some(value);
        }
    }
    None
}

/// Seconds since 1970 by the machine's clock at this moment, 0 if there is none (Motorola MC146818A; century in register 0x32).
pub fn wall_clock() -> u64 {
    let absent = cmos(0x0a) == 0xff && cmos(0x0b) == 0xff;
    if absent {
        return 0;
    }
    let mut last = clock_registers();
    // Two equal readings without an update between them.
    for _ in 0..100 {
        let again = clock_registers();
        if cmos(0x0a) & 0x80 == 0 && again == last {
            break;
        }
        last = again;
    }
    let mode = cmos(0x0b);
    let number = |raw: u8| {
        if mode & 4 != 0 {
            raw
        } else {
            (raw >> 4) * 10 + (raw & 15)
        }
    };
    let [second, minute, hour, day, month, year, century] = last;
    let mut hours = number(hour & 0x7f);
    if mode & 2 == 0 {
        hours = hours % 12 + if hour & 0x80 != 0 { 12 } else { 0 };
    }
    let century = if (0x19..=0x21).contains(&century) {
        u64::from(number(century))
    } else {
        20
    };
    let days = days_from_civil(
        century * 100 + u64::from(number(year)),
        u64::from(number(month)),
        u64::from(number(day)),
    );
    ((days * 24 + u64::from(hours)) * 60 + u64::from(number(minute))) * 60
        + u64::from(number(second))
}

fn cmos(register: u8) -> u8 {
    // SAFETY: the clock's index and data ports; bit 7 of the index keeps the NMI input on.
    unsafe {
        Port::<u8>::new(0x70).write(register);
        Port::<u8>::new(0x71).read()
    }
}

fn clock_registers() -> [u8; 7] {
    [0x00, 0x02, 0x04, 0x07, 0x08, 0x09, 0x32].map(cmos)
}

/// Days from 1970-01-01, for years from 1970: years counted from March, so that the leap day is the last.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = y * 365 + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    days.saturating_sub(719_468)
}

/// Calls `f` with each return address from the running frame outwards (frame pointers, bounded, never faults).
/// `from`: pc and frame pointer to start at, else the caller's.
pub fn backtrace(from: Option<(u64, u64)>, f: &mut dyn FnMut(u64)) {
    const DEEPEST: usize = 64;
    let mut fp = match from {
        Some((pc, fp)) => {
            f(pc);
            fp
        }
        None => {
            let fp: u64;
            // SAFETY: reads a register.
            unsafe { asm!("mov {}, rbp", out(reg) fp, options(nomem, nostack, preserves_flags)) };
            fp
        }
    };
    for _ in 0..DEEPEST {
        // Kernel stacks only, and always outwards.
        if fp < crate::boot::DIRECT_MAP || !fp.is_multiple_of(8) {
            return;
        }
        let (Some(next), Some(pc)) = (crate::uaccess::probe(fp), crate::uaccess::probe(fp + 8))
        else {
            return;
        };
        if pc == 0 {
            return;
        }
        f(pc);
        if next <= fp {
            return;
        }
        fp = next;
    }
}
