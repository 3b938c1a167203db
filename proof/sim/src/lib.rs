//! The host machine: RAM, a hardware walker over the real page-table formats, and CPUs whose TLBs
//! go stale.
//!
//! It behaves as adversely as the architectures allow: a TLB may hold any valid entry from any
//! moment on (seeded prefetch around every table write) and keeps it until it is flushed; pointers
//! to tables are cached too; an entry that a TLB holds may be evicted at any time. A contiguous
//! block may be held as one translation, made from any of its entries, and page by page at the same
//! time; the walker sets accessed and dirty in any one entry of it. Mistakes that QEMU hides fail
//! here.
//!
//! The contents of TLBs depend on the seed, so the rules (`rules`) are also checked against a
//! shadow (`shadow`): what CPUs *may* hold since an entry changed until a flush covers it, and
//! which bits the walker set.

mod inside;
mod instances;
mod machine;
mod meanwhile;
mod physmem;
mod ram;
mod rng;
mod rules;
mod run;
mod shadow;
mod threads;
mod tlb;
mod user;
mod walker;

pub use inside::inside;
pub use instances::instances;
pub use machine::{Hole, Options, Sim};
pub use meanwhile::At;
pub use tlb::Cached;
pub use user::{Process, World};
