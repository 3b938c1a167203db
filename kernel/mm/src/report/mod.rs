//! Read-only walks over an address space for /proc: smaps, pagemap, mincore(2).

mod info;
mod smaps;

pub use smaps::SmapsWalk;
