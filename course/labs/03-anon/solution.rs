//! Lab 3: your solution. `README.md` beside this file says what it is to do.

use super::{NoMemory, Page};

/// Resolves a fault of a read or a write.
pub fn fault(_page: &mut dyn Page, _write: bool) -> Result<(), NoMemory> {
    // Nothing is done: the program repeats the access, and faults again.
    Ok(())
}
