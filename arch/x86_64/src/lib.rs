//! The x86_64 machine. `pte` is pure bits, compiled and tested on every host; the rest exists only
//! on the machine.
//!
//! Manuals: "SDM" is Intel's Software Developer's Manual, "APM" AMD's Architecture Programmer's
//! Manual; PVH is Xen's "x86/HVM direct boot ABI". The same file names stand in `arch/aarch64`, the
//! files below `machine only` do not.
#![no_std]
#![allow(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;

pub mod far;
pub mod pte;

#[cfg(target_os = "none")]
pub mod boot;
#[cfg(target_os = "none")]
pub mod cpu;
#[cfg(target_os = "none")]
pub mod serial;
#[cfg(target_os = "none")]
pub mod timer;
#[cfg(target_os = "none")]
pub mod tlb;
#[cfg(target_os = "none")]
pub mod trap;
#[cfg(target_os = "none")]
pub mod uaccess;

// Machine only.
#[cfg(target_os = "none")]
mod acpi;
#[cfg(target_os = "none")]
mod apic;
#[cfg(target_os = "none")]
mod context;
#[cfg(target_os = "none")]
mod descriptors;
#[cfg(target_os = "none")]
mod entry;
#[cfg(target_os = "none")]
mod features;
#[cfg(target_os = "none")]
mod fpu;
#[cfg(target_os = "none")]
mod identify;
#[cfg(target_os = "none")]
mod keyboard;
#[cfg(target_os = "none")]
mod percpu;
#[cfg(target_os = "none")]
mod physmem;
#[cfg(target_os = "none")]
mod power;
#[cfg(target_os = "none")]
mod pvh;
#[cfg(target_os = "none")]
mod rtc;
#[cfg(target_os = "none")]
mod segments;
#[cfg(target_os = "none")]
mod signal;
#[cfg(target_os = "none")]
mod start;
