//! Touching any address and running any bad instruction, with the trap as a value, in any thread:
//! the handler of the fault signals continues behind the instruction that trapped, as a kernel's
//! own user access does.
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};

/// The probe of one thread, and its answer. Atomics, because a signal handler writes them.
struct State {
    /// Where to continue after a trap; 0 when none is expected.
    recover: AtomicUsize,
    signal: AtomicI32,
    code: AtomicI32,
    addr: AtomicUsize,
    lsb: AtomicI32,
    key: AtomicI32,
}

thread_local! {
    /// Made at compile time and never dropped, so that a signal handler may use it.
    static STATE: State = const {
        State {
            recover: AtomicUsize::new(0),
            signal: AtomicI32::new(0),
            code: AtomicI32::new(0),
            addr: AtomicUsize::new(0),
            lsb: AtomicI32::new(0),
            key: AtomicI32::new(0),
        }
    };
}

/// Where the address to continue at is stored for this thread.
fn recover() -> *mut usize {
    STATE.with(|state| state.recover.as_ptr())
}

/// A trap, from its signal's information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// SIGSEGV, SIGBUS, SIGILL, SIGFPE or SIGTRAP.
    pub signal: i32,
    /// SEGV_MAPERR, SEGV_ACCERR, ...
    pub code: i32,
    /// si_addr.
    pub addr: usize,
}

/// The result of a probe.
pub type Probe<T> = Result<T, Trap>;

#[cfg(target_arch = "x86_64")]
fn program_counter(c: &mut libc::ucontext_t) -> &mut i64 {
    &mut c.uc_mcontext.gregs[libc::REG_RIP as usize]
}

#[cfg(target_arch = "aarch64")]
fn program_counter(c: &mut libc::ucontext_t) -> &mut u64 {
    &mut c.uc_mcontext.pc
}

extern "C" fn on_trap(sig: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: installed with SA_SIGINFO: the kernel passes a whole siginfo and ucontext.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    // SAFETY: the fault signals carry an address.
    let addr = unsafe { info.si_addr() } as usize;
    // SAFETY: within the 128 bytes of a siginfo, aligned, behind the address (sigaction(2)).
    let lsb = unsafe { *(&raw const *info).cast::<u16>().add(12) };
    // SAFETY: siginfo has 128 bytes; si_pkey, which the library does not name, is at 32.
    let key = unsafe { (&raw const *info).cast::<i32>().add(8).read() };
    STATE.with(|state| {
        let recover = state.recover.swap(0, SeqCst);
        if recover == 0 {
            // Not a probe: fault again with the default action, which ends the process.
            let _ = super::sig::default(sig);
            return;
        }
        state.signal.store(sig, SeqCst);
        state.code.store(info.si_code, SeqCst);
        state.addr.store(addr, SeqCst);
        state.lsb.store(lsb.into(), SeqCst);
        state.key.store(key, SeqCst);
        *program_counter(context) = recover as _;
    });
}

/// si_pkey of the thread's last trap.
pub fn last_key() -> i32 {
    STATE.with(|state| state.key.load(SeqCst))
}

/// Handles the fault signals of this process by the probes; on the alternate stack where one is
/// set.
pub fn arm() {
    for sig in [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
    ] {
        let _ = super::sig::handle(sig, on_trap, libc::SA_ONSTACK);
    }
}

/// si_addr_lsb of this thread's last trap, which means something after a memory error.
pub fn lsb() -> u16 {
    STATE.with(|state| state.lsb.load(SeqCst)) as u16
}

fn outcome<T>(value: T) -> Probe<T> {
    STATE.with(|state| {
        state.recover.store(0, SeqCst);
        match state.signal.swap(0, SeqCst) {
            0 => Ok(value),
            signal => Err(Trap {
                signal,
                code: state.code.load(SeqCst),
                addr: state.addr.load(SeqCst),
            }),
        }
    })
}

