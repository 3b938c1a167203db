//! What only the machine has. The kernel uses the public modules, whose names and signatures are
//! the same in `arch-aarch64`; private modules with the same name do the same in both.

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
mod apic;
mod context;
mod debug;
mod descriptors;
mod direct_map;
mod early;
mod entry;
mod features;
mod fp;
mod frame;
mod from_limine;
mod head;
mod identify;
mod image;
mod interrupts;
mod kernel_traps;
mod keyboard;
mod page_fault;
mod percpu;
mod physmem;
mod pkru;
mod power;
mod pvh;
mod root;
mod rtc;
mod segments;
mod selectors;
mod sigframe;
mod traced;
mod trampoline;
