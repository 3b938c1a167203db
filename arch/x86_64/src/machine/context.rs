//! The user-mode state of a thread; entering user mode and returning.

use super::debug::{self, Breakpoints};
use super::entry;
use super::fp::{self, FpArea};
use super::frame::{ALWAYS_RFLAGS, CHANGED, SYSCALL, TrapFrame};
use super::interrupts;
use super::page_fault::{PAGE_FAULT, access_of};
use super::selectors::{USER_CODE, USER_DATA};
use crate::pte::Format;
use alloc::boxed::Box;
use arch_boot::trap::Trap;
use core::arch::asm;
use mm::addr::VirtAddr;
use mm::arch::PteFormat;
use x86_64::registers::control::Cr2;
use x86_64::registers::rflags::RFlags;

/// The user-mode state of a thread: all registers, FP/SIMD state, segments, TLS base. 16-byte
/// aligned, on the heap.
///
/// FP and segment registers stay in the CPU while other kernel code runs; [`FpArea`] holds them
/// otherwise.
#[repr(C)]
pub struct UserContext {
    pub(crate) frame: TrapFrame,
    pub(crate) fp: FpArea,
    /// Set by a tracer; a copy for a new thread has none.
    pub(crate) breakpoints: Option<Box<Breakpoints>>,
}

impl Clone for UserContext {
    fn clone(&self) -> Self {
        UserContext {
            frame: self.frame,
            fp: self.fp.clone(),
            breakpoints: None,
        }
    }
}

impl UserContext {
    /// Fresh registers for execve: everything zero but pc and sp; FP state reset.
    pub fn new(pc: u64, sp: u64) -> Self {
        let frame = TrapFrame {
            vector: CHANGED,
            rip: pc,
            rsp: sp,
            rflags: ALWAYS_RFLAGS,
            cs: u64::from(USER_CODE),
            ss: u64::from(USER_DATA),
            ..TrapFrame::default()
        };
        UserContext {
            frame,
            fp: FpArea::new(),
            breakpoints: None,
        }
    }

    /// Enters user mode and returns the reason why it was left. Interrupts are off before and
    /// after.
    #[inline]
    pub fn run(&mut self) -> Trap {
        self.fp.make_live();
        let frame = &raw mut self.frame;
        // The CPU aligns RSP0 before it pushes.
        debug_assert!(frame.addr().is_multiple_of(16));
        if self.frame.rip >> 47 != 0 {
            return self.run_above();
        }
        // SYSRET leaves rcx = rip and r11 = rflags, faults in kernel mode for a rip that is not
        // canonical (SDM Vol 2, "SYSRET"), and single-steps differently: whatever is unusual goes
        // by IRET.
        let unusual = RFlags::TRAP_FLAG.bits() | RFlags::RESUME_FLAG.bits();
        if self.frame.vector == SYSCALL && self.frame.rflags & unusual == 0 {
            // SAFETY: the frame is ours alone until the call returns, and holds user segments and
            // flags (every setter keeps it so).
            unsafe { enter::<true>(frame) }
        } else {
            debug_assert!(self.frame.is_users());
            // SAFETY: as above; every trap's segments and flags were checked, and rip is canonical:
            // IRET does not fault.
            unsafe { enter::<false>(frame) }
        }
        self.reason()
    }

    /// Enters user mode at a rip that is not in its half.
    #[cold]
    fn run_above(&mut self) -> Trap {
        debug_assert!(self.frame.is_users());
        if self.frame.rip >> 47 != 0x1_ffff {
            return Trap::GeneralProtection;
        }
        // SAFETY: as in `run`.
        unsafe { enter::<false>(&raw mut self.frame) }
        self.reason()
    }

    /// The reason why user mode was left.
    #[inline]
    fn reason(&mut self) -> Trap {
        match self.frame.vector {
            SYSCALL => Trap::Syscall,
            PAGE_FAULT => self.page_fault(),
            _ => self.exception(),
        }
    }

    #[inline]
    fn page_fault(&mut self) -> Trap {
        let addr = Cr2::read_raw();
        // User mode must not learn which kernel addresses are mapped: there, every fault is
        // reported as a protection fault.
        self.frame.error |= u64::from(addr >= Format::USER_END.0);
        let error = self.frame.error;
        let addr = VirtAddr(addr);
        match access_of(error) {
            Some(access) => Trap::PageFault {
                addr,
                access,
                present: error & 1 != 0,
            },
            None => Trap::ProtectionKey { addr },
        }
    }

