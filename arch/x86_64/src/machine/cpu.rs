//! The CPU: context switch, idle, random numbers, backtraces; `power` and `rtc` are separate.

use super::{features as cpu_features, fp, interrupts, percpu, pkru, uaccess};
use arch_boot::online;
use arch_boot::trap::Irq;
use core::arch::{asm, global_asm};

pub use super::power::{exit, reboot, stop};
pub use super::rtc::wall_clock;

pub use super::identify::{describe, features, hwcap};

/// uname -m and AT_PLATFORM.
pub const NAME: &str = "x86_64";

/// A kernel thread that is not running: its stack pointer; the rest is on its stack.
pub struct KernelContext {
    sp: u64,
    /// What the thread's protection keys refuse.
    pkru: u32,
}

global_asm!(
    r#"
    .pushsection .text.switch, "ax"
    .globl cpu_switch
    // rdi: where the running thread's stack pointer goes, rsi: where the next one's is. The rest is
    // caller-saved.
cpu_switch:
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    mov [rdi], rsp
    mov rsp, [rsi]
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret
    // A new thread's first instruction: r12 the function, r13 its argument.
    .globl cpu_first
cpu_first:
    mov rdi, r13
    call r12
    ud2
    .popsection
    "#
);

unsafe extern "C" {
    fn cpu_switch(from: *mut u64, to: *const u64);
    fn cpu_first();
}

impl KernelContext {
    /// A context that calls `entry(argument)` on a new stack whose top is `stack_top`. `entry`
    /// never returns. Its protection keys are those of the running thread.
    pub fn new(stack_top: u64, entry: extern "C" fn(usize) -> !, argument: usize) -> Self {
        let first = cpu_first as *const () as u64;
        // r15 r14 r13 r12 rbx rbp, the return address, and two words of 0 that end a backtrace.
        let words = [
            0,
            0,
            argument as u64,
            entry as *const () as u64,
            0,
            0,
            first,
            0,
            0,
        ];
        // `cpu_first` starts with both words of 0 on the stack: aligned to 16, as a call requires
        // (System V ABI, 3.2.2).
        let sp = (stack_top & !15) - size_of_val(&words) as u64;
        let at = core::ptr::with_exposed_provenance_mut::<[u64; 9]>(sp as usize);
        // SAFETY: the caller hands over a mapped stack that is not in use.
        unsafe { at.write(words) };
        let pkru = pkru::read();
        KernelContext { sp, pkru }
    }

    /// Where the thread waits, for a report: its pc and its frame pointer, as `cpu_switch` has left
    /// them.
    pub fn waits_at(&self) -> Option<(u64, u64)> {
        let word = |at: u64| uaccess::probe(self.sp + at * 8);
        Some((word(6)?, word(5)?))
    }

    /// The context of the thread that runs now, to be filled by the first switch.
    pub const fn running() -> Self {
        let pkru = pkru::INITIAL;
        Self { sp: 0, pkru }
    }
}

/// Saves the running thread into `from` and switches to `to`, whose kernel stack ends at
/// `to_stack_top` (for traps from user mode; on this machine they push into the `UserContext`
/// instead, see `entry`).
///
/// # Safety
/// `to` was made by `new` or saved by `switch`, and both outlive the switch.
pub unsafe fn switch(from: *mut KernelContext, to: *const KernelContext, to_stack_top: u64) {
    let _ = to_stack_top;
    // SAFETY: the caller's promise.
    unsafe {
        match online::several() {
            true => release_and_switch(from, to),
            // With one CPU the state stays in it until another thread needs the registers.
            false => switch_keys_and_stack(from, to),
        }
    }
}

/// [`switch`] where another CPU may load the state of `from` next. Out of line, so that one CPU
/// saves nothing for the call before its own way.
#[inline(never)]
unsafe fn release_and_switch(from: *mut KernelContext, to: *const KernelContext) {
    fp::release();
    // SAFETY: the caller's promise.
    unsafe { switch_keys_and_stack(from, to) }
}

/// What is left of [`switch`]: PKRU, on CPUs that have it, and the stack.
#[inline(always)]
unsafe fn switch_keys_and_stack(from: *mut KernelContext, to: *const KernelContext) {
    if let Some(pkru) = pkru::read_if_there() {
        // SAFETY: the caller's promise.
        let next = unsafe {
            (*from).pkru = pkru;
            (*to).pkru
        };
        if next != pkru {
            pkru::write(next);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { cpu_switch(&raw mut (*from).sp, &raw const (*to).sp) }
}

/// Halts until an interrupt arrives and returns its source; interrupts are off before and after.
pub fn wait_for_interrupt() -> Irq {
    loop {
        // SAFETY: STI takes effect after the next instruction, so an interrupt cannot slip in
        // before HLT; the handler (`kernel_traps::from_kernel`) returns with interrupts off.
        unsafe { asm!("sti", "hlt", "cli") };
        if let Some(irq) = take() {
            return irq;
        }
    }
}

/// Takes an interrupt that is already pending, without waiting.
pub fn poll_interrupt() -> Option<Irq> {
    // SAFETY: as in `wait_for_interrupt`.
    unsafe { asm!("sti", "nop", "nop", "cli") };
    take()
}

fn take() -> Option<Irq> {
    // SAFETY: this CPU's own field; interrupts are off.
    let vector = unsafe { core::mem::take(&mut (*percpu::this()).irq) };
    (vector != 0).then(|| interrupts::acknowledge(vector as u8))
}

/// 64 bits from the CPU's generator, if it has one.
pub fn random() -> Option<u64> {
    let have = cpu_features::get();
    // SDM Vol 1, 7.3.17: carry says whether there was a number; ten tries are enough for RDRAND on
    // a healthy CPU.
    for _ in 0..10 {
        let (value, ok): (u64, u8);
        // SAFETY: only executed when CPUID reports the instruction.
        unsafe {
            if have.rdseed {
                asm!("rdseed {}", "setc {}", out(reg) value, out(reg_byte) ok, options(nomem, nostack));
            } else if have.rdrand {
                asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) ok, options(nomem, nostack));
            } else {
                return None;
            }
        }
        if ok != 0 {
            return Some(value);
        }
    }
    None
}

/// Calls `f` with each return address from the running frame outwards (frame pointers, bounded,
/// never faults). `from`: the frame pointer to start at, else the caller's.
pub fn backtrace(from: Option<u64>, f: &mut dyn FnMut(u64)) {
    const DEEPEST: usize = 64;
    let mut fp = match from {
        Some(fp) => fp,
        None => {
            let fp: u64;
            // SAFETY: reads a register.
            unsafe { asm!("mov {}, rbp", out(reg) fp, options(nomem, nostack, preserves_flags)) };
            fp
        }
    };
    for _ in 0..DEEPEST {
        // Kernel stacks only, and always outwards.
        if fp < arch_boot::DIRECT_MAP || !fp.is_multiple_of(8) {
            return;
        }
        let (Some(next), Some(pc)) = (uaccess::probe(fp), uaccess::probe(fp + 8)) else {
            return;
        };
        if pc == 0 {
            return;
        }
        f(pc);
        if next <= fp {
            return;
        }
        fp = next;
    }
}
