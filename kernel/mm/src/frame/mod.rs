//! Frames: who uses each ([`meta`]), which are free ([`buddy`]), who may have the last ones ([`zone`]), and the value that
//! owns them all ([`Mm`]).

pub mod buddy;
pub mod manager;
pub mod meta;
pub mod zone;

pub use manager::{FrameCounts, Mm, OutOfMemory};
pub use meta::{FrameMeta, FrameTable, Kind};

#[cfg(test)]
mod tests;
