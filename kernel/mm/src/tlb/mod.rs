//! TLB maintenance: the [`gather`] is the only place that flushes user translations.

pub mod gather;
mod release;

pub use gather::{Gather, Removed};
pub(crate) use release::removed_alone;
