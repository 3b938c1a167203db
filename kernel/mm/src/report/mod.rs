//! Read-only walks over an address space for /proc: smaps, pagemap, references, mappings of a
//! frame.

mod info;
mod refs;
mod smaps;

pub use smaps::SmapsWalk;
