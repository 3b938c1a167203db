//! Refusal of the kernel's heap allocations, as the file `heap_fail` sets it for a process.
use std::fs;

/// The file that makes the heap fail for the process that writes to it, and its children.
const KNOB: &str = "/sys/kernel/mm/quire/heap_fail";

/// Instead of a number: nothing fails, but what calls need that could not have failed is measured.
pub const MEASURE: u32 = u32::MAX;

/// Makes the calls of this process find no memory from their `from`-th heap allocation on.
pub fn begin(from: u32) {
    let word = match from {
        MEASURE => "measure".to_owned(),
        from => from.to_string(),
    };
    let _ = fs::write(KNOB, word);
}
