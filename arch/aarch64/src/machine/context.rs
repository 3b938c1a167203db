//! The user-mode state of a thread; entering user mode and returning.

use super::debug::Breakpoints;
use super::esr::{self, Class};
use super::frame::UserFrame;
use super::{entry, features, fp, interrupts, regs, uaccess};
use alloc::boxed::Box;
use arch_boot::trap::{Trap, kernel_trap};
use mm::addr::VirtAddr;

/// The user-mode state of a thread: all registers, FP/SIMD state, TLS base. 16-byte aligned, on the
/// heap.
///
/// FP/SIMD and TPIDR_EL0 stay in the CPU while the thread's own kernel code runs; `fp` records
/// their owner.
#[repr(C, align(16))]
pub struct UserContext {
    pub(crate) frame: UserFrame,
    /// x0 on entry to the last system call, for its restart.
    first_argument: u64,
    /// The thread's FP/SIMD registers and TPIDR_EL0.
    pub(crate) fp: fp::State,
    /// Set by a tracer; a copy for a new thread has none.
    pub(crate) breakpoints: Option<Box<Breakpoints>>,
    /// At a stop for a tracer: it is in a system call, which the tracer may replace.
    pub(crate) in_call: bool,
    /// The pc of an interrupted call that is to be repeated after the stop.
    pub(crate) repeated_at: u64,
}

/// PSTATE bits that user mode may set: NZCV, DIT, SSBS, TCO, BTYPE.
pub(crate) const PSTATE_USER: u64 = 0xf << 28 | 1 << 25 | 1 << 24 | 1 << 12 | 3 << 10;
/// Mode and interrupt masks: 0 is EL0 with interrupts on.
pub(crate) const PSTATE_PRIVILEGED: u64 = 0x1f | 0xf << 6;

