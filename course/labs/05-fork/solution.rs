//! Lab 5: your solution. `README.md` beside this file says what it is to do.

use super::{NoMemory, Tables};
use core::ops::Range;

/// Gives the child what the entries of `range` map.
pub fn fork(tables: &mut dyn Tables, range: Range<usize>) -> Result<(), NoMemory> {
    // A copy of everything: right, as the first fork was that there ever was, and as slow.
    for index in range {
        if tables.read(index).is_some() {
            tables.duplicate(index)?;
        }
    }
    Ok(())
}
