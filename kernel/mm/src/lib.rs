//! Quire's memory manager: `no_std`, no assembly, no `cfg(target_arch)`.

#![no_std]

extern crate alloc;

pub mod addr;
pub mod arch;
pub mod sync;
pub mod vma;
pub mod manager;
pub mod object;
pub mod space;
pub mod fault;
