//! Whether the machine is at work: what it remembers takes memory of the host, which is not the
//! memory manager's.

use std::cell::Cell;

std::thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The machine works on behalf of this thread while this lives.
pub(crate) struct Inside;

impl Inside {
    pub(crate) fn new() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Whether this thread is inside the machine, and not in the memory manager that runs on it: for a
/// heap that fails.
pub fn inside() -> bool {
    DEPTH.get() > 0
}
