//! The aarch64 machine: QEMU's `virt` and whatever else has a GIC, a PL011 and a device tree. `pte` is pure bits, compiled
//! and tested on every host; the rest exists only on the machine.
//!
//! Names and signatures of the public modules are those of `arch/x86_64`.
#![no_std]
// A room for `unsafe`: each block says why it is sound.
#![allow(unsafe_code)]

pub mod pte;

/// Modules that need the machine.
macro_rules! on_the_machine {
    ($($(#[$doc:meta])* $vis:vis mod $name:ident;)*) => {
        $(#[cfg(all(target_arch = "aarch64", target_os = "none"))] $(#[$doc])* $vis mod $name;)*
    };
}

on_the_machine! {
    pub mod boot;
    pub mod cpu;
    pub mod serial;
    pub mod timer;
    pub mod tlb;
    pub mod trap;
    pub mod uaccess;
    mod early;
    mod esr;
    mod fdt;
    mod fp;
    mod gic;
    mod head;
    mod icache;
    mod idregs;
    mod mmio;
    mod regs;
    mod sigframe;
    mod vectors;
}
