//! The only code that accesses user memory: copies with a fixup for addresses that cannot be
//! accessed. Ranges were checked to lie in user space by the caller (kernel/src/base/uaccess.rs).
//!
//! `__ex_table` holds pairs {instruction, continuation}: after a fault at the first that cannot be
//! resolved, execution continues at the second.

use super::features;
use core::arch::{asm, global_asm};

unsafe extern "C" {
    fn uaccess_copy(to: *mut u8, from: *const u8, len: usize) -> usize;
    fn uaccess_clear(to: *mut u8, len: usize) -> usize;
    fn uaccess_load_u32(from: *const u32) -> u64;
    fn uaccess_compare_exchange_u32(at: *mut u32, old: u32, new: u32) -> u64;
    fn uaccess_probe(from: *const u64, into: *mut u64) -> u64;
    static __ex_table_start: [u64; 2];
    static __ex_table_end: [u64; 2];
}

global_asm!(
    r#"
    .macro MAY_FAULT at, next
    .pushsection __ex_table, "a"
    .balign 8
    .quad \at, \next
    .popsection
    .endm

    .pushsection .text.uaccess, "ax"
    // rdi to, rsi from, rdx bytes; rax: bytes not copied. Words first; where a word faults, bytes
    // go on to the exact end.
    .globl uaccess_copy
uaccess_copy:
    mov rcx, rdx
    shr rcx, 3
    and edx, 7
1:  rep movsq
    mov ecx, edx
2:  rep movsb
3:  mov rax, rcx
    ret
4:  lea rcx, [rcx * 8 + rdx]
    jmp 2b
    MAY_FAULT 1b, 4b
    MAY_FAULT 2b, 3b

    // rdi to, rsi bytes; rax: bytes not cleared.
    .globl uaccess_clear
uaccess_clear:
    xor eax, eax
    mov rcx, rsi
    shr rcx, 3
    and esi, 7
1:  rep stosq
    mov ecx, esi
2:  rep stosb
3:  mov rax, rcx
    ret
4:  lea rcx, [rcx * 8 + rsi]
    jmp 2b
    MAY_FAULT 1b, 4b
    MAY_FAULT 2b, 3b

    // rax: the word, or all ones.
    .globl uaccess_load_u32
uaccess_load_u32:
1:  mov eax, [rdi]
    ret
2:  mov rax, -1
    ret
    MAY_FAULT 1b, 2b

    // rax: the previous word, or all ones.
    .globl uaccess_compare_exchange_u32
uaccess_compare_exchange_u32:
    mov eax, esi
1:  lock cmpxchg [rdi], edx
    mov eax, eax
    ret
2:  mov rax, -1
    ret
    MAY_FAULT 1b, 2b

    // Kernel memory that may not be there (backtraces): rax 0 and the word at rsi, or 1.
    .globl uaccess_probe
uaccess_probe:
1:  mov rax, [rdi]
    mov [rsi], rax
    xor eax, eax
    ret
2:  mov eax, 1
    ret
    MAY_FAULT 1b, 2b
    .popsection
    "#
);

/// Guard that allows access to user memory (STAC) until it is dropped (CLAC).
struct Window;
impl Window {
    #[inline(always)]
    fn open() -> Self {
        if features::get().smap {
            // SAFETY: the instruction exists with SMAP; `drop` closes the window.
            unsafe { asm!("stac", options(nostack)) };
        }
        Window
    }
}
impl Drop for Window {
    #[inline(always)]
    fn drop(&mut self) {
        if features::get().smap {
            // SAFETY: the instruction exists with SMAP.
            unsafe { asm!("clac", options(nostack)) };
        }
    }
}

fn user<T>(at: u64) -> *mut T {
    core::ptr::without_provenance_mut(at as usize)
}

fn left(n: usize) -> Result<(), usize> {
    if n == 0 { Ok(()) } else { Err(n) }
}

/// Copies from user memory; `Err(n)`: n bytes at the end were not copied.
pub fn copy_from_user(into: &mut [u8], from: u64) -> Result<(), usize> {
    let _window = Window::open();
    // SAFETY: `into` is ours; a fault on the user's side stops the copy.
    left(unsafe { uaccess_copy(into.as_mut_ptr(), user(from), into.len()) })
}

/// Copies to user memory; `Err(n)`: n bytes at the end were not copied.
pub fn copy_to_user(to: u64, from: &[u8]) -> Result<(), usize> {
    let _window = Window::open();
    // SAFETY: the range lies in user space (the caller's promise), so no kernel memory is written.
    left(unsafe { uaccess_copy(user(to), from.as_ptr(), from.len()) })
}

/// Zeroes user memory; `Err(n)`: n bytes at the end were not cleared.
pub fn clear_user(to: u64, len: usize) -> Result<(), usize> {
    let _window = Window::open();
    // SAFETY: as in `copy_to_user`.
    left(unsafe { uaccess_clear(user(to), len) })
}

/// Reads an aligned word atomically (futex).
#[allow(clippy::result_unit_err)]
pub fn load_u32(from: u64) -> Result<u32, ()> {
    let _window = Window::open();
    // SAFETY: a user address; a fault is an error value.
    u32::try_from(unsafe { uaccess_load_u32(user(from)) }).map_err(|_| ())
}

/// Compare-exchange of an aligned word; Ok(previous value).
#[allow(clippy::result_unit_err)]
pub fn compare_exchange_u32(at: u64, old: u32, new: u32) -> Result<u32, ()> {
    let _window = Window::open();
    // SAFETY: a user address; a fault is an error value.
    u32::try_from(unsafe { uaccess_compare_exchange_u32(user(at), old, new) }).map_err(|_| ())
}

/// Reads a word of kernel memory; `None` when it is not mapped.
pub(crate) fn probe(from: u64) -> Option<u64> {
    let mut word = 0;
    // SAFETY: reading has no effect; a fault is an error value.
    (unsafe { uaccess_probe(core::ptr::with_exposed_provenance(from as usize), &mut word) } == 0)
        .then_some(word)
}

/// The continuation after a fault of the instruction at `pc`; `None` when it is not expected to
/// fault.
pub(crate) fn fixup(pc: u64) -> Option<u64> {
    let start = &raw const __ex_table_start;
    let count = ((&raw const __ex_table_end).addr() - start.addr()) / size_of::<[u64; 2]>();
    // SAFETY: the linker script puts the table between the two symbols.
    let table = unsafe { core::slice::from_raw_parts(start, count) };
    table.iter().find(|pair| pair[0] == pc).map(|pair| pair[1])
}
