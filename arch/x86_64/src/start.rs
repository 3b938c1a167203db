//! The first instructions: PVH hands over in 32-bit protected mode without paging, `ebx` = physical
//! `hvm_start_info`. Early tables, long mode, the boot stack, then [`crate::boot::enter`].
//!
//! Early mapping: physical 0.. at 0 (for the switch itself) and at the direct map, the first 2 GiB
//! at the image's base. With 1 GiB pages the direct map covers 512 GiB, without them
//! [`SMALL_LIMIT`]; all tables are static.
//!
//! Limine comes in 64-bit mode on tables of its own, with the image anywhere: [`map_again`] makes
//! the same early mapping from there, so that the rest of boot knows one kind of tables.

use crate::{boot, far, features};
use arch_boot::limine::EntryPointRequest;
use core::arch::{asm, global_asm};
use mm::addr::{PAGE_SIZE, PhysRange};

/// Bytes of physical memory that the early direct map covers when the CPU has no 1 GiB pages.
pub const SMALL_LIMIT: u64 = (PD_TABLES as u64) << 30;
/// Bytes of physical memory that the early direct map covers when the CPU has 1 GiB pages.
pub const LARGE_LIMIT: u64 = 512 << 30;
/// Where the image's link address and its physical address differ: `linker.ld`'s KERNEL_BASE.
pub const KERNEL_BASE: u64 = 0xffff_ffff_8000_0000;

const PD_TABLES: usize = 16;
const BOOT_STACK: usize = 64 << 10;

/// A 2 MiB or 1 GiB entry: present, writable, large.
const LARGE: u64 = 0x83;
/// PCD and PWT: so far up, firmware's MTRRs need not know of devices.
const UNCACHED: u64 = 0x18;
/// A table's entry: present, writable.
const TABLE: u64 = 3;

type Table = [u64; 512];

unsafe extern "C" {
    static boot_stack_bottom: u8;
    static mut early_pml4: Table;
    static mut early_pdpt: Table;
    static mut early_image_pdpt: Table;
    static mut early_image_pd: Table;
    static mut early_pd: [Table; PD_TABLES];
    static mut early_far_pdpt: Table;
}

unsafe extern "C" {
    /// Limine's way in: to the boot stack, then [`boot::enter_from_limine`].
    safe fn limine_start() -> !;
}

#[used]
#[unsafe(link_section = ".limine_requests")]
static ENTRY: EntryPointRequest = EntryPointRequest::new().with_entry_point(from_limine);

/// As the protocol's bindings want it.
extern "C" fn from_limine() -> ! {
    limine_start()
}

/// Bytes of physical memory that the early direct map covers on this CPU.
pub fn limit() -> u64 {
    if features::get().pages_1g {
        LARGE_LIMIT
    } else {
        SMALL_LIMIT
    }
}

/// Fills the early tables for an image whose first byte is at `image` and moves onto them.
///
/// # Safety
/// Called once, with the image mapped where it is linked; `image` is on a 2 MiB boundary; nothing
/// else that the running tables map is used afterwards.
pub unsafe fn map_again(image: u64) {
    let link = |table: u64| table | TABLE;
    // SAFETY: the boot CPU, once: nobody else touches the early tables, which lie in the image and
    // are all zeros.
    unsafe {
        for i in 0..512u64 {
            early_pdpt[i as usize] = i << 30 | LARGE;
            // The image's gigabyte begins 2 MiB below it; no page is there.
            if i > 0 {
                early_image_pd[i as usize] = (image + ((i - 1) << 21)) | LARGE;
            }
        }
        if !features::get().pages_1g {
            early_pdpt = [0; 512];
            for i in 0..PD_TABLES * 512 {
                early_pd[i / 512][i % 512] = (i as u64) << 21 | LARGE;
            }
            for i in 0..PD_TABLES {
                early_pdpt[i] = link(boot::in_image(&raw const early_pd[i]));
            }
        }
        early_image_pdpt[510] = link(boot::in_image(&raw const early_image_pd));
        early_pml4[256] = link(boot::in_image(&raw const early_pdpt));
        early_pml4[511] = link(boot::in_image(&raw const early_image_pdpt));
        asm!("mov cr3, {}", in(reg) boot::in_image(&raw const early_pml4), options(nostack, preserves_flags));
    }
}

/// Maps a screen that is out of the early direct map's reach, as graphics cards of PCs with much
/// address space are. False: it cannot be mapped, now or later.
///
/// # Safety
/// Called once, on the early tables.
pub unsafe fn reach(screen: PhysRange) -> bool {
    if screen.end.0 <= limit() {
        return true;
    }
    let Some((slot, gigabytes)) = far::place(screen).filter(|_| features::get().pages_1g) else {
        return false;
    };
    // SAFETY: the boot CPU, once: nobody else touches the early tables. What was absent is in no
    // TLB.
    unsafe {
        for gigabyte in gigabytes {
            early_far_pdpt[gigabyte as usize % 512] = gigabyte << 30 | LARGE | UNCACHED;
        }
        early_pml4[256 + slot] = boot::in_image(&raw const early_far_pdpt) | TABLE;
    }
    true
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

    .globl limine_start
limine_start:
    movq $boot_stack_top, %rsp
    xorl %ebp, %ebp
    pushq $0
    pushq $0
    callq {enter_from_limine}
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
    base = const KERNEL_BASE,
    pds = const PD_TABLES,
    stack = const BOOT_STACK,
    enter = sym boot::enter,
    enter_from_limine = sym boot::enter_from_limine,
    options(att_syntax)
);
