//! From the first instruction (`head`) to `kernel_main`.

use super::fdt::{self, Devices, Gic};
use super::pte::Format;
use super::{cpu, early, gic, regs, serial, timer, trap};
use arrayvec::ArrayVec;
use dtoolkit::fdt::Fdt;
use mm::addr::{PAGE_SIZE, Pfn, PhysAddr, PhysRange};
use mm::arch::PteFormat;
use mm::sync::Lock;

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

unsafe extern "Rust" {
    /// Called by the head on the boot CPU with interrupts off, the early tables on, on the boot stack. Defined in the kernel.
    pub safe fn kernel_main(info: BootInfo) -> !;
}

unsafe extern "C" {
    static __image_start: u8;
    static __image_end: u8;
    fn __switch_ttbr1(root: u64, empty: u64);
}

/// What a device tree blob may be at most, by the boot protocol; it does not cross a 2 MiB boundary.
const DEVICE_TREE_MAX: u64 = 2 << 20;
/// The payload's header: magic, version, four offsets and lengths, total length.
const PAYLOAD_MAGIC: &[u8; 8] = b"QUIREPAY";
const PAYLOAD_TOTAL: usize = 48;

/// What the device tree says about devices, for [`init_cpu`]. Taken under no other lock.
static DEVICES: Lock<Option<Devices>, 254> = Lock::new(None);

/// The head comes here with the image mapped high, `dtb` from x0 and where the image was loaded.
pub(crate) extern "C" fn early_main(dtb: PhysAddr, image: PhysAddr) -> ! {
    trap::init_early();
    timer::init();
    early::init(image);
    let tree = device_tree(dtb);
    let devices = fdt::devices(tree);
    *DEVICES.lock() = Some(devices);
    let memory = fdt::memory(tree);
    let windows = device_windows(&devices);
    for window in &windows {
        early::map(*window, true);
    }
    if let Some((window, _)) = devices.uart {
        serial::init(window);
    }
    cpu::set_psci(devices.psci_smc);
    for range in &memory.ram {
        early::map(*range, false);
    }
    let initramfs = fdt::initramfs(tree);
    let mut reserved = memory.reserved;
    reserved.push(image_with_payload(image));
    reserved.push(PhysRange::new(dtb, dtb + tree.data().len() as u64));
    reserved.extend(initramfs);
    for range in &mut reserved {
        *range = PhysRange::new(
            PhysAddr(range.start.0 & !(PAGE_SIZE - 1)),
            PhysAddr(range.end.0.next_multiple_of(PAGE_SIZE)),
        );
    }
    reserved.sort_unstable_by_key(|r| r.start);
    kernel_main(BootInfo {
        ram: usable(memory.ram),
        reserved,
        devices: windows,
        cmdline: fdt::command_line(tree),
        initramfs,
        image,
        firmware: Some(dtb),
        protocol: if devices.psci_smc == Some(true) {
            "arm64 Image (EL2)"
        } else {
            "arm64 Image"
        },
    })
}

/// Maps the device tree and checks it.
fn device_tree(dtb: PhysAddr) -> Fdt<'static> {
    let start = PhysAddr(dtb.0 & !(DEVICE_TREE_MAX - 1));
    early::map(PhysRange::new(start, start + DEVICE_TREE_MAX), false);
    // SAFETY: the boot protocol hands over a device tree, which the direct map now covers and nobody writes.
    let tree = unsafe { Fdt::from_raw((DIRECT_MAP + dtb.0) as *const u8) };
    tree.expect("a valid device tree in x0")
}

fn device_windows(devices: &Devices) -> ArrayVec<PhysRange, 16> {
    let mut out = ArrayVec::new();
    out.extend(devices.uart.map(|(window, _)| window));
    out.extend(devices.rtc);
    match devices.gic {
        Some(Gic::V2(distributor, cpu)) => out.extend([distributor, cpu]),
        Some(Gic::V3(distributor, redistributors)) => out.extend([distributor, redistributors]),
        None => {}
    }
    out
}

