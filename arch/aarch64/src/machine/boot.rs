//! From the first Rust function to `kernel_main`; `head` and `from_limine` hold the instructions
//! before it.

use super::mailbox::Mailbox;
use super::tlb::Hardware;
use super::{
    acpi, cpu, early, features, image, interrupts, percpu, raspberry, regs, serial, timer, trap,
    watchdog,
};
use crate::board::Devices;
use crate::fdt;
use crate::pte::Format;
use arch_boot::cpus::Start;
use arch_boot::memory::Ram;
use arch_boot::{cmdline, kernel_main, limine};
use dtoolkit::fdt::Fdt;
use mm::addr::{Order, Pfn, PhysAddr, PhysRange};
use mm::arch::{Machine, PhysMem, PteFormat};
use mm::sync::Lock;

pub use arch_boot::{BootInfo, DIRECT_MAP, STACK_AREA};

unsafe extern "C" {
    fn __switch_ttbr1(root: u64, empty: u64);
}

const NOTHING_TOLD: &str = "no device tree and no ACPI tables that can be read";
/// The board's devices, for [`init_cpu`]. Taken under no other lock.
static DEVICES: Lock<Option<Devices>, 254> = Lock::new(None);
/// Limine's answers, until the head has switched from its tables to the kernel's; not in .bss,
/// which the head zeroes.
#[unsafe(link_section = ".data.handed")]
static HANDED: Lock<Option<BootInfo>, 253> = Lock::new(None);

/// Physical addresses of the device tree (0 for none) and of the image.
#[repr(C)]
pub(crate) struct Places {
    tree: u64,
    image: u64,
}

/// Called by `from_limine` on Limine's tables and the boot stack; the head continues as if a loader
/// without an MMU had started it.
pub(crate) extern "C" fn enter_from_limine() -> Places {
    let image = limine::image();
    let info = image.and_then(|image| {
        // SAFETY: the only call, on Limine's tables.
        unsafe { limine::parse(image::with_payload(image), fdt::REACH) }.ok()
    });
    let places = Places {
        tree: info
            .as_ref()
            .and_then(|i| i.device_tree)
            .map_or(0, |at| at.0),
        image: image.map_or(0, |at| at.0),
    };
    *HANDED.lock() = info;
    places
}

/// Called by `head` with the image mapped at its link address: `dtb` from x0, `image` is the load
/// address.
pub(crate) extern "C" fn early_main(dtb: PhysAddr, image: PhysAddr) -> ! {
    trap::init_early();
    timer::init();
    image::loaded_at(image);
    let tree = device_tree(dtb);
    let handed = HANDED.lock().take();
    let (devices, mut info) = match tree {
        Some(tree) => {
            let devices = fdt::devices(tree);
            let mut info = handed.unwrap_or_else(|| from_tree(tree, &devices, image));
            info.cpus = fdt::cpus(tree);
            (devices, info)
        }
        None => without_tree(handed, image),
    };
    if let Some(tree) = tree {
        info.reserve(PhysRange::new(dtb, dtb + tree.data().len() as u64));
    }
    for cpu in info.cpus.clone() {
        if let Start::Spin(at) = cpu.start {
            let entry = PhysRange::new(at, at + 8);
            fdt::keep_out(&mut info.ram, &mut info.reserved, entry);
        }
    }
    info.framebuffer = info
        .framebuffer
        .or_else(|| Mailbox::new(devices.mailbox?).screen());
    start(devices, info)
}

/// The facts without a device tree: by ACPI, or the built-in ones of a Raspberry Pi.
fn without_tree(handed: Option<BootInfo>, image: PhysAddr) -> (Devices, BootInfo) {
    let rsdp = handed.as_ref().and_then(|info| info.rsdp);
    let from_acpi = rsdp.and_then(acpi::read);
    match (from_acpi, raspberry::raspberry_pi(), handed) {
        (Some((devices, cpus)), _, Some(info)) => (devices, BootInfo { cpus, ..info }),
        (_, Some((devices, ram)), handed) => {
            let info = handed.unwrap_or_else(|| built_in(board_ram(devices, ram), image));
            let cpus = raspberry::cpus();
            (
                raspberry::console_at_the_pins(devices),
                BootInfo { cpus, ..info },
            )
        }
        // The screen is the only console.
        (_, None, Some(mut info)) if info.framebuffer.is_some() => {
            info.missing = Some(NOTHING_TOLD);
            (Devices::default(), info)
        }
        _ => give_up(NOTHING_TOLD),
    }
}

/// RAM as the board's firmware reports it, else `least`.
fn board_ram(devices: Devices, least: PhysRange) -> Ram {
    let told = devices.mailbox.map(Mailbox::new).and_then(|m| m.ram());
    told.unwrap_or_else(|| {
        let mut ram = Ram::new(fdt::REACH);
        ram.add(least);
        ram
    })
}

