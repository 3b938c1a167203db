//! The trap interface of the kernel: `UserContext::run` enters user mode and returns the reason why
//! it was left.

pub use super::context::UserContext;
pub use super::debug::Breakpoints;
pub use super::sigframe::min_signal_stack;
pub use arch_boot::trap::{Irq, Refused, SignalFrame, StopAt, Trap};

use super::{entry, features, selectors};
use x86_64::registers::control::{Cr4, Cr4Flags, Efer, EferFlags};
use x86_64::registers::model_specific::{LStar, Msr};
use x86_64::registers::rflags::RFlags;

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
    // SAFETY: the selectors are those of `selectors`, the entry follows SYSCALL's conventions.
    unsafe {
        Msr::new(STAR).write(
            u64::from(selectors::SYSRET_BASE) << 48 | u64::from(selectors::KERNEL_CODE) << 32,
        );
        LStar::write(x86_64::VirtAddr::new(entry::syscall_address()));
        Msr::new(CSTAR).write(entry::syscall_elsewhere_address());
        Msr::new(SFMASK).write(mask.bits());
        Msr::new(SYSENTER_CS).write(0);
        Efer::update(|f| f.insert(EferFlags::SYSTEM_CALL_EXTENSIONS));
        Cr4::update(|f| f.set(Cr4Flags::FSGSBASE, features::get().fsgsbase));
    }
}

/// Machine checks come as a trap; without CR4.MCE the CPU shuts down, which is a silent reset (SDM
/// Vol 3, 16.6).
pub(crate) fn init_machine_check() {
    // CPUID.1:EDX.MCE.
    if features::get().hwcap & 1 << 7 != 0 {
        // SAFETY: the gate has a stack of its own.
        unsafe { Cr4::update(|f| f.insert(Cr4Flags::MACHINE_CHECK_EXCEPTION)) };
    }
}
