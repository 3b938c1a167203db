//! From the first instruction to `kernel_main`; [`crate::start`] holds the instructions themselves.

use crate::{
    acpi, apic, cpu, descriptors, features, fpu, percpu, pvh, serial, start, timer, tlb, trap,
};
use arrayvec::ArrayVec;
use mm::addr::{Pfn, PhysAddr, PhysRange};
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags, Efer, EferFlags};

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

// Called by `_start` on the boot CPU with interrupts off, the early tables on, on the boot stack. Defined in the kernel.
unsafe extern "Rust" {
    /// The kernel itself.
    pub safe fn kernel_main(info: BootInfo) -> !;
}

unsafe extern "C" {
    static __image_start: u8;
    static __image_end: u8;
}

/// Physical address of the image's first byte: PVH loads at the address the program header says.
pub(crate) fn image_start() -> u64 {
    (&raw const __image_start).addr() as u64 - start::KERNEL_BASE
}

/// Physical end of the image with its payload: header word 6 is the payload's total length in bytes.
pub(crate) fn image_end() -> u64 {
    let end = (&raw const __image_end).addr() as u64 - start::KERNEL_BASE;
    let header = physical::<[u64; 7]>(end);
    // SAFETY: the early direct map covers the first 4 GiB and RAM goes on behind the image; without a payload this reads what
    // was there, and the magic does not match.
    let header = unsafe { *header };
    let payload = if header[0] == u64::from_le_bytes(*b"QUIREPAY") {
        header[6]
    } else {
        0
    };
    (end + payload).next_multiple_of(mm::addr::PAGE_SIZE)
}

/// A physical address as a pointer through the direct map.
#[inline]
pub(crate) fn physical<T>(at: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut((DIRECT_MAP + at) as usize)
}

/// Called by [`crate::start`] with the address of PVH's start info.
pub(crate) extern "C" fn enter(start_info: u64) -> ! {
    serial::init();
    features::detect();
    // SAFETY: the boot CPU, once, on the early tables: nothing else uses descriptors or per-CPU data yet.
    unsafe {
        percpu::init();
        descriptors::load();
    }
    timer::init();
    let limit = if features::get().pages_1g {
        start::LARGE_LIMIT
    } else {
        start::SMALL_LIMIT
    };
    // SAFETY: `start_info` comes from the loader untouched; this is the only call.
    let Some(mut info) = (unsafe { pvh::parse(start_info, limit) }) else {
        serial::write(b"quire: not started by a PVH loader\n");
        cpu::exit(101)
    };
    if let Some(rsdp) = info.firmware {
        acpi::read_tables(rsdp.0);
    }
    acpi::platform().windows(&mut info.devices);
    kernel_main(info)
}

/// After the kernel has built its tables: makes `root` the kernel half for good (x86_64: CR3, aarch64: TTBR1), turns on
/// every protection (WP, NX, SMEP, SMAP, UMIP / PAN, WXN) and forgets the early mapping.
///
/// New user roots copy the kernel half's 256 root entries as they are when they are made (`prepare_root`), so the kernel maps the
/// direct map, the image and its first stack before the first address space; what comes later lies below the same entries.
pub fn adopt_kernel_root(root: Pfn) {
    tlb::set_kernel_root(root);
    let have = features::get();
    let mut wanted = Cr4Flags::PAGE_GLOBAL;
    wanted.set(Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION, have.smep);
    wanted.set(Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION, have.smap);
    wanted.set(Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION, have.umip);
    // SAFETY: the kernel's tables map everything that is in use (its promise); the bits set are those the CPU has, and global
    // pages come on after the switch, so nothing of the early mapping stays in the TLB.
    unsafe {
        Efer::update(|f| f.insert(EferFlags::NO_EXECUTE_ENABLE));
        Cr0::update(|f| f.insert(Cr0Flags::WRITE_PROTECT | Cr0Flags::NUMERIC_ERROR));
        tlb::write_cr3(root);
        Cr4::update(|f| f.insert(wanted));
    }
}

/// After `adopt_kernel_root`: descriptor tables, per-CPU data, vectors, interrupt controller, timer, serial interrupts, FPU.
/// `emergency_stacks`: top addresses of stacks for double fault and NMI.
pub fn init_cpu(_info: &BootInfo, emergency_stacks: [u64; 2]) {
    descriptors::set_emergency_stacks(emergency_stacks);
    trap::init_syscalls();
    fpu::init();
    apic::init();
    timer::init_deadlines();
    serial::enable_interrupt();
}
