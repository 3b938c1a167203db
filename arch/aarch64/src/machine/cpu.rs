//! The CPU: context switch, idle, random numbers, backtraces; `power` and `rtc` are separate.

use super::{features as cpu_features, fp, interrupts, regs};
use arch_boot::trap::Irq;
use core::arch::{asm, global_asm};

pub use super::identify::{describe, features, hwcap};
pub use super::power::{exit, reboot, stop};
pub(crate) use super::power::{last_words, set_psci};
pub(crate) use super::rtc::set_rtc;
pub use super::rtc::wall_clock;

/// uname -m and AT_PLATFORM.
pub const NAME: &str = "aarch64";

/// A kernel thread that is not running: its stack pointer; the rest is on its stack.
#[repr(C)]
pub struct KernelContext {
    sp: u64,
}

impl KernelContext {
    /// A context that calls `entry(argument)` on a new stack whose top is `stack_top`. `entry`
    /// never returns.
    pub fn new(stack_top: u64, entry: extern "C" fn(usize) -> !, argument: usize) -> Self {
        // What `__switch` pops: x29, x30, x19 to x28.
        let mut frame = [0u64; 12];
        frame[1] = __thread_start as *const () as u64;
        frame[2] = entry as usize as u64;
        frame[3] = argument as u64;
        let sp = (stack_top & !15) - size_of_val(&frame) as u64;
        // SAFETY: the caller gives a new stack that ends at `stack_top`.
        unsafe { (sp as *mut [u64; 12]).write(frame) };
        Self { sp }
    }
    /// Where the thread waits, for a report: its pc and its frame pointer, as `__switch` has left
    /// them.
    pub fn waits_at(&self) -> Option<(u64, u64)> {
        record(self.sp).map(|[fp, pc]| (pc, fp))
    }

    /// The context of the thread that runs now, to be filled by the first switch.
    pub const fn running() -> Self {
        Self { sp: 0 }
    }
}

global_asm!(
    r#"
    .section .text.switch, "ax"
    // __switch(x0 = from, x1 = to)
    .global __switch
__switch:
    stp     x29, x30, [sp, #-96]!
    stp     x19, x20, [sp, #16]
    stp     x21, x22, [sp, #32]
    stp     x23, x24, [sp, #48]
    stp     x25, x26, [sp, #64]
    stp     x27, x28, [sp, #80]
    mov     x2, sp
    str     x2, [x0]
    ldr     x2, [x1]
    mov     sp, x2
    ldp     x19, x20, [sp, #16]
    ldp     x21, x22, [sp, #32]
    ldp     x23, x24, [sp, #48]
    ldp     x25, x26, [sp, #64]
    ldp     x27, x28, [sp, #80]
    ldp     x29, x30, [sp], #96
    ret
    // The first thing a thread does: x19(x20), with the end of the chain of frames above it.
    .global __thread_start
__thread_start:
    mov     x0, x20
    mov     x29, xzr
    mov     x30, xzr
    br      x19
    .previous
    "#
);

unsafe extern "C" {
    fn __switch(from: *mut KernelContext, to: *const KernelContext);
    fn __thread_start();
}

/// Saves the running thread into `from` and switches to `to`, whose kernel stack ends at
/// `to_stack_top` (for traps from user mode).
///
/// # Safety
/// `to` was made by `new` or saved by `switch`, and both outlive the switch.
pub unsafe fn switch(from: *mut KernelContext, to: *const KernelContext, _to_stack_top: u64) {
    fp::release();
    // SAFETY: the caller's contract. Traps from user mode find the stack in the context, so its top
    // is not needed.
    unsafe { __switch(from, to) }
}

/// Halts until an interrupt arrives and returns its source; interrupts are off before and after.
pub fn wait_for_interrupt() -> Irq {
    loop {
        if let Some(irq) = poll_interrupt() {
            return irq;
        }
        // SAFETY: wakes for a pending interrupt although it is masked.
        unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
    }
}

/// Takes an interrupt that is already pending, without waiting.
pub fn poll_interrupt() -> Option<Irq> {
    match interrupts::acknowledge() {
        Irq::Spurious => None,
        irq => Some(irq),
    }
}

/// 64 bits from the CPU's generator, if it has one.
pub fn random() -> Option<u64> {
    if !cpu_features::has_rng() {
        return None;
    }
    let (value, good): (u64, u64);
    // SAFETY: RNDR exists; it sets Z when it has nothing to give.
    unsafe {
        asm!("mrs {0}, S3_3_C2_C4_0", "cset {1}, ne", out(reg) value, out(reg) good, options(nomem, nostack))
    };
    (good != 0).then_some(value)
}

/// Most frames that [`backtrace`] follows.
const BACKTRACE_MAX: usize = 64;

/// Whether the kernel can read the frame record at `at`, by an address translation instruction.
fn readable(at: u64) -> bool {
    let par: u64;
    // SAFETY: AT only translates; PAR_EL1 has no other user outside the vectors.
    unsafe {
        asm!("at s1e1r, {1}", "isb", "mrs {0}, par_el1", out(reg) par, in(reg) at, options(nostack, preserves_flags))
    };
    at >> 63 == 1 && at.is_multiple_of(16) && par & 1 == 0
}

/// The frame record at `at`, the next one's address and a return address; `None`: it cannot be
/// read.
fn record(at: u64) -> Option<[u64; 2]> {
    // SAFETY: found readable; a record is 16 bytes, aligned, so it does not cross a page.
    readable(at).then(|| unsafe { (at as *const [u64; 2]).read_volatile() })
}

/// Calls `f` with each return address from the running frame outwards (frame pointers, bounded,
/// never faults). `from`: pc and frame pointer to start with instead.
pub fn backtrace(from: Option<u64>, f: &mut dyn FnMut(u64)) {
    let mut fp = match from {
        Some(fp) => fp,
        None => regs::here().1,
    };
    for _ in 0..BACKTRACE_MAX {
        let Some([next, pc]) = record(fp) else {
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
