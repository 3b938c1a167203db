//! The page allocator as a value: metadata of each frame ([`meta`], [`table`]), free lists
//! ([`buddy`] by [`pageblock`], per-CPU lists in front), watermarks ([`zone`]), and the
//! [`Allocator`] of them all.

pub mod allocator;
pub mod buddy;
pub mod compact;
pub mod counts;
pub(crate) mod list;
pub mod meta;
pub mod pageblock;
mod pcp;
pub mod slots;
mod steal;
pub mod table;
mod validate;
pub mod zone;

pub use allocator::Allocator;
pub use meta::{FrameMeta, Kind};
pub use pageblock::Mobility;
pub use table::{Block, FrameTable};
pub use zone::AllocRequest;

#[cfg(test)]
mod tests;
