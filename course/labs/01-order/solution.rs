//! Lab 1: your solution. `README.md` beside this file says what it is to do.

use super::Facts;

/// The order of the folio for this fault.
pub fn order(_facts: &Facts) -> u8 {
    // Single pages only: this is always allowed, and never fast.
    0
}
