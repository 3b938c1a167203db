//! Frames: who uses each ([`meta`]), which are free ([`buddy`]), who may have the last ones ([`zone`]), which large folios are
//! to be split (`deferred`), the huge zero page (`zero`), and the value that owns them all ([`Mm`]).

pub mod buddy;
mod deferred;
pub mod manager;
pub mod meta;
mod zero;
pub mod zone;

pub use manager::{FrameCounts, Mm, OutOfMemory};
pub use meta::{FrameMeta, FrameTable, Kind};

#[cfg(test)]
mod tests;
