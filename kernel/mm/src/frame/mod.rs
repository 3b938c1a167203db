//! Frames: who uses each ([`meta`]), which are free ([`buddy`] by [`pageblock`], `pcp` in front),
//! who may have the last ones ([`zone`]), the page allocator of them all ([`Allocator`]), which
//! large folios are to be split (`deferred`), the huge zero page (`zero`), what is told of one
//! frame (`inspect`), long-term pins (`lasting`), and the value that owns everything ([`Mm`]).

pub mod allocator;
pub mod buddy;
pub mod counts;
mod cpus;
mod deferred;
mod inspect;
mod lasting;
pub mod manager;
pub mod meta;
pub mod pageblock;
mod pcp;
mod poison;
mod steal;
pub mod table;
mod validate;
mod zero;
pub mod zone;

pub use allocator::Allocator;
pub use cpus::SpaceId;
pub use inspect::FrameInfo;
pub(crate) use lasting::LongTerm;
pub use manager::{FrameCounts, Mm, OutOfMemory};
pub use meta::{FrameMeta, Kind};
pub use pageblock::Mobility;
pub use table::FrameTable;

#[cfg(test)]
mod tests;
