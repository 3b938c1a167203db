//! SKELETON of the aarch64 machine. `pte` is pure bits, compiled and tested on every host; the rest exists only on the machine.
#![no_std]
#![allow(unsafe_code, missing_docs)]
pub mod pte;
#[cfg(target_os = "none")] pub mod boot;
#[cfg(target_os = "none")] pub mod cpu;
#[cfg(target_os = "none")] pub mod serial;
#[cfg(target_os = "none")] pub mod timer;
#[cfg(target_os = "none")] pub mod tlb;
#[cfg(target_os = "none")] pub mod trap;
#[cfg(target_os = "none")] pub mod uaccess;
