//! The first instructions: the arm64 Image header, EL2 to EL1, the first tables, MMU and caches on.
//!
//! Entered as Linux's Documentation/arch/arm64/booting.rst says: MMU off, x0 = physical address of
//! the device tree, the image cleaned to the point of coherency, anywhere in RAM at a 2 MiB
//! boundary. Everything up to `virtual_entry` is position independent and uses no stack.

use super::launch::{self, Launch};
use crate::pte::MAIR;
use arch_boot::cpus::Claim;
use core::mem::offset_of;

/// TCR_EL1 on every CPU; the head adds IPS, AS, HA and HD from the ID registers. Both halves: 48
/// bits (T0SZ = T1SZ = 16), 4 KiB granule (TG1 = 0b10), walks inner shareable write-back. TBI0:
/// EL0's top byte is ignored.
const TCR: u64 = HALF | HALF << 16 | 2 << 30 | 1 << 37;
/// TxSZ = 16, IRGN = ORGN = 0b01 (write-back, write-allocate), SH = 0b11.
pub(super) const HALF: u64 = 16 | 1 << 8 | 1 << 10 | 3 << 12;

/// SCTLR_EL1 with the MMU off: the bits that are RES1 without later extensions.
pub(super) const SCTLR_OFF: u64 = 1 << 11 | 1 << 20 | 1 << 22 | 1 << 23 | 1 << 28 | 1 << 29;
/// The same for SCTLR_EL2.
const SCTLR_EL2_OFF: u64 = 0x30c5_0830;
/// SCTLR_EL1 on: M, C, SA, SA0, I, DZE, UCT, nTWI, nTWE, UCI as under Linux; SPAN = 0, so that an
/// exception sets PAN. WXN stays off: it would apply to user mode's writable and executable
/// mappings as well.
const SCTLR_ON: u64 = (SCTLR_OFF & !(1 << 23))
    | 1
    | 1 << 2
    | 1 << 3
    | 1 << 4
    | 1 << 12
    | 1 << 14
    | 1 << 15
    | 1 << 16
    | 1 << 18
    | 1 << 26;

/// A first-tables block: valid, normal memory, inner shareable, accessed, not executable at EL0.
pub(super) const BLOCK: u64 = 1 | 3 << 8 | 1 << 10 | 1 << 54;

