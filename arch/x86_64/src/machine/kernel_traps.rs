//! Handlers of traps from kernel mode, and of those that may occur at any instruction.

use super::frame::TrapFrame;
use super::page_fault::{PAGE_FAULT, access_of};
use super::power::halt;
use super::{early, percpu, uaccess};
use crate::pte::Format;
use arch_boot::STACK_AREA;
use arch_boot::cpus::must_stop;
use arch_boot::trap::{kernel_fault, kernel_trap};
use mm::addr::VirtAddr;
use mm::arch::PteFormat;
use mm::fault::Access;
use x86_64::registers::control::Cr2;
use x86_64::registers::debug::{Dr7, Dr7Flags, Dr7Value};
use x86_64::registers::rflags::RFlags;

/// Handles a trap from kernel mode: an interrupt during `wait_for_interrupt`, a fault in a uaccess
/// routine, or a bug.
pub(crate) extern "C" fn from_kernel(frame: &mut TrapFrame) {
    if frame.vector >= 32 {
        // Interrupts are on only inside the wait, which takes one: the next stays pending.
        // SAFETY: this CPU's own field.
        unsafe { (*percpu::this()).irq = frame.vector };
        frame.rflags &= !RFlags::INTERRUPT_FLAG.bits();
        return;
    }
    let addr = if frame.vector == PAGE_FAULT {
        Cr2::read_raw()
    } else {
        0
    };
    if let Some(fixup) = uaccess::fixup(frame.rip) {
        let user = addr < Format::USER_END.0;
        // What a protection key refuses the thread, it refuses the kernel on its behalf.
        if frame.vector == PAGE_FAULT
            && user
            && let Some(access) = access_of(frame.error)
            && kernel_fault(VirtAddr(addr), access)
        {
            return;
        }
        frame.rip = fixup;
        return;
    }
    let what = match frame.vector {
        0 => "divide error",
        3 => "breakpoint",
        6 => "invalid opcode",
        13 => "general protection fault",
        PAGE_FAULT => page_fault_name(addr, frame.error),
        _ => "unexpected exception",
    };
    kernel_trap(what, addr, frame.rip, frame.rbp, &|f| {
        frame.for_each_register(f)
    });
}

fn page_fault_name(addr: u64, error: u64) -> &'static str {
    match (addr, access_of(error), error & 1 != 0) {
        (0..=0xffff, ..) => "null pointer use in the kernel",
        (a, Some(Access::Exec), _) if a < Format::USER_END.0 => {
            "jump to user memory from the kernel"
        }
        (a, _, true) if a < Format::USER_END.0 => "use of user memory outside uaccess (SMAP)",
        (_, Some(Access::Write), true) => "write to read-only kernel memory",
        (_, Some(Access::Exec), _) => "jump to kernel memory that is not executable",
        _ => "page fault in the kernel",
    }
}

/// Handles traps that may occur between any two instructions; runs on their own stacks, with the
/// kernel's GS loaded.
pub(crate) extern "C" fn paranoid(frame: &mut TrapFrame) {
    match frame.vector {
        // A debug trap in the kernel is not ours: no breakpoints are ever set. Drop them and the
        // trap flag, and go on.
        1 => {
            Dr7::write(Dr7Value::from(Dr7Flags::empty()));
            frame.rflags &= !RFlags::TRAP_FLAG.bits();
        }
        2 => {
            // SAFETY: this CPU's own field; NMIs do not nest.
            let cpu = unsafe { &mut *percpu::this() };
            cpu.nmis += 1;
            let (pc, fp) = match frame.cs & 3 {
                0 => (frame.rip, frame.rbp),
                _ => (0, 0),
            };
            if must_stop(cpu.number as usize, pc, fp) {
                halt();
            }
            // It may have hit user mode, and goes straight back there.
            frame.mend();
        }
        vector => {
            let addr = Cr2::read_raw();
            let stack = (STACK_AREA..STACK_AREA + (64 << 30)).contains(&addr)
                || early::below_boot_stack(addr);
            let what = match vector {
                8 if stack => "kernel stack overflow (double fault at the stack guard)",
                8 => "double fault",
                _ => "machine check",
            };
            kernel_trap(what, addr, frame.rip, frame.rbp, &|f| {
                frame.for_each_register(f)
            })
        }
    }
}
