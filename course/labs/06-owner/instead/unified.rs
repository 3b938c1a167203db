//! In handouts a total: which spaces map a folio is not recorded.

pub use crate::total::Total as Unified;

/// The largest order that has words at all.
pub const WIDE_ORDERS: crate::Order = crate::Order(15);

// What is not used without the word.
const _: fn(&crate::AccountWords) -> u128 = crate::AccountWords::torn;