    /// Decodes a reason other than a system call or a page fault.
    #[inline(never)]
    fn exception(&mut self) -> Trap {
        match self.frame.vector {
            0 => Trap::DivideError,
            1 => debug::trap(self.breakpoints.as_deref_mut(), &mut self.frame),
            3 => Trap::Breakpoint,
            6 => Trap::IllegalInstruction,
            13 => Trap::GeneralProtection,
            16 => Trap::FloatingPoint(fp::x87_code()),
            17 => Trap::Alignment { addr: VirtAddr(0) },
            19 => Trap::FloatingPoint(fp::simd_code()),
            vector @ 32..256 => Trap::Interrupt(interrupts::acknowledge(vector as u8)),
            vector => Trap::Other(vector as u32),
        }
    }

    /// Makes the registers plain values, to be changed: fills in rcx and r11; the return to user
    /// mode is by IRET.
    pub(crate) fn changed(&mut self) {
        if self.frame.vector == SYSCALL {
            self.frame.rcx = self.frame.rip;
            self.frame.r11 = self.frame.rflags;
        }
        self.frame.vector = CHANGED;
    }

    /// Program counter.
    pub fn pc(&self) -> u64 {
        self.frame.rip
    }
    /// Sets the program counter.
    pub fn set_pc(&mut self, pc: u64) {
        self.changed();
        self.frame.rip = pc;
    }
    /// Stack pointer.
    pub fn sp(&self) -> u64 {
        self.frame.rsp
    }
    /// Sets the stack pointer.
    pub fn set_sp(&mut self, sp: u64) {
        self.frame.rsp = sp;
    }
    /// The thread pointer: FS base.
    pub fn tls(&self) -> u64 {
        self.fp.segments().bases().0
    }
    /// Sets the thread pointer; addresses outside user space are ignored (the caller answers
    /// EPERM).
    pub fn set_tls(&mut self, tls: u64) {
        self.fp.set_fs(tls);
    }
    /// GS base (arch_prctl ARCH_GET_GS).
    pub fn gs(&self) -> u64 {
        self.fp.segments().bases().1
    }
    /// Sets GS base (arch_prctl ARCH_SET_GS); as `set_tls`.
    pub fn set_gs(&mut self, gs: u64) {
        self.fp.set_gs(gs);
    }
    /// The number of the system call that came last.
    #[inline]
    pub fn syscall_number(&self) -> u64 {
        self.frame.error
    }
    /// Its arguments.
    #[inline]
    pub fn syscall_args(&self) -> [u64; 6] {
        let f = &self.frame;
        [f.rdi, f.rsi, f.rdx, f.r10, f.r8, f.r9]
    }
    /// Its arguments, whatever its result is.
    pub fn first_args(&self) -> [u64; 6] {
        self.syscall_args()
    }
    /// Makes it another one, at its begin; `None` for one that is no call.
    pub fn set_syscall(&mut self, number: u64, args: Option<[u64; 6]>) {
        let f = &mut self.frame;
        f.error = number;
        if let Some(args) = args {
            [f.rdi, f.rsi, f.rdx, f.r10, f.r8, f.r9] = args;
        }
    }
    /// Result of the system call: rax / x0; negative errno as Linux does.
    #[inline]
    pub fn set_return(&mut self, value: u64) {
        self.frame.rax = value;
    }
    /// The value set by `set_return`.
    pub fn return_value(&self) -> u64 {
        self.frame.rax
    }
    /// Makes the system call instruction run again with its first arguments (for ERESTARTSYS): pc
    /// back to the instruction, number and first argument restored as they were on entry.
    pub fn restart_syscall(&mut self) {
        self.frame.rip -= 2; // SYSCALL is 0f 05
        self.frame.rax = self.frame.error;
    }
    /// Registers, for a fatal-signal report and /proc: name and value.
    pub fn for_each_register(&self, f: &mut dyn FnMut(&'static str, u64)) {
        let mut copy = self.frame;
        if copy.vector == SYSCALL {
            (copy.rcx, copy.r11) = (copy.rip, copy.rflags);
        }
        copy.for_each_register(f);
        let (fs, gs) = self.fp.segments().bases();
        f("fs_base", fs);
        f("gs_base", gs);
    }
}

/// Enters user mode and returns at the next trap.
///
/// # Safety
/// `frame` is valid and not shared; it holds user segments, flags with IF set and IOPL 0, and a
/// canonical rip (SYSRET: one in the lower half).
#[inline(always)]
unsafe fn enter<const SYSRET: bool>(frame: *mut TrapFrame) {
    // SAFETY: the caller's promise; every register that the call changes is named, rbx and rbp are
    // kept on the stack.
    unsafe {
        macro_rules! through {
            ($target:path) => {
                asm!("push rbp", "push rbx", "call {target}", "pop rbx", "pop rbp", target = sym $target,
                    inout("rdi") frame => _, out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("r8") _, out("r9") _,
                    out("r10") _, out("r11") _, out("r12") _, out("r13") _, out("r14") _, out("r15") _)
            };
        }
        if SYSRET {
            through!(entry::enter_by_sysret)
        } else {
            through!(entry::enter_by_iret)
        }
    }
}
