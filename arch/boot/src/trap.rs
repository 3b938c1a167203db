//! Traps from user mode, and the signal frames that the kernel builds: the types are the same on
//! both machines.

use core::fmt::Display;
use mm::addr::VirtAddr;
use mm::fault::Access;

/// An interrupt, already acknowledged at the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Irq {
    /// The deadline of `timer::set_deadline` is reached.
    Timer,
    /// The console has bytes: read until `None`.
    Serial,
    /// Another CPU sent it.
    Ipi,
    /// None was pending.
    Spurious,
    /// An interrupt without a handler: its vector (x86_64) or its number at the controller
    /// (aarch64).
    Other(u32),
}

/// The reason why user mode was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// A system call.
    Syscall,
    /// An interrupt.
    Interrupt(Irq),
    /// A page fault; on aarch64 a translation, access flag or permission fault.
    PageFault {
        /// The address that was used, without its tag byte.
        addr: VirtAddr,
        /// What the instruction did.
        access: Access,
        /// The entry was there but forbade the access.
        present: bool,
    },
    /// SIGSEGV SEGV_PKUERR: the page is there, and the thread's register of protection keys refuses
    /// its key.
    ProtectionKey {
        /// The address that was used.
        addr: VirtAddr,
    },
    /// SIGILL ILL_ILLOPN at pc (undefined or privileged on aarch64).
    IllegalInstruction,
    /// SIGSEGV SI_KERNEL addr 0 (x86 #GP, also privileged instructions; non-canonical).
    GeneralProtection,
    /// SIGFPE FPE_INTDIV (x86 #DE).
    DivideError,
    /// SIGFPE, si_code (x87/SSE/aarch64 FP exceptions).
    FloatingPoint(i32),
    /// SIGTRAP TRAP_BRKPT.
    Breakpoint,
    /// SIGTRAP TRAP_TRACE.
    SingleStep,
    /// SIGTRAP TRAP_HWBKPT: a breakpoint or watchpoint of the CPU.
    HardwareBreak {
        /// The instruction of a breakpoint; what was accessed (aarch64), or the next instruction
        /// (x86_64), for a watchpoint.
        addr: VirtAddr,
    },
    /// SIGBUS BUS_ADRALN (alignment, stack or pc misaligned).
    Alignment {
        /// The address that was used: of the data, the stack pointer or the pc; 0 when the CPU does
        /// not report it.
        addr: VirtAddr,
    },
    /// x86 #OF/#BR/#NM..., bounds: SIGSEGV.
    Other(u32),
}

/// What a machine needs to build the frame of a signal's handler on the user's stack.
pub struct SignalFrame<'a> {
    /// The signal's number.
    pub signo: i32,
    /// struct siginfo, 128 bytes, as the user will see it.
    pub siginfo: &'a [u8; 128],
    /// Where the handler starts.
    pub handler: u64,
    /// Where the handler returns to (SA_RESTORER's function); 0 for none.
    pub restorer: u64,
    /// sa_mask to be restored (uc_sigmask).
    pub mask: u64,
    /// uc_stack: sp, flags, size.
    pub altstack: [u64; 3],
    /// Where the frame goes: below this address (the interrupted sp less the red zone is taken when
    /// `None`).
    pub stack: Option<u64>,
    /// Fault address for the mcontext (cr2 / fault_address), 0 otherwise.
    pub fault_addr: u64,
}

/// Where a thread stops for its tracer, which decides what its registers tell of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopAt {
    /// At the begin or the end of a system call, or within one.
    Call,
    /// After a call that is to be repeated: the error that the kernel has for it (ERESTARTSYS ...).
    Interrupted(u16),
    /// Elsewhere.
    Elsewhere,
}

/// Why registers do not take a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// EIO: a privileged value, or no such register.
    Io,
    /// EINVAL: the bytes make no sense.
    Invalid,
}

// Defined in the kernel (`kernel/src/entry/boot.rs`).
unsafe extern "Rust" {
    /// Resolves a page fault taken in kernel mode inside a uaccess routine. `true`: resolved, try
    /// again; `false`: the routine returns an error.
    pub safe fn kernel_fault(addr: VirtAddr, access: Access) -> bool;
    /// Waits for `what` another CPU does until it is `done`; answers nobody meanwhile. With any
    /// lock held.
    pub safe fn kernel_wait(what: &dyn Display, done: &mut dyn FnMut() -> bool);
    /// Reports any other trap in kernel mode, which is a bug, and ends the machine. `what` names
    /// it; pc and frame pointer for the backtrace; registers by the callback, each with its name.
    pub safe fn kernel_trap(
        what: &str,
        addr: u64,
        pc: u64,
        fp: u64,
        registers: &dyn Fn(&mut dyn FnMut(&'static str, u64)),
    ) -> !;
}
