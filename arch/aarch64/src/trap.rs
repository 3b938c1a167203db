//! Traps. User mode is a call: `UserContext::run` enters it and returns with the reason it came
//! back.

use super::esr::{self, Class};
use super::vectors::{self, FROM_IRQ};
use super::{fp, idregs, interrupts, regs, uaccess};
use arch_boot::trap::{kernel_fault, kernel_trap};
use mm::addr::VirtAddr;

pub use super::sigframe::{SIGRETURN_CODE, SIGRETURN_PAGE, min_signal_stack};
pub use arch_boot::trap::{Irq, SignalFrame, Trap};

/// The user half of a thread: all registers, FP/SIMD state, TLS base. 16-byte aligned, on the heap.
///
/// FP/SIMD and TPIDR_EL0 stay in the CPU while the thread's own kernel code runs; `fp` says who
/// owns them.
#[repr(C, align(16))]
pub struct UserContext {
    /// x0 to x30. The vectors know these offsets, up to `kernel_sp`.
    pub(crate) x: [u64; 31],
    pub(crate) sp: u64,
    pub(crate) pc: u64,
    pub(crate) pstate: u64,
    /// The kernel stack while user mode runs.
    pub(crate) kernel_sp: u64,
    /// x0 at the last system call, for its restart.
    first_argument: u64,
    /// What belongs in the CPU's FP/SIMD registers and TPIDR_EL0.
    pub(crate) fp: fp::State,
}

/// PSTATE bits that user mode may set: NZCV, DIT, SSBS, TCO, BTYPE.
pub(crate) const PSTATE_USER: u64 = 0xf << 28 | 1 << 25 | 1 << 24 | 1 << 12 | 3 << 10;
/// Mode and interrupt masks: 0 is EL0 with interrupts on.
pub(crate) const PSTATE_PRIVILEGED: u64 = 0x1f | 0xf << 6;

