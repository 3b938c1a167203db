//! The aarch64 machine: QEMU's `virt`, Raspberry Pi boards, and others with a GIC, a PL011 and a
//! device tree. The page-table format ([`pte`]), the operands of TLBI ([`tlbi`]), what all CPUs
//! have ([`least`]) and the readers of the device tree ([`board`], [`fdt`]) are pure functions,
//! compiled and tested on every host; [`machine`] only for the kernel.
#![no_std]
// Each unsafe block has a SAFETY line.
#![allow(unsafe_code)]

extern crate alloc;

pub mod board;
pub mod fdt;
pub mod least;
pub mod pte;
pub mod tlbi;

#[cfg(all(target_arch = "aarch64", feature = "machine"))]
pub mod machine;
