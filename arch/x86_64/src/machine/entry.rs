//! Kernel entry and exit, in assembly.
//!
//! While user mode runs, TSS.RSP0 is the end of its context's [`TrapFrame`], so the CPU pushes what
//! it saves right into the frame and the stubs push the rest. `enter_*` keep the kernel's stack
//! pointer in the per-CPU block; coming back is a plain `ret` on it. GS is the kernel's in kernel
//! mode and the user's in user mode; the debug, NMI, double-fault and machine-check stubs may run
//! at any instruction, so from kernel mode they load GS themselves and restore it. Their stacks
//! begin with the address of the CPU's block.

use super::frame::{ALWAYS_RFLAGS, NEVER_USER, SYSCALL, TrapFrame};
use super::percpu::{self, PerCpu};
use super::{kernel_traps, selectors};
use core::arch::global_asm;
use core::mem::offset_of;

const STUB_BYTES: u64 = 16;

unsafe extern "C" {
    static interrupt_stubs: u8;
    static stub_debug: u8;
    static stub_nmi: u8;
    static stub_double_fault: u8;
    static stub_machine_check: u8;
    static syscall_entry: u8;
    static syscall_elsewhere: u8;
    /// Goes to user mode by `SYSRET`; returns when a trap or a system call has filled the frame.
    /// Overwrites every register but rsp.
    pub fn enter_by_sysret(frame: *mut TrapFrame);
    /// The same by `IRET`, which restores every register.
    pub fn enter_by_iret(frame: *mut TrapFrame);
}

/// The handler of a vector that needs no stack of its own.
pub fn stub(vector: usize) -> u64 {
    (&raw const interrupt_stubs).addr() as u64 + vector as u64 * STUB_BYTES
}
/// The handler of #DB.
pub fn debug_stub() -> u64 {
    (&raw const stub_debug).addr() as u64
}
/// The handler of the NMI.
pub fn nmi_stub() -> u64 {
    (&raw const stub_nmi).addr() as u64
}
/// The handler of #DF.
pub fn double_fault_stub() -> u64 {
    (&raw const stub_double_fault).addr() as u64
}
/// The handler of #MC.
pub fn machine_check_stub() -> u64 {
    (&raw const stub_machine_check).addr() as u64
}
/// What `CSTAR` points at.
pub fn syscall_elsewhere_address() -> u64 {
    (&raw const syscall_elsewhere).addr() as u64
}
/// What `LSTAR` points at.
pub fn syscall_address() -> u64 {
    (&raw const syscall_entry).addr() as u64
}

