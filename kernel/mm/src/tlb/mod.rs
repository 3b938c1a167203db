//! TLB maintenance: the [`gather`] is the only place that flushes user translations.

pub mod gather;
mod release;

pub(crate) use gather::removed_alone;
pub use gather::{Gather, Removed};
