//! What only the machine has. The kernel uses the public modules, whose names and signatures are
//! the same in `arch-x86_64`; private modules with the same name do the same in both.

pub use crate::pte;

pub mod boot;
pub mod cpu;
pub mod cpus;
pub mod serial;
pub mod timer;
pub mod tlb;
pub mod trap;
pub mod uaccess;

mod acpi;
mod bcm2836;
mod context;
mod debug;
mod early;
mod entry;
mod esr;
mod features;
mod fp;
mod frame;
mod from_limine;
mod gic;
mod head;
mod icache;
mod identify;
mod image;
mod interrupts;
mod kernel_traps;
mod launch;
mod mailbox;
mod memcpy;
mod mini_uart;
mod mmio;
mod pairs;
mod percpu;
mod physmem;
mod pl011;
mod power;
mod raspberry;
mod regs;
mod rtc;
mod sigframe;
mod traced;
mod watchdog;
