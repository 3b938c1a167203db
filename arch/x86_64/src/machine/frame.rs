//! The registers that a trap saves.

use super::selectors::{KERNEL_CODE, USER_CODE, USER_DATA};
use x86_64::registers::rflags::RFlags;

/// `TrapFrame::vector` after a system call whose frame may go back by `SYSRET`.
pub const SYSCALL: u64 = 256;
/// `TrapFrame::vector` when the kernel has changed the registers: the return is by `IRET` only.
pub const CHANGED: u64 = 257;

/// Registers in the order in which the CPU and the stubs push them (from the end).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
#[allow(missing_docs)]
pub struct TrapFrame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// The vector, [`SYSCALL`] or [`CHANGED`].
    pub vector: u64,
    /// The error code of an exception; the number of a system call.
    pub error: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// Flags that are clear in every frame of 64-bit user mode: virtual-8086 mode, its two interrupt
/// flags, and the I/O privilege level.
pub(crate) const NEVER_USER: u64 = RFlags::VIRTUAL_8086_MODE.bits()
    | RFlags::VIRTUAL_INTERRUPT.bits()
    | RFlags::VIRTUAL_INTERRUPT_PENDING.bits()
    | RFlags::IOPL_LOW.bits()
    | RFlags::IOPL_HIGH.bits();

impl TrapFrame {
    /// Whether IRET with this frame enters 64-bit user mode. `entry` checks the frames that traps
    /// fill.
    pub(crate) fn is_users(&self) -> bool {
        self.cs as u16 == USER_CODE && self.ss as u16 == USER_DATA && self.rflags & NEVER_USER == 0
    }

    /// Whether the trap came from kernel mode.
    fn is_kernels(&self) -> bool {
        self.cs as u16 == KERNEL_CODE && self.rflags & NEVER_USER == 0
    }

    /// Makes a frame that came neither from the kernel nor from 64-bit user mode return to 64-bit
    /// user mode, as `entry` does for traps that end `UserContext::run`.
    pub(crate) fn mend(&mut self) {
        if !self.is_kernels() && !self.is_users() {
            self.cs = u64::from(USER_CODE);
            self.ss = u64::from(USER_DATA);
            self.rflags = ALWAYS_RFLAGS;
        }
    }

    /// Name and value of each register.
    pub fn for_each_register(&self, f: &mut dyn FnMut(&'static str, u64)) {
        let pairs = [
            ("rip", self.rip),
            ("rsp", self.rsp),
            ("rflags", self.rflags),
            ("rax", self.rax),
            ("rbx", self.rbx),
            ("rcx", self.rcx),
            ("rdx", self.rdx),
            ("rsi", self.rsi),
            ("rdi", self.rdi),
            ("rbp", self.rbp),
            ("r8", self.r8),
            ("r9", self.r9),
            ("r10", self.r10),
            ("r11", self.r11),
            ("r12", self.r12),
            ("r13", self.r13),
            ("r14", self.r14),
            ("r15", self.r15),
            ("cs", self.cs),
            ("ss", self.ss),
            ("vector", self.vector),
            ("error", self.error),
        ];
        for (name, value) in pairs {
            f(name, value);
        }
    }
}

/// Flags that user mode may set by itself: OF DF TF SF ZF AF PF CF, RF, AC.
pub(crate) const USER_RFLAGS: u64 = RFlags::OVERFLOW_FLAG.bits()
    | RFlags::DIRECTION_FLAG.bits()
    | RFlags::TRAP_FLAG.bits()
    | RFlags::SIGN_FLAG.bits()
    | RFlags::ZERO_FLAG.bits()
    | RFlags::AUXILIARY_CARRY_FLAG.bits()
    | RFlags::PARITY_FLAG.bits()
    | RFlags::CARRY_FLAG.bits()
    | RFlags::RESUME_FLAG.bits()
    | RFlags::ALIGNMENT_CHECK.bits();
/// Flags that user mode starts with and keeps: interrupts on, and bit 1, which is always set.
pub(crate) const ALWAYS_RFLAGS: u64 = 0x202;
