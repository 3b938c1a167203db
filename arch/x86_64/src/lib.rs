//! The x86_64 machine. The page-table format ([`pte`]), the slot of a far screen ([`far`]), what
//! all CPUs have ([`least`]) and the requests of a TLB shootdown ([`shootdown`]) are compiled and
//! tested on every host; [`machine`] only for the kernel.
//!
//! Manuals: "SDM" is Intel's Software Developer's Manual, "APM" AMD's Architecture Programmer's
//! Manual; PVH is Xen's "x86/HVM direct boot ABI".
#![no_std]
// Each unsafe block has a SAFETY line.
#![allow(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod far;
pub mod least;
pub mod pte;
pub mod shootdown;

#[cfg(all(target_arch = "x86_64", feature = "machine"))]
pub mod machine;
