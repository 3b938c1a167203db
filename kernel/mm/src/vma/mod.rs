//! The areas of an address space (VMAs): one [`Vma`] per range with one protection and backing, in
//! a [`tree::VmaTree`], merged where Linux merges.

mod build;
mod change;
mod figures;
mod gaps;
pub mod merge;
mod policy;
mod pool;
mod relocate;
mod store;
mod taken;
pub mod tree;
mod types;
mod update;
mod validate;
mod view;

pub use figures::Figures;
pub use policy::Question;
pub(crate) use store::Found;
pub use store::{STACK_GUARD_GAP, Slot, guarded_start};
pub use taken::Taken;
pub use tree::VmaTree;
pub use types::{AnonVma, Backing, MappedFile, Prot, Vma, VmaFlags};
