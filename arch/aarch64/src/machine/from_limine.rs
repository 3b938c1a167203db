//! The entry point for Limine, before the head: EL1, MMU on, the image high and nothing at its
//! physical address. Reads Limine's answers there, then maps the image's first 2 MiB by TTBR0,
//! which is unused, and continues in the head as if the MMU had never been on.

use super::head::{BLOCK, BOOT_STACK, BOOT_STACK_MEMORY, HALF, SCTLR_OFF};
use arch_boot::limine::EntryPointRequest;

unsafe extern "C" {
    safe fn limine_start() -> !;
}

#[used]
#[unsafe(link_section = ".limine_requests")]
static ENTRY: EntryPointRequest = EntryPointRequest::new().with_entry_point(from_limine);

/// The entry point with the signature that the protocol's bindings require.
extern "C" fn from_limine() -> ! {
    limine_start()
}

core::arch::global_asm!(
    r#"
    .section .text.limine, "ax"
    .global limine_start
limine_start:
    msr     daifset, #0xf
    msr     spsel, #1
    adrp    x0, {boot_stack}
    add     x0, x0, #{BOOT_STACK}
    mov     sp, x0
    mov     x29, xzr
    mov     x30, xzr
    bl      {enter_from_limine}
    cbz     x1, 63f                 // no image: nothing can be done
    mov     x20, x0
    mov     x21, x1
    ldr     x22, ={SCTLR_OFF}
    mov     x23, xzr                // the boot CPU
    adrp    x9, _start
    sub     x9, x21, x9             // from here to physical
    adrp    x0, __early_tables
    add     x1, x0, #0x1000
    add     x2, x0, #0x2000
    mrs     x3, mair_el1            // which of its attributes is normal write-back memory?
    mov     x4, xzr
60: and     x5, x3, #0xff
    cmp     x5, #0xff
    b.eq    61f
    lsr     x3, x3, #8
    add     x4, x4, #1
    cmp     x4, #8
    b.lo    60b
    b       63f
61: ldr     x3, =({BLOCK} & ~0x1c)
    orr     x3, x3, x4, lsl #2
    orr     x3, x3, x21
    ubfx    x5, x21, #21, #9
    str     x3, [x2, x5, lsl #3]
    add     x3, x2, x9
    orr     x3, x3, #3
    ubfx    x5, x21, #30, #9
    str     x3, [x1, x5, lsl #3]
    add     x3, x1, x9
    orr     x3, x3, #3
    ubfx    x5, x21, #39, #9
    str     x3, [x0, x5, lsl #3]
    // The head writes these frames again with the caches off: nothing of them may be dirty then.
    mov     x1, x0
    add     x3, x0, #0x6000
62: dc      civac, x1
    add     x1, x1, #16             // no line is shorter
    cmp     x1, x3
    b.lo    62b
    dsb     sy
    mrs     x1, tcr_el1
    mov     x3, #{HALF}
    bfi     x1, x3, #0, #16
    msr     tcr_el1, x1
    add     x0, x0, x9
    msr     ttbr0_el1, x0
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    adrp    x0, __mmu_off
    add     x0, x0, :lo12:__mmu_off
    add     x0, x0, x9
    br      x0
63: wfe
    b       63b
    .ltorg
    .previous
    "#,
    boot_stack = sym BOOT_STACK_MEMORY,
    BOOT_STACK = const BOOT_STACK,
    SCTLR_OFF = const SCTLR_OFF,
    BLOCK = const BLOCK,
    HALF = const HALF,
    enter_from_limine = sym super::boot::enter_from_limine,
);
