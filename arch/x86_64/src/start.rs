//! The first instructions: PVH hands over in 32-bit protected mode without paging, `ebx` = physical `hvm_start_info`.
//! Early tables, long mode, the boot stack, then [`crate::boot::enter`].
//!
//! Early mapping: physical 0.. at 0 (for the switch itself) and at the direct map, the first 2 GiB at the image's base.
//! With 1 GiB pages the direct map covers 512 GiB, without them [`SMALL_LIMIT`]; all tables are static.

use core::arch::global_asm;
use mm::addr::PAGE_SIZE;

/// Bytes of physical memory that the early direct map covers when the CPU has no 1 GiB pages.
pub const SMALL_LIMIT: u64 = (PD_TABLES as u64) << 30;
/// Bytes of physical memory that the early direct map covers when the CPU has 1 GiB pages.
pub const LARGE_LIMIT: u64 = 512 << 30;
/// Where the image's link address and its physical address differ: `linker.ld`'s KERNEL_BASE.
pub const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;

const PD_TABLES: usize = 16;
const BOOT_STACK: usize = 64 << 10;

unsafe extern "C" {
    static boot_stack_bottom: u8;
}

/// Whether a fault at `at` means that the boot stack has overflowed into the page below it.
pub fn below_boot_stack(at: u64) -> bool {
    let bottom = (&raw const boot_stack_bottom).addr() as u64;
    (bottom - PAGE_SIZE..bottom).contains(&at)
}

global_asm!(
    r#"
    .pushsection .note.pvh, "a", @note
    .balign 4
    .long 4, 8, 18                  // name and descriptor sizes, XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad _start - {base}
    .popsection

    .pushsection .text.boot, "ax"
    .code32
    .globl _start
_start:
    cli
    cld
    movl %ebx, %ebp                 // cpuid overwrites ebx
    movl $(boot_stack_top - {base}), %esp

    // Long mode (bit 29) and no-execute (bit 20) are required.
    movl $0x80000000, %eax
    cpuid
    cmpl $0x80000001, %eax
    jb 8f
    movl $0x80000001, %eax
    cpuid
    movl %edx, %esi
    andl $0x20100000, %edx
    cmpl $0x20100000, %edx
    jne 8f
    // cmpxchg16b (leaf 1, ECX bit 13) is, too: the ownership word of large folios.
    movl $1, %eax
    cpuid
    btl $13, %ecx
    jnc 7f

    movl $(early_pdpt - {base} + 3), %eax
    movl %eax, early_pml4 - {base}
    movl %eax, early_pml4 - {base} + 256 * 8
    movl $(early_image_pdpt - {base} + 3), %eax
    movl %eax, early_pml4 - {base} + 511 * 8
    xorl %ecx, %ecx
    btl $26, %esi
    jnc 2f

    // 1 GiB pages: entry i maps i << 30, present, writable, large.
1:  movl %ecx, %eax
    shll $30, %eax
    orl $0x83, %eax
    movl %eax, early_pdpt - {base}(,%ecx,8)
    movl %ecx, %eax
    shrl $2, %eax
    movl %eax, early_pdpt - {base} + 4(,%ecx,8)
    incl %ecx
    cmpl $512, %ecx
    jb 1b
    movl $0x83, early_image_pdpt - {base} + 510 * 8
    movl $0x40000083, early_image_pdpt - {base} + 511 * 8
    jmp 4f

    // 2 MiB pages: the page directories lie side by side, entry i maps i << 21.
2:  movl %ecx, %eax
    shll $21, %eax
    orl $0x83, %eax
    movl %eax, early_pd - {base}(,%ecx,8)
    movl %ecx, %eax
    shrl $11, %eax
    movl %eax, early_pd - {base} + 4(,%ecx,8)
    incl %ecx
    cmpl $({pds} * 512), %ecx
    jb 2b
    xorl %ecx, %ecx
    movl $(early_pd - {base} + 3), %eax
3:  movl %eax, early_pdpt - {base}(,%ecx,8)
    addl $4096, %eax
    incl %ecx
    cmpl ${pds}, %ecx
    jb 3b
    movl $(early_pd - {base} + 3), early_image_pdpt - {base} + 510 * 8
    movl $(early_pd - {base} + 4096 + 3), early_image_pdpt - {base} + 511 * 8

    // CR4.PAE; EFER.LME and NXE; CR0: PG WP NE ET MP PE.
4:  movl $0x20, %eax
    movl %eax, %cr4
    movl $(early_pml4 - {base}), %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x900, %eax
    wrmsr
    movl $0x80010033, %eax
    movl %eax, %cr0
    lgdt early_gdt_pointer - {base}
    ljmp $0x08, $(5f - {base})

    // Says what is missing, then waits for ever.
7:  movl $(no_cx16_text - {base}), %esi
    jmp 11f
8:  movl $(no_cpu_text - {base}), %esi
11: movl $0x3f8, %edx
9:  lodsb
    testb %al, %al
    jz 10f
    outb %al, %dx
    jmp 9b
10: hlt
    jmp 10b

    .code64
5:  movabsq $6f, %rax
    jmpq *%rax                      // from the identity mapping to the image's own addresses
6:  xorl %eax, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl %eax, %fs
    movl %eax, %gs
    movq $boot_stack_top, %rsp
    movl %ebp, %edi
    xorl %ebp, %ebp                 // the end of every backtrace
    pushq $0
    pushq $0
    callq {enter}
    ud2
    .popsection

    .pushsection .rodata.boot, "a"
    .balign 8
early_gdt:
    .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff
early_gdt_pointer:
    .word 23
    .quad early_gdt - {base}
no_cpu_text:
    .asciz "quire: this CPU has no long mode or no NX\r\n"
no_cx16_text:
    .asciz "quire: this CPU has no cmpxchg16b\r\n"
    .popsection

    .pushsection .bss.boot, "aw", @nobits
    .balign 4096
early_pml4:       .skip 4096
early_pdpt:       .skip 4096
early_image_pdpt: .skip 4096
early_pd:         .skip 4096 * {pds}
    .popsection

    // Right above read-only data: linker.ld.
    .pushsection .data.bootstack, "aw"
    .balign 4096
    .globl boot_stack_bottom
boot_stack_bottom: .skip {stack}
    .globl boot_stack_top
boot_stack_top:
    .popsection
    "#,
    base = const KERNEL_BASE,
    pds = const PD_TABLES,
    stack = const BOOT_STACK,
    enter = sym crate::boot::enter,
    options(att_syntax)
);
