//! Whether the running code is the simulated machine's: its allocations on the host are not the
//! memory manager's.

use std::cell::Cell;

std::thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Guard: this thread runs code of the machine until it is dropped.
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