impl UserContext {
    /// Fresh registers for execve: everything zero but pc and sp; FP state reset.
    pub fn new(pc: u64, sp: u64) -> Self {
        Self {
            x: [0; 31],
            sp,
            pc,
            pstate: 0,
            kernel_sp: 0,
            first_argument: 0,
            fp: fp::State::new(),
        }
    }
    /// Enters user mode and comes back with the reason. Interrupts are off before and after.
    #[inline]
    pub fn run(&mut self) -> Trap {
        loop {
            self.fp.own();
            let reason = vectors::enter_user(self);
            if reason >> 26 == Class::SVC64 {
                self.first_argument = self.x[0];
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
    /// What the trap means; `None` when it was dealt with here.
    #[inline(never)]
    fn decode(&mut self, reason: u64) -> Option<Trap> {
        if reason >= vectors::FROM_SERROR {
            return Some(if reason == FROM_IRQ {
                Trap::Interrupt(interrupts::acknowledge())
            } else {
                self.fatal(reason)
            });
        }
        Some(match reason >> 26 {
            Class::FETCH_ABORT_USER => esr::abort(reason, fault_address()),
            // Reads of ID registers are undefined on some CPUs and trapped on others (FEAT_IDST).
            Class::UNKNOWN | Class::SYSTEM_REGISTER => {
                let instruction = uaccess::load_u32(self.pc).ok()?;
                if idregs::emulate(instruction, &mut self.x) {
                    self.pc += 4;
                    return None;
                }
                Trap::IllegalInstruction
            }
            Class::PC_ALIGNMENT => Trap::Alignment {
                addr: VirtAddr(self.pc),
            },
            Class::SP_ALIGNMENT => Trap::Alignment {
                addr: VirtAddr(self.sp),
            },
            Class::FLOATING_POINT => Trap::FloatingPoint(esr::fpe_code(reason)),
            Class::BRK | Class::HW_BREAKPOINT_USER => Trap::Breakpoint,
            Class::STEP_USER => Trap::SingleStep,
            // Vector extensions that the kernel does not announce, pointer authentication, branch
            // targets, illegal state.
            _ => Trap::IllegalInstruction,
        })
    }
    /// User mode was stopped by something that is the machine's fault.
    fn fatal(&self, reason: u64) -> ! {
        let what = if reason == vectors::FROM_SERROR {
            "system error in user mode"
        } else {
            "fast interrupt in user mode"
        };
        kernel_trap(what, regs::read!("esr_el1"), self.pc, 0, &|f| {
            self.for_each_register(f)
        })
    }
    /// Where user mode goes on.
    #[inline]
    pub fn pc(&self) -> u64 {
        self.pc
    }
    /// Sets where user mode goes on.
    #[inline]
    pub fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }
    /// The stack pointer.
    #[inline]
    pub fn sp(&self) -> u64 {
        self.sp
    }
    /// Sets the stack pointer.
    #[inline]
    pub fn set_sp(&mut self, sp: u64) {
        self.sp = sp;
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
        self.x[8]
    }
    /// The system call's arguments, x0 to x5.
    #[inline]
    pub fn syscall_args(&self) -> [u64; 6] {
        [
            self.x[0], self.x[1], self.x[2], self.x[3], self.x[4], self.x[5],
        ]
    }
    /// Result of the system call: rax / x0; negative errno as Linux does.
    #[inline]
    pub fn set_return(&mut self, value: u64) {
        self.x[0] = value;
    }
    /// What [`Self::set_return`] set.
    #[inline]
    pub fn return_value(&self) -> u64 {
        self.x[0]
    }
    /// Makes the system call instruction run again with its first arguments (for ERESTARTSYS): pc
    /// back to the instruction, number and first argument restored as they were on entry.
    pub fn restart_syscall(&mut self) {
        self.pc -= 4;
        self.x[0] = self.first_argument;
    }
    /// Registers, for a fatal-signal report and /proc: name and value.
    pub fn for_each_register(&self, f: &mut dyn FnMut(&'static str, u64)) {
        f("pc", self.pc);
        f("sp", self.sp);
        for (name, value) in NAMES.iter().zip(self.x) {
            f(name, value);
        }
        f("pstate", self.pstate);
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
            fp: self.fp.clone(),
            ..*self
        }
    }
}

const NAMES: [&str; 31] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
    "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
    "x28", "x29", "x30",
];

/// What TPIDR_EL1 points at, for the vectors and the owner of the FP registers. One for each CPU.
#[repr(C, align(64))]
pub(crate) struct PerCpu {
    /// Top of the stack for traps that cannot use the running one.
    pub(crate) emergency: u64,
    /// A register's value while a vector looks around.
    pub(crate) scratch: u64,
    /// Whose state is in the FP/SIMD registers; null for nobody's.
    pub(crate) fp_owner: *mut fp::State,
}

#[repr(C, align(16))]
struct BootEmergency([u8; 8192]);
static mut BOOT_EMERGENCY: BootEmergency = BootEmergency([0; 8192]);
static mut BOOT_CPU: PerCpu = PerCpu {
    emergency: 0,
    scratch: 0,
    fp_owner: core::ptr::null_mut(),
};

/// This CPU's data.
#[inline]
pub(crate) fn per_cpu() -> *mut PerCpu {
    regs::read!("tpidr_el1") as *mut PerCpu
}

/// Vectors and the per-CPU pointer, before anything can go wrong.
pub(crate) fn init_early() {
    regs::write!("tpidr_el1", &raw mut BOOT_CPU as u64);
    set_emergency_stack(&raw mut BOOT_EMERGENCY as u64 + size_of::<BootEmergency>() as u64);
    regs::write!("vbar_el1", &raw const vectors::__vectors as u64);
    regs::isb();
}

/// From here on stack overflows are reported on the stack with this top.
pub(crate) fn set_emergency_stack(top: u64) {
    // SAFETY: this CPU's own data; the vectors that read it run on this CPU.
    unsafe { (*per_cpu()).emergency = top };
}

/// What the vectors save of the kernel's own registers.
#[repr(C, align(16))]
pub(crate) struct Frame {
    x: [u64; 31],
    sp: u64,
    pc: u64,
    pstate: u64,
    esr: u64,
    far: u64,
}

impl Frame {
    fn report(&self, what: &str, addr: u64) -> ! {
        kernel_trap(what, addr, self.pc, self.x[29], &|f| {
            for (name, value) in NAMES.iter().zip(self.x) {
                f(name, value);
            }
            f("sp", self.sp);
            f("pstate", self.pstate);
            f("esr", self.esr);
            f("far", self.far);
        })
    }
}

/// A synchronous exception in kernel mode: a fault in uaccess, which has a way out, or our own
/// mistake.
pub(crate) extern "C" fn el1_sync(frame: &mut Frame) {
    let class = frame.esr >> 26;
    if let Some(fixup) = uaccess::fixup(frame.pc) {
        if class == Class::DATA_ABORT_KERNEL {
            let addr = VirtAddr(esr::untag(frame.far));
            if !(esr::may_resolve(frame.esr) && kernel_fault(addr, esr::access(frame.esr))) {
                frame.pc = fixup;
            }
            return;
        }
        if class == Class::UNKNOWN {
            frame.pc = fixup;
            return;
        }
    }
    frame.report(esr::name(frame.esr), frame.far)
}

/// The kernel stack ran into its guard page.
pub(crate) extern "C" fn el1_overflow(frame: &mut Frame) -> ! {
    frame.report("kernel stack overflow", frame.far)
}

/// An exception that kernel mode never takes.
pub(crate) extern "C" fn el1_stray(frame: &mut Frame, kind: usize) -> ! {
    frame.report(vectors::KINDS[kind & 3], frame.esr)
}
