//! What all ways to boot have in common: the facts they hand to the kernel ([`BootInfo`]), lists of
//! physical memory ([`memory`]), and the Limine boot protocol (`limine`, machine only), which is
//! the same on both architectures. [`trap`] holds the reasons why user mode is left, [`rows`] the
//! loops over page-table entries, also the same on both.
#![no_std]
#![allow(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod acpi;
pub mod cmdline;
pub mod cpus;
mod framebuffer;
#[cfg(feature = "machine")]
pub mod limine;
pub mod memory;
pub mod online;
pub mod patience;
pub mod payload;
pub mod rows;
pub mod trap;
pub mod waited;

use arrayvec::ArrayVec;
use cpus::Cpus;
use memory::{Ram, Ranges};
use mm::addr::{PAGE_SIZE, PhysAddr, PhysRange};

pub use framebuffer::Framebuffer;

/// Virtual address of physical address 0 in the direct map.
pub const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Kernel stacks live here, with guard pages between: 64 GiB of address space.
pub const STACK_AREA: u64 = 0xffff_c000_0000_0000;

// Defined in the kernel (`kernel/src/entry/boot.rs`).
unsafe extern "Rust" {
    /// Called on the boot CPU with interrupts off, the early tables on, on the boot stack.
    pub safe fn kernel_main(info: BootInfo) -> !;
    /// Called on each further CPU, on its own stack, with its number, interrupts off, and all that
    /// the boot CPU has turned on; or with why it cannot be used.
    pub safe fn secondary_main(cpu: usize, fit: Result<(), cpus::Unfit>) -> !;
}

/// The facts that the boot protocol handed over, in one form for all protocols. Addresses are
/// physical.
#[derive(Debug)]
pub struct BootInfo {
    /// Usable RAM, sorted, page-aligned, not overlapping; the image, the initramfs and tables are
    /// inside it and listed in `reserved`.
    pub ram: Ram,
    /// Parts of `ram` in use: kernel image (with its payload), initramfs, boot tables, device tree.
    pub reserved: Ranges,
    /// Device windows the kernel must map (uncached) in the direct map: serial, interrupt
    /// controller, timers, RTC, screen.
    pub devices: ArrayVec<PhysRange, 16>,
    /// Kernel command line.
    pub cmdline: &'static str,
    /// The initramfs handed over by the loader (QEMU's -initrd, Limine's first module), if any.
    pub initramfs: Option<PhysRange>,
    /// The CPUs that the firmware listed, the running one included; empty without a list.
    pub cpus: Cpus,
    /// Where the image's first byte (`__image_start`) lies.
    pub image: PhysAddr,
    /// The device tree, when there is one.
    pub device_tree: Option<PhysAddr>,
    /// ACPI's root pointer, when there is one.
    pub rsdp: Option<PhysAddr>,
    /// A feature that the kernel requires and the machine lacks, as a sentence: boot prints it on
    /// every console and ends.
    pub missing: Option<&'static str>,
    /// A screen of pixels, when the loader set one up.
    pub framebuffer: Option<Framebuffer>,
    /// Name of the protocol and machine, for the boot line: "PVH", "arm64 Image", "Limine (UEFI)".
    pub protocol: &'static str,
}

impl BootInfo {
    /// A `BootInfo` with RAM and the image (with its payload) only.
    pub fn new(ram: Ram, image: PhysRange, protocol: &'static str) -> Self {
        let mut info = BootInfo {
            ram,
            reserved: Ranges::new(),
            devices: ArrayVec::new(),
            cmdline: "",
            initramfs: None,
            cpus: Cpus::new(),
            image: image.start,
            device_tree: None,
            rsdp: None,
            missing: None,
            framebuffer: None,
            protocol,
        };
        // Frame 0 stays out of use: a zero frame number in a table must never be right, and on a
        // Raspberry Pi the other CPUs wait there.
        info.reserve(PhysRange::new(PhysAddr(0), PhysAddr(PAGE_SIZE)));
        info.reserve(image);
        info
    }

    /// Adds the pages that `range` touches to those in use. Panics when the list is full.
    pub fn reserve(&mut self, range: PhysRange) {
        memory::reserve(&mut self.reserved, range);
    }

    /// Moves the framebuffer's pages, if there is one, from RAM to the device windows.
    pub fn keep_screen(&mut self) {
        if let Some(screen) = self.framebuffer {
            let window = memory::whole_pages_around(screen.window);
            self.ram.remove(window);
            self.devices.push(window);
        }
    }

    /// Whether all of `range` is RAM.
    pub fn has(&self, range: PhysRange) -> bool {
        memory::covers(&self.ram, range)
    }
}
