//! The user's verbs, one per file. Errors are those of the manual pages (mmap(2) and its
//! relatives).

mod advise;
mod brk;
mod collapse;
mod fork;
mod info;
mod leave;
mod lock;
mod map;
mod place;
mod protect;
mod refs;
mod remap;
mod rmap;
mod smaps;
mod split;
mod unmap;

pub use remap::RemapFlags;
pub use smaps::SmapsWalk;

pub use crate::state::{
    AddressSpace, Advice, Collapse, Error, FOLIO_ORDERS, FolioUse, Limits, MMAP_MIN_ADDR,
    MapRequest, Mapped, PageInfo, Place, STACK_GUARD_GAP, Smaps, Usage,
};