/// Maps RAM and devices, and starts the kernel.
fn start(devices: Devices, mut info: BootInfo) -> ! {
    *DEVICES.lock() = Some(devices);
    info.devices = devices.windows();
    info.keep_screen();
    for window in &info.devices {
        early::map(*window, true);
    }
    if let Some(uart) = devices.uart {
        serial::init(uart.window, uart.kind);
    }
    cpu::set_psci(devices.psci_smc);
    watchdog::init(devices.watchdog);
    for range in info.ram.iter() {
        early::map(*range, false);
    }
    kernel_main(info)
}

/// The facts in a device tree.
fn from_tree(tree: Fdt<'static>, devices: &Devices, image: PhysAddr) -> BootInfo {
    let (ram, reserved) = fdt::memory(tree);
    let protocol = match devices.psci_smc {
        Some(true) => "arm64 Image (EL2)",
        _ => "arm64 Image",
    };
    let mut info = BootInfo {
        // SAFETY: the only call where the loader is not Limine.
        cmdline: unsafe { cmdline::keep(fdt::command_line(tree).bytes()) },
        initramfs: fdt::initramfs(tree),
        device_tree: Some(PhysAddr(tree.data().as_ptr() as u64 - DIRECT_MAP)),
        ..BootInfo::new(ram, image::with_payload(image), protocol)
    };
    for range in reserved.into_iter().chain(info.initramfs) {
        info.reserve(range);
    }
    info
}

/// The facts without a device tree and ACPI tables.
fn built_in(ram: Ram, image: PhysAddr) -> BootInfo {
    let image = image::with_payload(image);
    BootInfo::new(ram, image, "arm64 Image (no device tree)")
}

/// Maps the device tree and checks it.
fn device_tree(dtb: PhysAddr) -> Option<Fdt<'static>> {
    if dtb.0 == 0 || !dtb.0.is_multiple_of(8) || dtb.0 >= fdt::REACH - fdt::LARGEST {
        return None;
    }
    let mapped = |length: u64| {
        // No more than there is: what is beside it may be the firmware's own.
        early::map(PhysRange::new(dtb, dtb + length), false);
        // SAFETY: the boot protocol hands over a device tree, which the direct map now covers so
        // far, and which is not written.
        unsafe { core::slice::from_raw_parts((DIRECT_MAP + dtb.0) as *const u8, length as usize) }
    };
    let length = fdt::length(mapped(8))?;
    fdt::parse(mapped(length))
}

/// Prints why the kernel cannot start, by semihosting when there is no console yet, and ends the
/// machine.
fn give_up(why: &str) -> ! {
    cpu::last_words(why);
    cpu::stop(101)
}

/// Zeroes whole pages of a range in the direct map, with DC ZVA or SETP where the CPU has it: the
/// frame table is large.
pub fn zero(range: PhysRange) {
    let frames = range.whole_frames();
    for frame in frames.start.0..frames.end.0 {
        Hardware.mem().zero(Pfn(frame), Order(0));
    }
}

#[repr(C, align(4096))]
struct EmptyTable([u64; 512]);
/// What TTBR0 holds while there is no user address space.
static EMPTY: EmptyTable = EmptyTable([0; 512]);

/// Makes `root` the kernel half for good (x86_64: CR3, aarch64: TTBR1), turns on every protection
/// (WP, NX, SMEP, SMAP, UMIP / PAN) and drops the early mapping. Called once the kernel has built
/// its tables.
pub fn adopt_kernel_root(root: Pfn) {
    let empty = image::physical(&raw const EMPTY).0;
    // The switch runs at its physical address, which TTBR0 maps until the next lines.
    let at = image::physical(__switch_ttbr1 as *const u8).0;
    // SAFETY: `root` maps the image and the stack where they are now; interrupts are off.
    unsafe {
        let switch: unsafe extern "C" fn(u64, u64) = core::mem::transmute(at);
        switch(root.start().0, empty);
    }
    leave_early_tables();
    features::remember();
}

/// Leaves the head's identity mapping, and turns on this CPU's protections.
pub(crate) fn leave_early_tables() {
    regs::write!("ttbr0_el1", image::physical(&raw const EMPTY).0);
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
    if features::has_pan() {
        // SAFETY: PSTATE.PAN exists; the kernel touches user memory only by unprivileged accesses
        // or with PAN cleared.
        unsafe { core::arch::asm!(".inst 0xd500419f", options(nostack, preserves_flags)) }; // msr pan, #1
    }
}

/// Initialises the CPU's vectors, interrupt controller, timer, serial interrupts and FPU. Called
/// after `adopt_kernel_root`. `emergency_stacks`: top addresses of stacks for double fault and NMI.
pub fn init_cpu(_info: &BootInfo, emergency_stacks: [u64; 2]) {
    percpu::set_emergency_stack(emergency_stacks[0]);
    let devices = DEVICES.lock().unwrap_or_default();
    cpu::set_rtc(devices.rtc);
    let Some(controller) = devices.controller else {
        log::warn!("no interrupt controller in the device tree that we can drive: no interrupts");
        return;
    };
    let serial = devices.uart.and_then(|uart| uart.interrupt);
    interrupts::init(controller, devices.timer, serial);
    serial::enable_interrupt();
}

/// Bits 47 to 12 of an address fit in an entry: what the walker can reach.
const _: () = assert!(Format::USER_END.0 <= 1 << 48);
