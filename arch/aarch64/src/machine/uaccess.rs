//! The only code that accesses user memory: copies with a fixup for addresses that cannot be
//! accessed. Ranges were checked to lie in user space by the caller (kernel/src/base/uaccess.rs).
//!
//! Copies use the unprivileged loads and stores (LDTR, STTR), which the MMU checks as user mode's:
//! PAN stays set. Each instruction that may fault has an entry in `__ex_table`: its address and the
//! continuation.

use super::features;
use core::arch::{asm, global_asm};

global_asm!(
    r#"
    // `insn` may fault; then go on at `target`.
    .macro may_fault target, insn:vararg
7777: \insn
    .pushsection __ex_table, "a"
    .balign 8
    .quad   7777b, \target
    .popsection
    .endm

    .section .text.uaccess, "ax"
    // Each returns in x0 how many bytes at the end were not done. After a fault in the loop of 32
    // bytes the loop of single bytes finds out where exactly.

    // __copy_from_user(x0 = to, x1 = from, x2 = bytes)
    .global __copy_from_user
    .type   __copy_from_user, %function
__copy_from_user:
    subs    x3, x2, #32
    b.lo    2f
1:  may_fault 2f, ldtr x4, [x1]
    may_fault 2f, ldtr x5, [x1, #8]
    may_fault 2f, ldtr x6, [x1, #16]
    may_fault 2f, ldtr x7, [x1, #24]
    stp     x4, x5, [x0], #16
    stp     x6, x7, [x0], #16
    add     x1, x1, #32
    mov     x2, x3
    subs    x3, x3, #32
    b.hs    1b
2:  cbz     x2, 4f
3:  may_fault 4f, ldtrb w4, [x1]
    strb    w4, [x0], #1
    add     x1, x1, #1
    subs    x2, x2, #1
    b.ne    3b
4:  mov     x0, x2
    ret

    // __copy_to_user(x0 = to, x1 = from, x2 = bytes)
    .global __copy_to_user
    .type   __copy_to_user, %function
__copy_to_user:
    subs    x3, x2, #32
    b.lo    2f
1:  ldp     x4, x5, [x1]
    ldp     x6, x7, [x1, #16]
    may_fault 2f, sttr x4, [x0]
    may_fault 2f, sttr x5, [x0, #8]
    may_fault 2f, sttr x6, [x0, #16]
    may_fault 2f, sttr x7, [x0, #24]
    add     x1, x1, #32
    add     x0, x0, #32
    mov     x2, x3
    subs    x3, x3, #32
    b.hs    1b
2:  cbz     x2, 4f
3:  ldrb    w4, [x1], #1
    may_fault 4f, sttrb w4, [x0]
    add     x0, x0, #1
    subs    x2, x2, #1
    b.ne    3b
4:  mov     x0, x2
    ret

    // __clear_user(x0 = to, x1 = bytes)
    .global __clear_user
    .type   __clear_user, %function
__clear_user:
    subs    x3, x1, #32
    b.lo    2f
1:  may_fault 2f, sttr xzr, [x0]
    may_fault 2f, sttr xzr, [x0, #8]
    may_fault 2f, sttr xzr, [x0, #16]
    may_fault 2f, sttr xzr, [x0, #24]
    add     x0, x0, #32
    mov     x1, x3
    subs    x3, x3, #32
    b.hs    1b
2:  cbz     x1, 4f
3:  may_fault 4f, sttrb wzr, [x0]
    add     x0, x0, #1
    subs    x1, x1, #1
    b.ne    3b
4:  mov     x0, x1
    ret

    // __load_user(x0 = address) -> x0 = the word, all ones when it is not there
    .global __load_user
    .type   __load_user, %function
__load_user:
    may_fault 1f, ldtr w0, [x0]
    ret
1:  mov     x0, #-1
    ret

    // __cas_user(x0 = address, w1 = old, w2 = new) -> x0 = the word that was there, all ones when
    // it cannot be written. There is no unprivileged exclusive: the caller clears PAN. The range is
    // user space, so only user pages are meant.
    .global __cas_user
    .type   __cas_user, %function
__cas_user:
1:  may_fault 3f, ldaxr w3, [x0]
    cmp     w3, w1
    b.ne    2f
    may_fault 3f, stlxr w4, w2, [x0]
    cbnz    w4, 1b
2:  clrex
    mov     w0, w3
    ret
3:  clrex
    mov     x0, #-1
    ret
    .previous
    "#
);

unsafe extern "C" {
    fn __copy_from_user(to: *mut u8, from: u64, bytes: usize) -> usize;
    fn __copy_to_user(to: u64, from: *const u8, bytes: usize) -> usize;
    fn __clear_user(to: u64, bytes: usize) -> usize;
    fn __load_user(from: u64) -> u64;
    fn __cas_user(at: u64, old: u32, new: u32) -> u64;
    static __ex_table_start: [u64; 2];
    static __ex_table_end: [u64; 2];
}

/// The continuation after a fault of the instruction at `pc`; `None` when it is not expected to
/// fault.
pub(crate) fn fixup(pc: u64) -> Option<u64> {
    // SAFETY: linker.ld puts pairs of addresses between the two symbols.
    let table = unsafe {
        let (start, end) = (&raw const __ex_table_start, &raw const __ex_table_end);
        core::slice::from_raw_parts(start, end.offset_from_unsigned(start))
    };
    table
        .iter()
        .find(|entry| entry[0] == pc)
        .map(|entry| entry[1])
}

fn done(left: usize) -> Result<(), usize> {
    if left == 0 { Ok(()) } else { Err(left) }
}

/// Copies from user memory; `Err(n)`: n bytes at the end were not copied.
pub fn copy_from_user(into: &mut [u8], from: u64) -> Result<(), usize> {
    // SAFETY: `into` is ours; `from` is only read unprivileged, with a fixup.
    done(unsafe { __copy_from_user(into.as_mut_ptr(), from, into.len()) })
}

/// Copies to user memory; `Err(n)`: n bytes at the end were not copied.
pub fn copy_to_user(to: u64, from: &[u8]) -> Result<(), usize> {
    // SAFETY: `to` is only written unprivileged, with a fixup.
    done(unsafe { __copy_to_user(to, from.as_ptr(), from.len()) })
}

/// Zeroes user memory; `Err(n)`: n bytes at the end were not zeroed.
pub fn clear_user(to: u64, len: usize) -> Result<(), usize> {
    // SAFETY: as in `copy_to_user`.
    done(unsafe { __clear_user(to, len) })
}

/// Reads an aligned word atomically (futex).
#[allow(clippy::result_unit_err)]
pub fn load_u32(from: u64) -> Result<u32, ()> {
    // SAFETY: an unprivileged read with a fixup.
    u32::try_from(unsafe { __load_user(from) }).map_err(|_| ())
}

/// Compare-exchange of an aligned word; Ok(previous value).
#[allow(clippy::result_unit_err)]
pub fn compare_exchange_u32(at: u64, old: u32, new: u32) -> Result<u32, ()> {
    let previous = without_pan(|| {
        // SAFETY: the caller checked that the word lies in user space; it is user mode's own, with
        // a fixup.
        unsafe { __cas_user(at, old, new) }
    });
    u32::try_from(previous).map_err(|_| ())
}

/// Runs `f` with PSTATE.PAN clear: ordinary accesses reach user memory.
fn without_pan<R>(f: impl FnOnce() -> R) -> R {
    if !features::has_pan() {
        return f();
    }
    // SAFETY: PSTATE.PAN exists: msr pan, #0 and below msr pan, #1.
    unsafe { asm!(".inst 0xd500409f", options(nostack, preserves_flags)) };
    let result = f();
    // SAFETY: as above.
    unsafe { asm!(".inst 0xd500419f", options(nostack, preserves_flags)) };
    result
}
