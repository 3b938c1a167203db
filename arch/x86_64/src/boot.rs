//! SKELETON: from the first instruction to `kernel_main`.
use arrayvec::ArrayVec;
use mm::addr::*;

/// What the boot protocol told, in one form for all protocols. Physical addresses.
#[derive(Debug)]
pub struct BootInfo {
    /// Usable RAM, sorted, page-aligned, not overlapping; the image, the initramfs and tables are inside it and listed in `reserved`.
    pub ram: ArrayVec<PhysRange, 32>,
    /// Parts of `ram` in use: kernel image (with its payload), initramfs, boot tables, device tree.
    pub reserved: ArrayVec<PhysRange, 32>,
    /// Device windows the kernel must map (uncached) in the direct map: serial, interrupt controller, timers, RTC.
    pub devices: ArrayVec<PhysRange, 16>,
    /// Kernel command line.
    pub cmdline: &'static str,
    /// The initramfs handed over by the loader (-initrd), if any.
    pub initramfs: Option<PhysRange>,
    /// Where the image's first byte (`__image_start`) lies.
    pub image: PhysAddr,
    /// Device tree (aarch64) or RSDP (x86_64), when there is one.
    pub firmware: Option<PhysAddr>,
    /// Name of the protocol and machine, for the boot line: "PVH", "arm64 Image".
    pub protocol: &'static str,
}

/// Virtual address of physical address 0 in the direct map.
pub const DIRECT_MAP: u64 = 0xffff_8000_0000_0000;
/// Kernel stacks live here, with guard pages between: 64 GiB of address space.
pub const STACK_AREA: u64 = 0xffff_c000_0000_0000;

/// Called by `_start` on the boot CPU with interrupts off, the early tables on, on the boot stack. Defined in the kernel.
unsafe extern "Rust" {
    pub safe fn kernel_main(info: BootInfo) -> !;
}

/// After the kernel has built its tables: makes `root` the kernel half for good (x86_64: CR3, aarch64: TTBR1), turns on
/// every protection (WP, NX, SMEP, SMAP, UMIP / PAN, WXN) and forgets the early mapping.
pub fn adopt_kernel_root(_root: Pfn) { todo!() }
/// After `adopt_kernel_root`: descriptor tables, per-CPU data, vectors, interrupt controller, timer, serial interrupts, FPU.
/// `emergency_stacks`: top addresses of stacks for double fault and NMI.
pub fn init_cpu(_info: &BootInfo, _emergency_stacks: [u64; 2]) { todo!() }
