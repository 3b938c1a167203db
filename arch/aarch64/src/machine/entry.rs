//! The exception vectors; entering user mode and returning, in assembly.
//!
//! In user mode SP_EL1 points at the running thread's [`UserFrame`], so that a trap can save the
//! registers where they belong without a free register; the kernel stack pointer is kept in the
//! frame. In kernel mode SP_EL1 is the kernel stack.

use super::frame::{KernelFrame, UserFrame};
use super::kernel_traps;
use super::percpu::PerCpu;
use core::mem::{offset_of, size_of};

/// The result of [`enter_user`] for an interrupt. The three results for traps other than
/// synchronous exceptions are above every ESR_EL1 value with an ISS2 of 0.
pub(crate) const FROM_IRQ: u64 = 1 << 62;
/// The result for a fast interrupt, which is routed nowhere.
pub(crate) const FROM_FIQ: u64 = 1 << 61;
/// The result for a system error in user mode.
pub(crate) const FROM_SERROR: u64 = 1 << 60;

core::arch::global_asm!(
    r#"
    // Saves x2 to x29 and the rest of the user's state in the context at sp, and returns from
    // enter_user.
    .macro leave_user
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    stp     x28, x29, [sp, #224]
    mrs     x1, sp_el0
    stp     x30, x1, [sp, #240]
    mrs     x1, elr_el1
    mrs     x2, spsr_el1
    stp     x1, x2, [sp, #256]
    ldr     x1, [sp, #{KERNEL_SP}]
    mov     sp, x1
    ldp     x19, x20, [sp, #16]
    ldp     x21, x22, [sp, #32]
    ldp     x23, x24, [sp, #48]
    ldp     x25, x26, [sp, #64]
    ldp     x27, x28, [sp, #80]
    ldp     x29, x30, [sp], #96
    ret
    .endm

    // Saves x2 to x30 and the exception's state in the frame at sp; x0 = the interrupted sp; x0 and
    // x1 are saved already.
    .macro save_frame
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    stp     x28, x29, [sp, #224]
    stp     x30, x0, [sp, #240]
    mrs     x1, elr_el1
    mrs     x2, spsr_el1
    stp     x1, x2, [sp, #256]
    mrs     x1, esr_el1
    mrs     x2, far_el1
    stp     x1, x2, [sp, #272]
    msr     tpidrro_el0, xzr        // user mode can read it
    .endm

    .macro from_user kind
    .balign 0x80
    stp     x0, x1, [sp]
    mov     x0, #\kind
    b       leave_user_other
    .endm

    .macro stray kind
    .balign 0x80
    msr     tpidrro_el0, x0
    mov     x0, #\kind
    b       el1_stray_entry
    .endm

    .section .text.vectors, "ax"
    .balign 0x800
    .global __vectors
__vectors:
    // Current EL with SP_EL0: never used.
    stray   0
    stray   0
    stray   0
    stray   0
    // Current EL: kernel mode.
    .balign 0x80
    b       el1_sync_entry
    stray   1
    stray   2
    stray   3
    // Lower EL, AArch64: user mode. Synchronous exceptions fill their 32 instructions exactly.
    .balign 0x80
    stp     x0, x1, [sp]
    mrs     x0, esr_el1
    leave_user
    from_user {FROM_IRQ}
    from_user {FROM_FIQ}
    from_user {FROM_SERROR}
    // Lower EL, AArch32: there is none.
    stray   0
    stray   0
    stray   0
    stray   0
    .balign 0x80

leave_user_other:
    leave_user

    // enter_user(x0 = context) -> x0 = ESR_EL1 or FROM_*.
    .global __enter_user
__enter_user:
    stp     x29, x30, [sp, #-96]!
    stp     x19, x20, [sp, #16]
    stp     x21, x22, [sp, #32]
    stp     x23, x24, [sp, #48]
    stp     x25, x26, [sp, #64]
    stp     x27, x28, [sp, #80]
    mov     x1, sp
    str     x1, [x0, #{KERNEL_SP}]
    mov     sp, x0
    ldp     x30, x1, [sp, #240]
    ldp     x2, x3, [sp, #256]
    msr     sp_el0, x1
    msr     elr_el1, x2
    msr     spsr_el1, x3
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldp     x8, x9, [sp, #64]
    ldp     x10, x11, [sp, #80]
    ldp     x12, x13, [sp, #96]
    ldp     x14, x15, [sp, #112]
    ldp     x16, x17, [sp, #128]
    ldp     x18, x19, [sp, #144]
    ldp     x20, x21, [sp, #160]
    ldp     x22, x23, [sp, #176]
    ldp     x24, x25, [sp, #192]
    ldp     x26, x27, [sp, #208]
    ldp     x28, x29, [sp, #224]
    ldp     x0, x1, [sp]
    eret

    // Kernel mode took a synchronous exception. Before the stack is touched: can it be written
    // where the frame goes, at both ends? TPIDRRO_EL0 and the per-CPU scratch hold x0 and x1
    // meanwhile.
el1_sync_entry:
    msr     tpidrro_el0, x0
    mrs     x0, tpidr_el1
    str     x1, [x0, #{SCRATCH}]
    sub     x1, sp, #{FRAME}
    at      s1e1w, x1
    isb
    mrs     x1, par_el1
    tbnz    x1, #0, 80f
    sub     x1, sp, #16
    at      s1e1w, x1
    isb
    mrs     x1, par_el1
    tbnz    x1, #0, 80f
    ldr     x1, [x0, #{SCRATCH}]
    mrs     x0, tpidrro_el0
    sub     sp, sp, #{FRAME}
    stp     x0, x1, [sp]
    add     x0, sp, #{FRAME}        // sp as it was
    save_frame
    mov     x0, sp
    bl      {el1_sync}
    ldp     x1, x2, [sp, #256]
    msr     elr_el1, x1
    msr     spsr_el1, x2
    ldp     x2, x3, [sp, #16]
    ldp     x4, x5, [sp, #32]
    ldp     x6, x7, [sp, #48]
    ldp     x8, x9, [sp, #64]
    ldp     x10, x11, [sp, #80]
    ldp     x12, x13, [sp, #96]
    ldp     x14, x15, [sp, #112]
    ldp     x16, x17, [sp, #128]
    ldp     x18, x19, [sp, #144]
    ldp     x20, x21, [sp, #160]
    ldp     x22, x23, [sp, #176]
    ldp     x24, x25, [sp, #192]
    ldp     x26, x27, [sp, #208]
    ldp     x28, x29, [sp, #224]
    ldr     x30, [sp, #240]
    ldp     x0, x1, [sp], #{FRAME}
    eret

    // No room: on to the emergency stack, from which nothing returns.
80: ldr     x1, [x0, #{EMERGENCY}]
    sub     x1, x1, #{FRAME}
    ldr     x0, [x0, #{SCRATCH}]
    str     x0, [x1, #8]
    mov     x0, sp
    mov     sp, x1
    mrs     x1, tpidrro_el0
    str     x1, [sp]
    save_frame
    mov     x0, sp
    bl      {el1_overflow}
    brk     #1

    // An exception that has no business in kernel mode: x0 = kind, its own value in TPIDRRO_EL0.
el1_stray_entry:
    msr     sp_el0, x1
    mrs     x1, tpidr_el1
    str     x0, [x1, #{SCRATCH}]
    mov     x0, sp
    ldr     x1, [x1, #{EMERGENCY}]
    sub     sp, x1, #{FRAME}
    mrs     x1, sp_el0
    str     x1, [sp, #8]
    mrs     x1, tpidrro_el0
    str     x1, [sp]
    save_frame
    mov     x0, sp
    mrs     x1, tpidr_el1
    ldr     x1, [x1, #{SCRATCH}]
    bl      {el1_stray}
    brk     #1
    .previous
    "#,
    KERNEL_SP = const offset_of!(UserFrame, kernel_sp),
    SCRATCH = const offset_of!(PerCpu, scratch),
    EMERGENCY = const offset_of!(PerCpu, emergency),
    FRAME = const size_of::<KernelFrame>(),
    FROM_IRQ = const FROM_IRQ,
    FROM_FIQ = const FROM_FIQ,
    FROM_SERROR = const FROM_SERROR,
    el1_sync = sym kernel_traps::el1_sync,
    el1_overflow = sym kernel_traps::el1_overflow,
    el1_stray = sym kernel_traps::el1_stray,
);

unsafe extern "C" {
    /// Where VBAR_EL1 points.
    pub(crate) static __vectors: u8;
    fn __enter_user(frame: *mut UserFrame) -> u64;
}

/// Enters user mode with the registers of `frame` and returns at the next trap with ESR_EL1, or
/// one of the `FROM_*`.
///
/// # Safety
/// `frame` lies at a multiple of 16 bytes; its pstate is EL0t with interrupts on.
#[inline]
pub(crate) unsafe fn enter_user(frame: &mut UserFrame) -> u64 {
    // SAFETY: the frame is exclusively ours until the trap; the rest is the caller's promise.
    unsafe { __enter_user(frame) }
}
