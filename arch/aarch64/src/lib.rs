//! The aarch64 machine: QEMU's `virt` and whatever else has a GIC, a PL011 and a device tree. `pte`
//! and `tlbi` are pure bits, `board` and `fdt` read a device tree: they are compiled and tested on
//! every host; the rest exists only on the machine.
//!
//! Names and signatures of the public modules are those of `arch/x86_64`.
#![no_std]
// A room for `unsafe`: each block says why it is sound.
#![allow(unsafe_code)]

pub mod board;
pub mod fdt;
pub mod pte;
pub mod tlbi;

#[cfg(all(target_arch = "aarch64", target_os = "none"))]
pub mod boot;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
pub mod cpu;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
pub mod serial;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
pub mod timer;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
pub mod tlb;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
pub mod trap;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
pub mod uaccess;

#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod acpi;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod bcm2836;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod early;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod esr;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod fp;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod from_limine;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod gic;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod head;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod icache;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod idregs;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod interrupts;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod mailbox;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod memcpy;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod mini_uart;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod mmio;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod pairs;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod physmem;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod pl011;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod power;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod raspberry;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod regs;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod rtc;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod sigframe;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod vectors;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod watchdog;
