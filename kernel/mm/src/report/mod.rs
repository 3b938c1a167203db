//! Read-only walks over an address space for /proc: smaps, pagemap, page tables,
//! mincore(2).

mod info;
mod smaps;
mod tables;

pub use smaps::SmapsWalk;
pub use tables::{EntryRun, EntryTo};
