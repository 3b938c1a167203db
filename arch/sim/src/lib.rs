//! The host machine: RAM, a hardware walker over the real page-table formats, and CPUs whose TLBs go stale.
//!
//! It is as unkind as the architectures allow: a TLB may hold any valid entry from any moment on (seeded prefetch around
//! every table write) and keeps it until it is flushed; pointers to tables are cached too; an entry that a TLB holds may be
//! evicted at any time. What QEMU forgives fails here.

mod machine;
mod ram;
mod rng;
mod tlb;
mod user;
mod walker;

pub use machine::{Options, Sim};
pub use tlb::Cached;
pub use user::{Process, World};
