//! Lab 7: your solution. `README.md` beside this file says what it is to do.

use super::{NoMemory, Tables};
use core::ops::Range;

/// Moves all that `from` maps to the addresses from `to` on, where nothing is mapped.
pub fn move_range(
    _tables: &mut dyn Tables,
    _from: Range<u64>,
    _to: u64,
) -> Result<(), NoMemory> {
    // Nothing moves: mremap(2) fails.
    Err(NoMemory)
}
