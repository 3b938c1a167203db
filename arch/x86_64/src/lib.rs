//! The x86_64 machine. The page-table format ([`pte`]) and the slot of a far screen ([`far`]) are
//! pure functions, compiled and tested on every host; [`machine`] exists only on the machine.
//!
//! Manuals: "SDM" is Intel's Software Developer's Manual, "APM" AMD's Architecture Programmer's
//! Manual; PVH is Xen's "x86/HVM direct boot ABI".
#![no_std]
// Each unsafe block has a SAFETY line.
#![allow(unsafe_code)]

extern crate alloc;

pub mod far;
pub mod pte;

#[cfg(all(target_arch = "x86_64", target_os = "none"))]
pub mod machine;
