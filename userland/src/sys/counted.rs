//! Two marks with instructions between them of which each is known: what a counter of instructions
//! and accesses is tested with.
use super::mem;

/// Instructions, loads, stores and atomic updates of one round; of a store that marks none.
pub const ROUND: [u64; 4] = if cfg!(target_arch = "x86_64") {
    [7, 3, 4, 2]
} else {
    [9, 3, 4, 2]
};

/// How far from `at` the words are that a round reads, writes, and does both to. Each has a line of
/// its own.
pub const READ: usize = 0;
/// The words that are written only.
pub const WRITTEN: [usize; 2] = [64, 128];
/// The words that are updated.
pub const UPDATED: [usize; 2] = [192, 256];

/// Stores 1 to `marks`, plays rounds with the five lines from `at`, and stores 2 to `marks`. Both
/// were written to before, so that nothing faults; `rounds` is at least 1.
#[inline(never)]
pub fn play(marks: usize, at: usize, rounds: u64) {
    assert!(rounds > 0);
    for line in 0..5 {
        mem::store(at + line * 64, 0);
    }
    // SAFETY: the caller mapped both places, outside any Rust object; what changes is named.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "mov qword ptr [{marks}], 1",
            "2:",
            "mov {word}, [{at}]",
            "mov [{at} + 64], {word}",
            "mov [{at} + 128], {word}",
            "lock inc qword ptr [{at} + 192]",
            "xchg [{at} + 256], {word}",
            "dec {rounds}",
            "jnz 2b",
            "mov qword ptr [{marks}], 2",
            marks = in(reg) marks, at = in(reg) at, rounds = inout(reg) rounds => _, word = out(reg) _,
            options(nostack),
        );
    }
    // SAFETY: as above; the only CPU without these instructions of Armv8.1 that Quire runs on is
    // real, and a count needs QEMU.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            ".arch_extension lse",
            "str {one}, [{marks}]",
            "2:",
            "ldr {word}, [{at}]",
            "str {word}, [{at}, 64]",
            "str {word}, [{at}, 128]",
            "ldadd {one}, {word}, [{third}]",
            "ldxr {word}, [{fourth}]",
            "add {word}, {word}, 1",
            "stxr {failed:w}, {word}, [{fourth}]",
            "subs {rounds}, {rounds}, 1",
            "b.ne 2b",
            "str {two}, [{marks}]",
            marks = in(reg) marks, at = in(reg) at, third = in(reg) at + 192, fourth = in(reg) at + 256,
            one = in(reg) 1u64, two = in(reg) 2u64, rounds = inout(reg) rounds => _,
            word = out(reg) _, failed = out(reg) _, options(nostack),
        );
    }
}