global_asm!(
    r#"
    .macro PUSH_REGISTERS
    push rdi; push rsi; push rdx; push rcx; push rax; push r8; push r9; push r10; push r11
    push rbx; push rbp; push r12; push r13; push r14; push r15
    .endm
    .macro POP_REGISTERS
    pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx
    pop r11; pop r10; pop r9; pop r8; pop rax; pop rcx; pop rdx; pop rsi; pop rdi
    .endm
    // Interrupt gates leave AC, DF and NT as user mode set them; this clears them all, on CPUs with
    // and without CLAC.
    .macro CLEAN_FLAGS
    push 2
    popfq
    .endm
    // After SYSCALL: this CPU's data, and the end of the frame instead of the user's stack, which
    // is kept.
    .macro LEAVE_USER_STACK
    swapgs
    mov gs:[{user_sp}], rsp
    mov rsp, gs:[{rsp0}]
    .endm

    // A frame that begins here, as the CPU has filled it: vector, error, rip, cs, rflags, rsp, ss,
    // eight bytes each. Jumps if the trap came from code segment `cs`; not from virtual-8086 mode,
    // where CS is any number.
    .macro IF_FROM cs, target
    cmp word ptr [rsp + 24], \cs
    jne 2f
    test dword ptr [rsp + 32], {never_user}
    jz \target
2:
    .endm
    // Makes it a frame of 64-bit user mode, with #GP instead of another exception. No processor
    // gets to any other mode that is not the kernel's, but QEMU's IRETD goes to virtual-8086 mode.
    .macro MEND_FRAME
    mov qword ptr [rsp + 24], {user_code}
    mov qword ptr [rsp + 32], {always_flags}
    mov qword ptr [rsp + 48], {user_data}
    cmp qword ptr [rsp], 32
    jae 2f
    mov qword ptr [rsp], 13
    mov qword ptr [rsp + 8], 0
2:
    .endm

    .pushsection .text.entry, "ax"
    .balign 16
    .globl enter_by_sysret
enter_by_sysret:
    mov gs:[{kernel_sp}], rsp
    lea rax, [rdi + {frame_size}]
    mov gs:[{rsp0}], rax
    mov r15, [rdi + {r15}]
    mov r14, [rdi + {r14}]
    mov r13, [rdi + {r13}]
    mov r12, [rdi + {r12}]
    mov rbp, [rdi + {rbp}]
    mov rbx, [rdi + {rbx}]
    mov r10, [rdi + {r10}]
    mov r9, [rdi + {r9}]
    mov r8, [rdi + {r8}]
    mov rax, [rdi + {rax}]
    mov rdx, [rdi + {rdx}]
    mov rsi, [rdi + {rsi}]
    mov rcx, [rdi + {rip}]
    mov r11, [rdi + {rflags}]
    mov rsp, [rdi + {rsp}]
    mov rdi, [rdi + {rdi}]
    swapgs
    sysretq

    .balign 16
    .globl enter_by_iret
enter_by_iret:
    mov gs:[{kernel_sp}], rsp
    lea rax, [rdi + {frame_size}]
    mov gs:[{rsp0}], rax
    mov rsp, rdi
    POP_REGISTERS
    add rsp, 16                     // vector, error code
    swapgs
    iretq

    // SYSCALL: rcx = rip, r11 = rflags, rsp is the user's, IF TF DF AC NT are clear (SFMASK).
    // rcx and r11 are not stored: they are rip and rflags until `CHANGED`. rax is the number; the
    // result is stored later.
    .balign 16
    .globl syscall_entry
syscall_entry:
    LEAVE_USER_STACK
    mov [rsp - {frame_size} + {r15}], r15
    mov [rsp - {frame_size} + {r14}], r14
    mov [rsp - {frame_size} + {r13}], r13
    mov [rsp - {frame_size} + {r12}], r12
    mov [rsp - {frame_size} + {rbp}], rbp
    mov [rsp - {frame_size} + {rbx}], rbx
    mov [rsp - {frame_size} + {r10}], r10
    mov [rsp - {frame_size} + {r9}], r9
    mov [rsp - {frame_size} + {r8}], r8
    mov [rsp - {frame_size} + {rdx}], rdx
    mov [rsp - {frame_size} + {rsi}], rsi
    mov [rsp - {frame_size} + {rdi}], rdi
    mov [rsp - {frame_size} + {error}], rax
    mov [rsp - {frame_size} + {rip}], rcx
    mov [rsp - {frame_size} + {rflags}], r11
    mov rcx, gs:[{user_sp}]
    mov [rsp - {frame_size} + {rsp}], rcx
    mov qword ptr [rsp - {frame_size} + {vector}], {syscall}
    mov rsp, gs:[{kernel_sp}]
    ret

    // SYSCALL from another mode than 64-bit, as from virtual-8086 mode: an undefined instruction.
    .balign 16
    .globl syscall_elsewhere
syscall_elsewhere:
    LEAVE_USER_STACK
    push {user_data}
    push qword ptr gs:[{user_sp}]
    push {always_flags}
    push {user_code}
    push rcx
    push 0
    push 6
    PUSH_REGISTERS
    jmp trap_to_run

    .balign 16
    .globl trap_common
trap_common:
    cmp word ptr [rsp + 24], {user_code}
    jne trap_from_elsewhere
    test dword ptr [rsp + 32], {never_user}
    jnz trap_from_elsewhere
trap_from_user:
    swapgs
    PUSH_REGISTERS
trap_to_run:
    mov rsp, gs:[{kernel_sp}]
    CLEAN_FLAGS
    ret

trap_from_elsewhere:
    IF_FROM {kernel_code}, trap_from_kernel
    MEND_FRAME
    jmp trap_from_user

trap_from_kernel:
    PUSH_REGISTERS
    CLEAN_FLAGS
    mov rdi, rsp
    call {from_kernel}
    POP_REGISTERS
    add rsp, 16
    iretq

    // #DB from user mode: the frame is on the emergency stack, so it is copied into the context.
    .balign 16
    .globl stub_debug
stub_debug:
    push 0
    push 1
    IF_FROM {kernel_code}, paranoid
    IF_FROM {user_code}, debug_from_user
    MEND_FRAME
debug_from_user:
    swapgs
    PUSH_REGISTERS
    cld
    mov rsi, rsp
    mov rdi, gs:[{rsp0}]
    sub rdi, {frame_size}
    mov ecx, {frame_size} / 8
    rep movsq
    jmp trap_to_run

    .balign 16
    .globl stub_nmi
stub_nmi:
    push 0
    push 2
    jmp paranoid
    .balign 16
    .globl stub_double_fault
stub_double_fault:
    push 8
    jmp paranoid
    .balign 16
    .globl stub_machine_check
stub_machine_check:
    push 0
    push 18
paranoid:
    PUSH_REGISTERS
    CLEAN_FLAGS
    mov ecx, 0xc0000101             // GS base, the user's or the kernel's
    rdmsr
    shl rdx, 32
    or rax, rdx
    mov rbx, rax
    mov rax, [rsp + {frame_size}]   // on top of each of these stacks
    mov rdx, rax
    shr rdx, 32
    wrmsr
    mov rdi, rsp
    call {paranoid}
    mov ecx, 0xc0000101
    mov rax, rbx
    mov rdx, rbx
    shr rdx, 32
    wrmsr
    POP_REGISTERS
    add rsp, 16
    iretq
    .popsection
    "#,
    kernel_sp = const offset_of!(PerCpu, kernel_sp),
    user_sp = const offset_of!(PerCpu, user_sp),
    rsp0 = const percpu::RSP0,
    frame_size = const size_of::<TrapFrame>(),
    r15 = const offset_of!(TrapFrame, r15),
    r14 = const offset_of!(TrapFrame, r14),
    r13 = const offset_of!(TrapFrame, r13),
    r12 = const offset_of!(TrapFrame, r12),
    rbp = const offset_of!(TrapFrame, rbp),
    rbx = const offset_of!(TrapFrame, rbx),
    r10 = const offset_of!(TrapFrame, r10),
    r9 = const offset_of!(TrapFrame, r9),
    r8 = const offset_of!(TrapFrame, r8),
    rax = const offset_of!(TrapFrame, rax),
    rdx = const offset_of!(TrapFrame, rdx),
    rsi = const offset_of!(TrapFrame, rsi),
    rdi = const offset_of!(TrapFrame, rdi),
    vector = const offset_of!(TrapFrame, vector),
    error = const offset_of!(TrapFrame, error),
    rip = const offset_of!(TrapFrame, rip),
    rflags = const offset_of!(TrapFrame, rflags),
    rsp = const offset_of!(TrapFrame, rsp),
    syscall = const SYSCALL,
    kernel_code = const selectors::KERNEL_CODE,
    user_code = const selectors::USER_CODE,
    user_data = const selectors::USER_DATA,
    never_user = const NEVER_USER,
    always_flags = const ALWAYS_RFLAGS,
    from_kernel = sym kernel_traps::from_kernel,
    paranoid = sym kernel_traps::paranoid,
);

// Sixteen bytes for each vector; the CPU pushes an error code for 8, 10-14, 17, 21, 29 and 30 (SDM
// Vol 3, 6.15; APM Vol 2, 8.2).
global_asm!(
    r#"
    .pushsection .text.entry, "ax"
    .balign 16
    .globl interrupt_stubs
interrupt_stubs:
    .set vector, 0
    .rept 256
    .balign 16
    .if !((vector == 8) | ((vector >= 10) & (vector <= 14)) | (vector == 17) | (vector == 21) | (vector == 29) | (vector == 30))
    pushq $0
    .endif
    pushq $vector
    jmp trap_common
    .set vector, vector + 1
    .endr
    .popsection
    "#,
    options(att_syntax)
);
