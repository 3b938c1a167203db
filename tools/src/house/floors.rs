//! The floors of the kernel around the memory manager.
use super::source::Source;

/// Imports of a floor from one above it, `path:line`. `None` until the floors have an order.
pub fn upward_arrows(_kernel: &[Source]) -> Option<Vec<String>> {
    None
}
