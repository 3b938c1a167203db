//! The user's verbs, one per file. Errors are those of the manual pages (mmap(2) and its relatives).

mod advise;
mod brk;
mod fork;
mod info;
mod lock;
mod map;
mod place;
mod protect;
mod remap;
mod smaps;
mod unmap;

pub use crate::state::{
    AddressSpace, Advice, Error, FOLIO_ORDERS, FolioUse, Limits, MMAP_MIN_ADDR, MapRequest,
    PageInfo, Place, STACK_GUARD_GAP, Smaps, Usage,
};