core::arch::global_asm!(
    r#"
    .section .text.head, "ax"
    .global _start
_start:
    b       10f                     // code0
    nop                             // code1
    .quad   0                       // text_offset
    .quad   __image_size            // image_size: with bss; the image tool adds the payload
    .quad   0xa                     // flags: little endian, 4 KiB pages, anywhere in physical memory
    .quad   0, 0, 0
    .long   0x644d5241              // magic "ARM\x64"
    .long   0

10: msr     daifset, #0xf
    mov     x20, x0                 // the device tree
    mov     x23, xzr                // the boot CPU
1:
    adr     x21, _start             // where the image is
    ldr     x22, ={SCTLR_OFF}
    mrs     x0, CurrentEL
    cmp     x0, #(3 << 2)
    b.ne    12f

    // EL3: a firmware without a monitor. The rest is not secure, and nothing that it may do traps
    // to here.
    ldr     x0, =0x305b1            // SCR_EL3: NS, RES1, SMD, HCE, RW, APK, API
    mrs     x1, id_aa64mmfr0_el1
    ubfx    x1, x1, #56, #4         // FEAT_FGT
    cbz     x1, 13f
    orr     x0, x0, #(1 << 27)      // FGTEn
13: mrs     x1, id_aa64mmfr1_el1
    ubfx    x1, x1, #40, #4         // FEAT_HCX
    cbz     x1, 14f
    orr     x0, x0, #(1 << 38)      // HXEn
14: msr     scr_el3, x0
    msr     cptr_el3, xzr
    msr     mdcr_el3, xzr
    isb
    mrs     x1, id_aa64pfr0_el1
    ubfx    x0, x1, #24, #4         // GIC system registers
    cbz     x0, 15f
    mov     x0, #0xf                // ICC_SRE_EL3: SRE, no bypass, Enable
    msr     S3_6_C12_C12_5, x0
    isb
15: adr     x0, 11f
    msr     elr_el3, x0
    mov     x0, #0x3c5              // EL1h, all masked
    msr     sctlr_el1, x22
    tst     x1, #(0xf << 8)         // is there an EL2?
    b.eq    16f
    ldr     x0, ={SCTLR_EL2_OFF}
    msr     sctlr_el2, x0
    mov     x0, #0x3c9              // EL2h, all masked
16: msr     spsr_el3, x0
    eret
11: mrs     x0, CurrentEL
12: cmp     x0, #(2 << 2)
    b.ne    30f

    // EL2: give EL1 everything, trap nothing, and leave.
    mov     x0, #(1 << 31)          // HCR_EL2.RW: EL1 is AArch64
    orr     x0, x0, #(3 << 40)      // API, APK: pointer authentication is not trapped
    msr     hcr_el2, x0
    isb
    msr     sctlr_el1, x22
    mov     x0, #3                  // EL1 uses the physical counter and timer, and no trap of FEAT_ECV's
    msr     cnthctl_el2, x0
    msr     cntvoff_el2, xzr
    msr     vttbr_el2, xzr
    mov     x0, #0x33ff             // CPTR_EL2: RES1 and TZ, FP is not trapped
    msr     cptr_el2, x0
    msr     hstr_el2, xzr
    mov     x0, xzr
    mrs     x1, id_aa64dfr0_el1
    ubfx    x1, x1, #8, #4          // PMUVer
    cbz     x1, 20f
    cmp     x1, #0xf
    b.eq    20f
    mrs     x0, pmcr_el0
    ubfx    x0, x0, #11, #5         // all counters belong to EL1
20: msr     mdcr_el2, x0
    mrs     x0, midr_el1
    msr     vpidr_el2, x0
    mrs     x0, mpidr_el1
    msr     vmpidr_el2, x0
    mrs     x0, id_aa64mmfr0_el1
    ubfx    x0, x0, #56, #4         // FEAT_FGT: no fine-grained traps
    cbz     x0, 21f
    msr     S3_4_C1_C1_4, xzr       // HFGRTR_EL2
    msr     S3_4_C1_C1_5, xzr       // HFGWTR_EL2
    msr     S3_4_C1_C1_6, xzr       // HFGITR_EL2
    msr     S3_4_C3_C1_4, xzr       // HDFGRTR_EL2
    msr     S3_4_C3_C1_5, xzr       // HDFGWTR_EL2
21: mrs     x0, id_aa64mmfr1_el1
    ubfx    x0, x0, #40, #4         // FEAT_HCX
    cbz     x0, 23f
    mov     x0, #(1 << 11)
    msr     S3_4_C1_C2_2, x0        // HCRX_EL2.MSCEn: SETP and its like work in EL1
23: mrs     x0, id_aa64pfr0_el1
    ubfx    x0, x0, #24, #4         // GIC system registers
    cbz     x0, 22f
    mrs     x0, S3_4_C12_C9_5       // ICC_SRE_EL2: SRE, Enable
    mov     x1, #9
    orr     x0, x0, x1
    msr     S3_4_C12_C9_5, x0
    isb
    mrs     x0, S3_4_C12_C9_5
    tbz     x0, #0, 22f
    msr     S3_4_C12_C11_0, xzr     // ICH_HCR_EL2
22: mov     x0, #0x3c5              // EL1h, all masked
    msr     spsr_el2, x0
    adr     x0, 31f
    msr     elr_el2, x0
    eret

    // From here on, however it was started: EL1, x20 = the device tree, x21 = where the image is,
    // x22 = SCTLR_OFF, x23 = 0 on the boot CPU.
    .global __mmu_off
__mmu_off:
30: msr     sctlr_el1, x22
31: isb
    mov     x0, #(3 << 20)          // FP and SIMD are not trapped
    msr     cpacr_el1, x0
    msr     mdscr_el1, xzr          // no single step, no debug exceptions
    msr     tpidrro_el0, xzr
    mrs     x0, id_aa64dfr0_el1
    ubfx    x0, x0, #8, #4          // PMUVer
    cbz     x0, 32f
    cmp     x0, #0xf
    b.eq    32f
    msr     pmuserenr_el0, xzr      // the counters are not for EL0
32: mrs     x0, id_aa64pfr0_el1
    ubfx    x0, x0, #44, #4         // AMU
    cbz     x0, 33f
    msr     S3_3_C13_C2_3, xzr      // AMUSERENR_EL0: nor are the activity monitors
33: cbnz    x23, 34f

    // The first tables: TTBR0 maps the image's first 2 MiB where they are, TTBR1 maps the image
    // high.
    adrp    x0, __early_tables
    add     x1, x0, #0x1000
    add     x2, x0, #0x2000
    ldr     x3, ={BLOCK}
    orr     x4, x1, #3
    ubfx    x5, x21, #39, #9
    str     x4, [x0, x5, lsl #3]
    orr     x4, x2, #3
    ubfx    x5, x21, #30, #9
    str     x4, [x1, x5, lsl #3]
    orr     x4, x21, x3
    ubfx    x5, x21, #21, #9
    str     x4, [x2, x5, lsl #3]
    add     x6, x0, #0x3000         // TTBR1's root
    add     x1, x0, #0x4000
    add     x2, x0, #0x5000
    orr     x4, x1, #3
    str     x4, [x6, #(511 * 8)]
    orr     x4, x2, #3
    str     x4, [x1, #(510 * 8)]
    adrp    x5, __image_end
    mov     x7, x21                 // without the attributes: those above the address would end the loop at once
    add     x2, x2, #8              // the image starts 2 MiB into its gigabyte
40: orr     x4, x7, x3
    str     x4, [x2], #8
    add     x7, x7, #0x200000
    cmp     x7, x5
    b.lo    40b
    // Written with the caches off: drop what the caches may hold of these six frames.
    dmb     sy
    mrs     x1, ctr_el0
    ubfx    x1, x1, #16, #4
    mov     x2, #4
    lsl     x2, x2, x1              // bytes in the smallest data cache line
    mov     x1, x0
    add     x3, x0, #0x6000
41: dc      ivac, x1
    add     x1, x1, x2
    cmp     x1, x3
    b.lo    41b
    dsb     sy
    b       35f

    // Another CPU: the same TTBR0, the kernel's own root, which was cleaned for this read.
34: adrp    x0, __early_tables
    adrp    x6, {launch}
    add     x6, x6, :lo12:{launch}
    ldr     x6, [x6, #{ROOT}]

35: ldr     x1, ={MAIR}
    msr     mair_el1, x1
    ldr     x1, ={TCR}
    mrs     x2, id_aa64mmfr0_el1
    and     x3, x2, #0xf            // PARange; 48 bits at most with this granule
    mov     x4, #5
    cmp     x3, x4
    csel    x3, x3, x4, lo
    bfi     x1, x3, #32, #3         // IPS
    ubfx    x3, x2, #4, #4          // ASIDBits: 2 is 16 bits
    lsr     x3, x3, #1
    bfi     x1, x3, #36, #1         // AS
    mrs     x2, id_aa64mmfr1_el1
    and     x3, x2, #0xf            // HAFDBS: 1 access flag, 2 dirty state too
    cmp     x3, #1
    cset    x4, hs
    bfi     x1, x4, #39, #1         // HA
    cmp     x3, #2
    cset    x4, hs
    bfi     x1, x4, #40, #1         // HD
    msr     tcr_el1, x1
    msr     ttbr0_el1, x0
    msr     ttbr1_el1, x6
    tlbi    vmalle1
    ic      iallu
    dsb     sy
    isb
    ldr     x0, ={SCTLR_ON}
    msr     sctlr_el1, x0
    isb
    ldr     x0, =virtual_entry
    br      x0

virtual_entry:
    cbnz    x23, 60f
    adrp    x0, __bss_start
    adrp    x1, __bss_end           // both page-aligned; the payload behind is left alone
50: stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    cmp     x0, x1
    b.lo    50b
    msr     spsel, #1
    adrp    x0, {boot_stack}        // page-aligned
    add     x0, x0, #{BOOT_STACK}
    mov     sp, x0
    mov     x29, xzr
    mov     x30, xzr
    mov     x0, x20
    mov     x1, x21
    b       {early_main}

    // Another CPU: only the one that is being started goes on, unless it was given up meanwhile.
60: adrp    x0, {launch}
    add     x0, x0, :lo12:{launch}
    mrs     x1, mpidr_el1
    ldr     x2, =0xff00ffffff
    and     x1, x1, x2
    ldr     x2, [x0, #{ID}]
    cmp     x1, x2
    b.ne    63f
    add     x1, x0, #{CLAIM}
    mov     w4, #{TAKEN}
61: ldaxr   w3, [x1]
    cmp     w3, #{OPEN}
    b.ne    63f
    stxr    w5, w4, [x1]
    cbnz    w5, 61b
    msr     spsel, #1
    ldr     x1, [x0, #{STACK}]
    mov     sp, x1
    ldr     x0, [x0, #{CPU_BLOCK}]
    mov     x29, xzr
    mov     x30, xzr
    b       {secondary}
63: wfe
    b       63b

    // Where another CPU enters: as the boot CPU does, but for x0. SPIN-TABLE and PSCI: MMU off, at
    // the same exception level as the boot CPU was entered at, or EL1.
    .balign 8
    .global __secondary_start
__secondary_start:
    msr     daifset, #0xf
    mov     x20, xzr
    mov     x23, #1
    b       1b

    // switch_ttbr1(x0 = new root, x1 = empty table): runs where TTBR0 maps it, so that TTBR1 can be
    // replaced by way of an empty table (D8.16.1, break-before-make); ends with the empty table in
    // TTBR0 too.
    .global __switch_ttbr1
__switch_ttbr1:
    msr     ttbr1_el1, x1
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    msr     ttbr1_el1, x0
    isb
    ret
    .ltorg

    .section .data.early_tables, "aw"
    .balign 4096
    .global __early_tables
__early_tables:
    .zero   6 * 4096
    .previous
    "#,
    SCTLR_OFF = const SCTLR_OFF,
    SCTLR_EL2_OFF = const SCTLR_EL2_OFF,
    SCTLR_ON = const SCTLR_ON,
    BLOCK = const BLOCK,
    MAIR = const MAIR,
    TCR = const TCR,
    boot_stack = sym BOOT_STACK_MEMORY,
    BOOT_STACK = const BOOT_STACK,
    early_main = sym super::boot::early_main,
    launch = sym launch::LAUNCH,
    ROOT = const offset_of!(Launch, root),
    ID = const offset_of!(Launch, id),
    CLAIM = const offset_of!(Launch, claim),
    TAKEN = const Claim::TAKEN,
    OPEN = const Claim::OPEN,
    STACK = const offset_of!(Launch, stack),
    CPU_BLOCK = const offset_of!(Launch, block),
    secondary = sym super::cpus::secondary,
);

/// Bytes of the stack that the kernel boots on.
pub(super) const BOOT_STACK: usize = 64 << 10;

#[repr(C, align(4096))]
pub(super) struct Stack([u8; BOOT_STACK]);
pub(super) static mut BOOT_STACK_MEMORY: Stack = Stack([0; BOOT_STACK]);
