//! The first instructions: PVH hands over in 32-bit protected mode without paging, `ebx` = physical
//! `hvm_start_info`. Early tables (see `early`), long mode, the boot stack, then [`boot::enter`].

use super::{boot, early, image};
use core::arch::global_asm;

const BOOT_STACK: usize = 64 << 10;

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

    // Says what is missing, then ends with status 101 as `cpu::exit` does, or waits for ever.
7:  movl $(no_cx16_text - {base}), %esi
    jmp 11f
8:  movl $(no_cpu_text - {base}), %esi
11: movl $0x3f8, %edx
9:  lodsb
    testb %al, %al
    jz 10f
    outb %al, %dx
    jmp 9b
10: movb $101, %al
    outb %al, $0xe9
    outb %al, $0xf4
12: hlt
    jmp 12b

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
    .globl early_pml4, early_pdpt, early_image_pdpt, early_image_pd, early_pd, early_far_pdpt
early_pml4:       .skip 4096
early_pdpt:       .skip 4096
early_image_pdpt: .skip 4096
early_image_pd:   .skip 4096
early_far_pdpt:   .skip 4096
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
    base = const image::KERNEL_BASE,
    pds = const early::PD_TABLES,
    stack = const BOOT_STACK,
    enter = sym boot::enter,
    options(att_syntax)
);