impl UserContext {
    /// Fresh registers for execve: everything zero but pc and sp; FP state reset.
    pub fn new(pc: u64, sp: u64) -> Self {
        Self {
            frame: UserFrame::new(pc, sp),
            first_argument: 0,
            fp: fp::State::new(),
            breakpoints: None,
            in_call: false,
            repeated_at: 0,
        }
    }
    /// Enters user mode and returns the reason why it was left. Interrupts are off before and
    /// after.
    #[inline]
    pub fn run(&mut self) -> Trap {
        loop {
            self.fp.own();
            // SAFETY: the context is aligned to 16 and begins with the frame, whose pstate every
            // setter keeps at EL0t with interrupts on.
            let reason = unsafe { entry::enter_user(&mut self.frame) };
            if reason >> 26 == Class::SVC64 {
                self.first_argument = self.frame.x[0];
                return Trap::Syscall;
            }
            if reason >> 26 == Class::DATA_ABORT_USER {
                return esr::abort(reason, fault_address());
            }
            if let Some(trap) = self.decode(reason) {
                return trap;
            }
        }
    }
    /// Decodes a trap; `None` when it was handled here.
    #[inline(never)]
    fn decode(&mut self, reason: u64) -> Option<Trap> {
        if reason >= entry::FROM_SERROR {
            return Some(if reason == entry::FROM_IRQ {
                Trap::Interrupt(interrupts::acknowledge())
            } else {
                self.fatal(reason)
            });
        }
        Some(match reason >> 26 {
            Class::FETCH_ABORT_USER => esr::abort(reason, fault_address()),
            // Reads of ID registers are undefined on some CPUs and trapped on others (FEAT_IDST).
            Class::UNKNOWN | Class::SYSTEM_REGISTER => {
                let instruction = uaccess::load_u32(self.frame.pc).ok()?;
                if features::emulate(instruction, &mut self.frame.x) {
                    self.frame.pc += 4;
                    return None;
                }
                Trap::IllegalInstruction
            }
            Class::PC_ALIGNMENT => Trap::Alignment {
                addr: VirtAddr(self.frame.pc),
            },
            Class::SP_ALIGNMENT => Trap::Alignment {
                addr: VirtAddr(self.frame.sp),
            },
            Class::FLOATING_POINT => Trap::FloatingPoint(esr::fpe_code(reason)),
            Class::BRK => Trap::Breakpoint,
            Class::HW_BREAKPOINT_USER => Trap::HardwareBreak {
                addr: VirtAddr(self.frame.pc),
            },
            Class::WATCHPOINT_USER => Trap::HardwareBreak {
                addr: fault_address(),
            },
            Class::STEP_USER => Trap::SingleStep,
            // Vector extensions that the kernel does not announce, pointer authentication, branch
            // targets, illegal state.
            _ => Trap::IllegalInstruction,
        })
    }
    /// Ends the machine after an error that is not the program's.
    fn fatal(&self, reason: u64) -> ! {
        let what = if reason == entry::FROM_SERROR {
            "system error in user mode"
        } else {
            "fast interrupt in user mode"
        };
        kernel_trap(what, regs::read!("esr_el1"), self.frame.pc, 0, &|f| {
            self.for_each_register(f)
        })
    }
    /// The program counter.
    #[inline]
    pub fn pc(&self) -> u64 {
        self.frame.pc
    }
    /// Sets the program counter.
    #[inline]
    pub fn set_pc(&mut self, pc: u64) {
        self.frame.pc = pc;
    }
    /// The stack pointer.
    #[inline]
    pub fn sp(&self) -> u64 {
        self.frame.sp
    }
    /// Sets the stack pointer.
    #[inline]
    pub fn set_sp(&mut self, sp: u64) {
        self.frame.sp = sp;
    }
    /// The thread pointer, TPIDR_EL0.
    pub fn tls(&self) -> u64 {
        self.fp.tls()
    }
    /// Sets the thread pointer.
    pub fn set_tls(&mut self, tls: u64) {
        self.fp.set_tls(tls);
    }
    /// The system call's number, x8.
    #[inline]
    pub fn syscall_number(&self) -> u64 {
        self.frame.x[8]
    }
    /// The system call's arguments, x0 to x5.
    #[inline]
    pub fn syscall_args(&self) -> [u64; 6] {
        [
            self.frame.x[0],
            self.frame.x[1],
            self.frame.x[2],
            self.frame.x[3],
            self.frame.x[4],
            self.frame.x[5],
        ]
    }
    /// Its arguments, whatever its result is.
    pub fn first_args(&self) -> [u64; 6] {
        let mut args = self.syscall_args();
        args[0] = self.first_argument;
        args
    }
    /// Makes it another one, at its begin; `None` for one that is no call.
    pub fn set_syscall(&mut self, number: u64, args: Option<[u64; 6]>) {
        self.frame.x[8] = number;
        if let Some(args) = args {
            self.frame.x[..6].copy_from_slice(&args);
            self.first_argument = args[0];
        }
    }
    /// Result of the system call: rax / x0; negative errno as Linux does.
    #[inline]
    pub fn set_return(&mut self, value: u64) {
        self.frame.x[0] = value;
    }
    /// The value set by [`Self::set_return`].
    #[inline]
    pub fn return_value(&self) -> u64 {
        self.frame.x[0]
    }
    /// Makes the system call instruction run again with its first arguments (for ERESTARTSYS): pc
    /// back to the instruction, number and first argument restored as they were on entry.
    pub fn restart_syscall(&mut self) {
        self.frame.pc -= 4;
        self.frame.x[0] = self.first_argument;
    }
    /// Registers, for a fatal-signal report and /proc: name and value.
    pub fn for_each_register(&self, f: &mut dyn FnMut(&'static str, u64)) {
        self.frame.for_each_register(f);
        f("tpidr", self.tls());
    }
}

/// The address of an abort, without its tag byte.
#[inline]
fn fault_address() -> VirtAddr {
    VirtAddr(esr::untag(regs::read!("far_el1")))
}

impl Clone for UserContext {
    fn clone(&self) -> Self {
        Self {
            frame: self.frame,
            first_argument: self.first_argument,
            fp: self.fp.clone(),
            breakpoints: None,
            in_call: false,
            repeated_at: 0,
        }
    }
}
