//! memcpy by words at any alignment. Rust's own is made for machines without unaligned loads: where
//! source and destination are aligned differently it loads single bytes, 2.5 instructions for each.
//! Here the MMU is on before Rust begins (`head`), and all that is copied is normal memory.

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.memcpy, "ax"
    .global memcpy
    .type   memcpy, %function
    // memcpy(x0 = to, x1 = from, x2 = bytes) returns x0. Stores are aligned once 16 bytes are left.
memcpy:
    mov     x3, x0
    cmp     x2, #16
    b.lo    4f
    neg     x4, x0
    ands    x4, x4, #15
    b.eq    1f
    // The first word or two, up to where the destination is aligned, and some that is copied again.
    ldp     x5, x6, [x1]
    stp     x5, x6, [x3]
    add     x3, x3, x4
    add     x1, x1, x4
    sub     x2, x2, x4
1:  subs    x2, x2, #32
    b.lo    3f
2:  ldp     x5, x6, [x1], #16
    ldp     x7, x8, [x1], #16
    stp     x5, x6, [x3], #16
    stp     x7, x8, [x3], #16
    subs    x2, x2, #32
    b.hs    2b
    // Of what is left the low five bits are right.
3:  tbz     x2, #4, 4f
    ldp     x5, x6, [x1], #16
    stp     x5, x6, [x3], #16
4:  tbz     x2, #3, 5f
    ldr     x5, [x1], #8
    str     x5, [x3], #8
5:  tbz     x2, #2, 6f
    ldr     w5, [x1], #4
    str     w5, [x3], #4
6:  tbz     x2, #1, 7f
    ldrh    w5, [x1], #2
    strh    w5, [x3], #2
7:  tbz     x2, #0, 8f
    ldrb    w5, [x1]
    strb    w5, [x3]
8:  ret
"#
);
