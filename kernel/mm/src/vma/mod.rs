//! What the user asked for: one [`Vma`] per range, in a [`tree::VmaTree`], merged where Linux merges.

pub mod merge;
pub mod tree;
mod types;

pub use tree::VmaTree;
pub use types::{Backing, MappedFile, Prot, Vma, VmaFlags};
