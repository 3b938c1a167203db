//! TLB maintenance: the [`gather`] is the only place that flushes user translations.

pub mod gather;

pub use gather::{Gather, Removed};
