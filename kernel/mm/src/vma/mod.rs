//! What the user asked for: one [`Vma`] per range, in a [`tree::VmaTree`], merged where Linux merges.

pub mod merge;
pub mod tree;
mod types;

pub use tree::{Figures, Slot, Taken, VmaTree};
pub use types::{AnonVma, Backing, MappedFile, Prot, Vma, VmaFlags};
