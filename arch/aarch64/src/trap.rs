//! SKELETON: traps. User mode is a call: `UserContext::run` enters it and returns with the reason it came back.
use mm::addr::VirtAddr;
use mm::fault::Access;

/// An interrupt, already acknowledged at the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Irq { Timer, Serial, Spurious, Other(u32) }

/// Why user mode came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    Syscall,
    Interrupt(Irq),
    PageFault { addr: VirtAddr, access: Access, /// The entry was there but forbade the access.
        present: bool },
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
    /// SIGBUS BUS_ADRALN (alignment, stack or pc misaligned).
    Alignment { addr: VirtAddr },
    /// x86 #OF/#BR/#NM..., bounds: SIGSEGV.
    Other(u32),
}

/// The user half of a thread: all registers, FP/SIMD state, TLS base. 16-byte aligned, on the heap.
#[derive(Clone)]
pub struct UserContext { _private: () }

impl UserContext {
    /// Fresh registers for execve: everything zero but pc and sp; FP state reset.
    pub fn new(pc: u64, sp: u64) -> Self { let _ = (pc, sp); todo!() }
    /// Enters user mode and comes back with the reason. Interrupts are off before and after.
    pub fn run(&mut self) -> Trap { todo!() }
    pub fn pc(&self) -> u64 { todo!() }
    pub fn set_pc(&mut self, pc: u64) { let _ = pc; todo!() }
    pub fn sp(&self) -> u64 { todo!() }
    pub fn set_sp(&mut self, sp: u64) { let _ = sp; todo!() }
    pub fn tls(&self) -> u64 { todo!() }
    pub fn set_tls(&mut self, tls: u64) { let _ = tls; todo!() }
    pub fn syscall_number(&self) -> u64 { todo!() }
    pub fn syscall_args(&self) -> [u64; 6] { todo!() }
    /// Result of the system call: rax / x0; negative errno as Linux does.
    pub fn set_return(&mut self, value: u64) { let _ = value; todo!() }
    pub fn return_value(&self) -> u64 { todo!() }
    /// Makes the system call instruction run again with its first arguments (for ERESTARTSYS): pc back to the instruction, number and
    /// first argument restored as they were on entry.
    pub fn restart_syscall(&mut self) { todo!() }
    /// Writes Linux's rt_sigframe for this architecture (siginfo, ucontext with mask, FP state) below `stack`, and makes the
    /// context enter `handler(signo, &siginfo, &ucontext)`; returns to `restorer` (x86_64: SA_RESTORER, required; aarch64: the
    /// restorer, or the sigreturn trampoline page when it is 0). `Err(())` when the frame cannot be written (SIGSEGV then).
    pub fn push_signal_frame(&mut self, frame: &SignalFrame<'_>) -> Result<(), ()> { let _ = frame; todo!() }
    /// rt_sigreturn: restores registers and FP state from the frame at sp, refusing privileged bits; returns the saved mask and the saved altstack (sp, flags, size).
    pub fn pop_signal_frame(&mut self) -> Result<(u64, [u64; 3]), ()> { todo!() }
    /// Registers, for a fatal-signal report and /proc: name and value.
    pub fn for_each_register(&self, f: &mut dyn FnMut(&'static str, u64)) { let _ = f; todo!() }
}

/// What `push_signal_frame` needs.
pub struct SignalFrame<'a> {
    pub signo: i32,
    /// struct siginfo, 128 bytes, as the user will see it.
    pub siginfo: &'a [u8; 128],
    pub handler: u64,
    pub restorer: u64,
    /// sa_mask to be restored (uc_sigmask).
    pub mask: u64,
    /// uc_stack: sp, flags, size.
    pub altstack: [u64; 3],
    /// Where the frame goes: below this address (the interrupted sp less the red zone is taken when `None`).
    pub stack: Option<u64>,
    /// Fault address for the mcontext (cr2 / fault_address), 0 otherwise.
    pub fault_addr: u64,
}

/// A page fault taken in kernel mode inside a uaccess routine. Defined in the kernel; `true`: resolved, try again;
/// `false`: the uaccess routine returns an error.
unsafe extern "Rust" {
    pub safe fn kernel_fault(addr: VirtAddr, access: Access) -> bool;
    /// Any other trap in kernel mode: our own mistake. `what` names it; pc, sp (frame pointer) for the backtrace; registers by the callback.
    pub safe fn kernel_trap(what: &str, addr: u64, pc: u64, fp: u64, registers: &dyn Fn(&mut dyn FnMut(&'static str, u64))) -> !;
}
