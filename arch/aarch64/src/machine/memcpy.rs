//! memcpy, memmove and memset by words at any alignment. Rust's own are made for machines without
//! unaligned accesses: where source and destination are aligned differently they load single bytes.
//! Here the MMU is on before Rust begins (`head`), and all that is copied is normal memory.
//!
//! Up to 64 bytes are loaded before the first is stored, as words from both ends that may overlap
//! in the middle. More are copied by 32 bytes, from the end that the other range does not reach;
//! the last 32 are loaded first. memset stores in the same way.

use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.memcpy, "ax"
    .global memcpy, memmove
    .type   memcpy, %function
    .type   memmove, %function
    // x0 = to, x1 = from, x2 = bytes; returns x0. x3 and x4 are the ends of both.
memcpy:
memmove:
    add     x3, x0, x2
    add     x4, x1, x2
    cmp     x2, #16
    b.hs    3f
    tbz     x2, #3, 1f
    ldr     x5, [x1]
    ldr     x6, [x4, #-8]
    str     x5, [x0]
    str     x6, [x3, #-8]
    ret
1:  tbz     x2, #2, 2f
    ldr     w5, [x1]
    ldr     w6, [x4, #-4]
    str     w5, [x0]
    str     w6, [x3, #-4]
    ret
    // Three bytes or less: the first, the middle and the last.
2:  cbz     x2, 9f
    lsr     x8, x2, #1
    ldrb    w5, [x1]
    ldrb    w6, [x1, x8]
    ldrb    w7, [x4, #-1]
    strb    w5, [x0]
    strb    w6, [x0, x8]
    strb    w7, [x3, #-1]
    ret

    // 16 bytes or more.
3:  cmp     x2, #64
    b.hi    5f
    ldp     x5, x6, [x1]
    ldp     x7, x8, [x4, #-16]
    cmp     x2, #32
    b.ls    4f
    ldp     x9, x10, [x1, #16]
    ldp     x11, x12, [x4, #-32]
    stp     x9, x10, [x0, #16]
    stp     x11, x12, [x3, #-32]
4:  stp     x5, x6, [x0]
    stp     x7, x8, [x3, #-16]
    ret

5:  sub     x5, x0, x1
    cmp     x5, x2
    b.lo    7f
    ldp     x9, x10, [x4, #-32]
    ldp     x11, x12, [x4, #-16]
    mov     x4, x0
    sub     x2, x2, #32
6:  ldp     x5, x6, [x1], #16
    ldp     x7, x8, [x1], #16
    stp     x5, x6, [x4], #16
    stp     x7, x8, [x4], #16
    subs    x2, x2, #32
    b.hi    6b
    stp     x9, x10, [x3, #-32]
    stp     x11, x12, [x3, #-16]
    ret

    // The destination begins within the source: from the end.
7:  ldp     x9, x10, [x1]
    ldp     x11, x12, [x1, #16]
    sub     x2, x2, #32
8:  ldp     x5, x6, [x4, #-16]!
    ldp     x7, x8, [x4, #-16]!
    stp     x5, x6, [x3, #-16]!
    stp     x7, x8, [x3, #-16]!
    subs    x2, x2, #32
    b.hi    8b
    stp     x9, x10, [x0]
    stp     x11, x12, [x0, #16]
9:  ret

    .global memset
    .type   memset, %function
    // x0 = to, w1 = a byte, x2 = bytes; returns x0. x3 is the end.
memset:
    and     x1, x1, #0xff
    mov     x4, #0x0101010101010101
    mul     x1, x1, x4
    add     x3, x0, x2
    cmp     x2, #16
    b.hs    3f
    tbz     x2, #3, 1f
    str     x1, [x0]
    str     x1, [x3, #-8]
    ret
1:  tbz     x2, #2, 2f
    str     w1, [x0]
    str     w1, [x3, #-4]
    ret
2:  cbz     x2, 6f
    lsr     x4, x2, #1
    strb    w1, [x0]
    strb    w1, [x0, x4]
    strb    w1, [x3, #-1]
    ret
3:  stp     x1, x1, [x0]
    stp     x1, x1, [x3, #-16]
    cmp     x2, #32
    b.ls    6f
    and     x4, x0, #~15
    add     x4, x4, #16
    sub     x5, x3, #32
    b       5f
4:  stp     x1, x1, [x4], #16
    stp     x1, x1, [x4], #16
5:  cmp     x4, x5
    b.ls    4b
    stp     x1, x1, [x3, #-32]
6:  ret
"#
);