/// One instruction between storing the address of label 2 to [`recover`]'s place and label 2
/// itself.
macro_rules! probe {
    ($x86:literal, $arm:literal $(, $operand:tt($reg:tt) $value:expr)* $(; $($rest:tt)*)?) => {{
        // SAFETY: a trap in the instruction continues at label 2 with all registers as they were;
        // what it writes when it does not trap is what the caller asked for.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "lea {t}, [rip + 2f]", "mov qword ptr [{r}], {t}", $x86, "2:",
                r = in(reg) recover(), t = out(reg) _, $($($rest)*)?
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                "adr {t}, 2f", "str {t}, [{r}]", $arm, "2:",
                r = in(reg) recover(), t = out(reg) _, $($($rest)*)?
            );
        }
    }};
}

/// Reads the byte at `at`.
pub fn read(at: usize) -> Probe<u8> {
    let mut value = 0usize;
    probe!("movzx {v:e}, byte ptr [{p}]", "ldrb {v:w}, [{p}]"; p = in(reg) at, v = inout(reg) value,);
    outcome(value as u8)
}

/// Writes the byte at `at`: for memory that holds no Rust object, or none at all.
pub fn write(at: usize, value: u8) -> Probe<()> {
    probe!("mov byte ptr [{p}], {v:l}", "strb {v:w}, [{p}]"; p = in(reg) at, v = in(reg) value as usize,);
    outcome(())
}

/// Reads the aligned 64-bit word at `at`.
pub fn load(at: usize) -> Probe<u64> {
    let mut value = 0u64;
    probe!("mov {v}, qword ptr [{p}]", "ldr {v}, [{p}]"; p = in(reg) at, v = inout(reg) value,);
    outcome(value)
}

/// Writes the aligned 64-bit word at `at`: for memory that holds no Rust object, or none at all.
pub fn store(at: usize, value: u64) -> Probe<()> {
    probe!("mov qword ptr [{p}], {v}", "str {v}, [{p}]"; p = in(reg) at, v = in(reg) value,);
    outcome(())
}

/// Calls the code at `at`, which keeps the C rules if it is code at all.
pub fn execute(at: usize) -> Probe<()> {
    // A call may have pushed its return address before the trap: the stack pointer is put back
    // either way.
    // SAFETY: as in `probe!`; caller-saved registers are named by the C clobbers.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "mov r12, rsp", "and rsp, -16",
            "lea r13, [rip + 2f]", "mov qword ptr [{r}], r13", "call {p}", "2:", "mov rsp, r12",
            r = in(reg) recover(), p = in(reg) at, out("r12") _, out("r13") _, clobber_abi("C"),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "adr x9, 2f", "str x9, [{r}]", "blr {p}", "2:",
            r = in(reg) recover(), p = in(reg) at, out("x9") _, clobber_abi("C"),
        );
    }
    outcome(())
}

/// An instruction that no processor of this kind has.
pub fn undefined() -> Probe<()> {
    probe!("ud2", "udf #0");
    outcome(())
}

/// An instruction only the kernel may run: SIGSEGV on x86_64 (general protection), SIGILL on
/// aarch64.
pub fn privileged() -> Probe<()> {
    probe!("cli", "msr vbar_el1, xzr");
    outcome(())
}

/// The debugger's breakpoint.
pub fn breakpoint() -> Probe<()> {
    probe!("int3", "brk #0");
    outcome(())
}

/// Divides by zero: SIGFPE on x86_64; aarch64 answers 0 without a trap.
pub fn divide_by_zero() -> Probe<()> {
    probe!(
        "xor edx, edx\n mov eax, 1\n div {z:e}", "udiv {z}, {z}, {z}";
        z = in(reg) 0usize,
        #[cfg(target_arch = "x86_64")] out("rax") _, #[cfg(target_arch = "x86_64")] out("rdx") _,
    );
    outcome(())
}

/// Uses stack without end. Never returns in a kernel that guards it.
#[inline(never)]
pub fn overflow_stack(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if depth == u64::MAX {
        frame[0]
    } else {
        overflow_stack(std::hint::black_box(depth + 1)) + frame[1]
    }
}