/// The image and what the image tool put behind it.
fn image_with_payload(image: PhysAddr) -> PhysRange {
    let (start, end) = (
        &raw const __image_start as u64,
        &raw const __image_end as u64,
    );
    let payload = image + (end - start);
    // SAFETY: the boot protocol keeps the memory behind the image readable RAM, and RAM is mapped by now; a header is
    // only looked at when its magic is there.
    let header = unsafe { &*((DIRECT_MAP + payload.0) as *const [u8; PAYLOAD_TOTAL + 8]) };
    let total = if &header[..8] == PAYLOAD_MAGIC {
        header[PAYLOAD_TOTAL..]
            .iter()
            .rev()
            .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
    } else {
        0
    };
    PhysRange::new(image, payload + total)
}

/// Whole pages, sorted, neighbours joined.
fn usable(mut ram: ArrayVec<PhysRange, 32>) -> ArrayVec<PhysRange, 32> {
    ram.sort_unstable_by_key(|r| r.start);
    let mut out: ArrayVec<PhysRange, 32> = ArrayVec::new();
    for range in ram {
        let frames = range.whole_frames();
        let range = PhysRange::new(frames.start.start(), frames.end.start());
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

#[repr(C, align(4096))]
struct EmptyTable([u64; 512]);
/// What TTBR0 holds while there is no user address space.
static EMPTY: EmptyTable = EmptyTable([0; 512]);

/// After the kernel has built its tables: makes `root` the kernel half for good (x86_64: CR3, aarch64: TTBR1), turns on
/// every protection (WP, NX, SMEP, SMAP, UMIP / PAN) and forgets the early mapping.
pub fn adopt_kernel_root(root: Pfn) {
    let empty = early::physical(&raw const EMPTY).0;
    // The switch runs at its physical address, which TTBR0 maps until the next lines.
    let at = early::physical(__switch_ttbr1 as *const u8).0;
    // SAFETY: `root` maps the image and the stack where they are now; interrupts are off.
    unsafe {
        let switch: unsafe extern "C" fn(u64, u64) = core::mem::transmute(at);
        switch(root.start().0, empty);
    }
    regs::write!("ttbr0_el1", empty);
    regs::isb();
    // SAFETY: drops every translation of the early tables; those in use are found again.
    unsafe {
        core::arch::asm!(
            "tlbi vmalle1",
            "dsb nsh",
            "isb",
            options(nostack, preserves_flags)
        )
    };
    if cpu::has_pan() {
        // SAFETY: PSTATE.PAN exists; the kernel touches user memory only by unprivileged accesses or with PAN cleared.
        unsafe { core::arch::asm!(".inst 0xd500419f", options(nostack, preserves_flags)) }; // msr pan, #1
    }
}

/// After `adopt_kernel_root`: descriptor tables, per-CPU data, vectors, interrupt controller, timer, serial interrupts, FPU.
/// `emergency_stacks`: top addresses of stacks for double fault and NMI.
pub fn init_cpu(_info: &BootInfo, emergency_stacks: [u64; 2]) {
    trap::set_emergency_stack(emergency_stacks[0]);
    let devices = DEVICES.lock().unwrap_or_default();
    cpu::set_rtc(devices.rtc);
    let Some(controller) = devices.gic else {
        log::warn!("no GICv2 or GICv3 in the device tree: no interrupts");
        return;
    };
    gic::init(controller);
    gic::enable(
        devices.timer.unwrap_or(gic::VIRTUAL_TIMER),
        gic::Role::Timer,
    );
    if let Some((_, interrupt)) = devices.uart {
        gic::enable(interrupt, gic::Role::Serial);
        serial::enable_interrupt();
    }
}

/// Bits 47 to 12 of an address fit in an entry: what the walker can reach.
const _: () = assert!(Format::USER_END.0 <= 1 << 48);
