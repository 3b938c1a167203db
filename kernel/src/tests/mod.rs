//! Tests that need the real machine, and failures on purpose.

use crate::{arch, klog::Console};
use alloc::string::String;
use core::fmt::Write;

/// Runs the registered tests whose names match `glob` and are not in `skip`, and ends the machine: 0 when all passed, else 1.
pub fn run(glob: &str, skip: &[String]) -> ! {
    let _ = writeln!(Console, "{glob} {skip:?}");
    arch::cpu::exit(1)
}

/// Fails on purpose, to see the report: `panic`, `null` (a kernel access to nothing) or `stack` (an overflow into the guard).
pub fn crash(how: &str) {
    match how {
        "panic" => panic!("asked for on the command line"),
        "null" => crate::boot::read_null(),
        "stack" => drop(overflow(1)),
        _ => log::warn!("quire.crash={how} is not one of panic, null, stack"),
    }
}

/// Calls itself until the stack is full.
#[expect(unconditional_recursion, reason = "the guard page ends it")]
fn overflow(depth: u64) -> u64 {
    core::hint::black_box(overflow(depth + 1)) + depth
}
