//! Traps. User mode is a call: `UserContext::run` enters it and returns with the reason it came
//! back.

pub use crate::context::UserContext;
pub use crate::signal::min_signal_stack;
pub use arch_boot::trap::{Irq, SignalFrame, Trap};

use crate::context::Frame;
use crate::pte::Format;
use crate::{descriptors, entry, features, percpu, start, uaccess};
use arch_boot::STACK_AREA;
use arch_boot::trap::{kernel_fault, kernel_trap};
use mm::addr::VirtAddr;
use mm::arch::PteFormat;
use mm::fault::Access;
use x86_64::registers::control::{Cr2, Cr4, Cr4Flags, Efer, EferFlags};
use x86_64::registers::debug::Dr7;
use x86_64::registers::model_specific::{LStar, Msr};
use x86_64::registers::rflags::RFlags;

/// Vector of #PF.
pub(crate) const PAGE_FAULT: u64 = 14;

/// SYSCALL's registers (APM Vol 2, 6.1.1): the entries, the segments, and which flags are cleared
/// on the way in. SYSENTER stays off: its code segment register is 0, so the instruction raises
/// #GP.
pub(crate) fn init_syscalls() {
    const STAR: u32 = 0xc000_0081;
    const CSTAR: u32 = 0xc000_0083;
    const SFMASK: u32 = 0xc000_0084;
    const SYSENTER_CS: u32 = 0x174;
    let mask = RFlags::TRAP_FLAG
        | RFlags::INTERRUPT_FLAG
        | RFlags::DIRECTION_FLAG
        | RFlags::IOPL_LOW
        | RFlags::IOPL_HIGH
        | RFlags::NESTED_TASK
        | RFlags::RESUME_FLAG
        | RFlags::ALIGNMENT_CHECK
        | RFlags::VIRTUAL_8086_MODE;
    // SAFETY: the selectors are those of `descriptors`, the entry follows SYSCALL's conventions.
    unsafe {
        Msr::new(STAR).write(
            u64::from(descriptors::SYSRET_BASE) << 48 | u64::from(descriptors::KERNEL_CODE) << 32,
        );
        LStar::write(x86_64::VirtAddr::new(entry::syscall_address()));
        Msr::new(CSTAR).write(entry::syscall_elsewhere_address());
        Msr::new(SFMASK).write(mask.bits());
        Msr::new(SYSENTER_CS).write(0);
        Efer::update(|f| f.insert(EferFlags::SYSTEM_CALL_EXTENSIONS));
        if features::get().fsgsbase {
            Cr4::update(|f| f.insert(Cr4Flags::FSGSBASE));
        }
    }
}

/// Machine checks come as a trap; without CR4.MCE the CPU shuts down, which is a reset without a
/// word (SDM Vol 3, 16.6).
pub(crate) fn init_machine_check() {
    // CPUID.1:EDX.MCE.
    if features::get().hwcap & 1 << 7 != 0 {
        // SAFETY: the gate has a stack of its own.
        unsafe { Cr4::update(|f| f.insert(Cr4Flags::MACHINE_CHECK_EXCEPTION)) };
    }
}

/// What the instruction did, from a page fault's error code (SDM Vol 3, 4.7): W bit 1, I/D bit 4.
#[inline]
pub(crate) fn access_of(error: u64) -> Access {
    if error & 1 << 4 != 0 {
        Access::Exec
    } else if error & 1 << 1 != 0 {
        Access::Write
    } else {
        Access::Read
    }
}

/// A trap from kernel mode: an interrupt during `wait_for_interrupt`, a fault in a routine that may
/// fault, or our mistake.
pub(crate) extern "C" fn from_kernel(frame: &mut Frame) {
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
        if frame.vector == PAGE_FAULT
            && user
            && kernel_fault(VirtAddr(addr), access_of(frame.error))
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
        (a, Access::Exec, _) if a < Format::USER_END.0 => "jump to user memory from the kernel",
        (a, _, true) if a < Format::USER_END.0 => "use of user memory outside uaccess (SMAP)",
        (_, Access::Write, true) => "write to read-only kernel memory",
        (_, Access::Exec, _) => "jump to kernel memory that is not executable",
        _ => "page fault in the kernel",
    }
}

/// Traps that may hit between any two instructions; on their own stacks, with GS already the
/// kernel's.
pub(crate) extern "C" fn paranoid(frame: &mut Frame) {
    match frame.vector {
        // A debug trap in the kernel is not ours: no breakpoints are ever set. Drop them and the
        // trap flag, and go on.
        1 => {
            Dr7::write(x86_64::registers::debug::Dr7Value::from(
                x86_64::registers::debug::Dr7Flags::empty(),
            ));
            frame.rflags &= !RFlags::TRAP_FLAG.bits();
        }
        2 => {
            // SAFETY: this CPU's own field; NMIs do not nest.
            unsafe { (*percpu::this()).nmis += 1 };
            // It may have hit user mode, and goes straight back there.
            frame.mend();
        }
        vector => {
            let addr = Cr2::read_raw();
            let stack = (STACK_AREA..STACK_AREA + (64 << 30)).contains(&addr)
                || start::below_boot_stack(addr);
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
