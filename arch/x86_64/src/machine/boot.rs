//! From the first Rust function to `kernel_main`; `head` and `from_limine` hold the instructions
//! before it.

use super::{
    acpi, apic, cpu, descriptors, direct_map, early, features, fp, image, keyboard, percpu, pkru,
    pvh, root, segments, serial, timer, trampoline, trap,
};
use arch_boot::{kernel_main, limine};
use mm::addr::{Pfn, PhysAddr, PhysRange};
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags, Efer, EferFlags};

pub use arch_boot::{BootInfo, DIRECT_MAP, STACK_AREA};

/// Memory below this address may be used by firmware, whatever the memory map says.
const FIRMWARES: u64 = 64 << 10;

/// Called by `head` with the address of PVH's start info.
pub(crate) extern "C" fn enter(start_info: u64) -> ! {
    prepare_cpu();
    // SAFETY: `start_info` comes from the loader untouched; this is the only call.
    match unsafe { pvh::parse(start_info, early::limit()) } {
        Some(info) => go_on(info),
        None => give_up(
            "PVH's start info is damaged, as by QEMU with a command line of more than 4 KiB, or there is none",
        ),
    }
}

/// Called by `from_limine` on the boot stack, on Limine's tables.
pub(crate) extern "C" fn enter_from_limine() -> ! {
    serial::init();
    features::detect();
    let Some(start) = limine::image() else {
        give_up("Limine did not say where the kernel is")
    };
    image::loaded_at(start.0);
    // SAFETY: Limine's tables are on; this is the only call.
    let info = unsafe { limine::parse(image::with_payload(), early::limit()) };
    let mut info = info.unwrap_or_else(|why| give_up(why));
    // Reported on the screen, too: nothing before that needs the missing feature.
    info.missing = features::missing();
    // SAFETY: the loader gave 2 MiB of alignment, as the program header asks; nothing of its tables
    // is used from here on.
    unsafe { early::map_again(start.0) };
    prepare_cpu();
    go_on(info)
}

/// Initialises what the first Rust code relies on: serial port, features, per-CPU data,
/// descriptors, clock.
fn prepare_cpu() {
    serial::init();
    features::detect();
    // SAFETY: the boot CPU, once, on the early tables: nothing else uses descriptors or per-CPU
    // data yet.
    unsafe {
        segments::init();
        percpu::init();
        descriptors::init();
    }
    timer::init();
}

/// Reads the firmware's tables and starts the kernel.
fn go_on(mut info: BootInfo) -> ! {
    if let Some(rsdp) = info.rsdp {
        acpi::read_tables(rsdp.0);
    }
    acpi::platform().windows(&mut info.devices);
    info.cpus = acpi::platform().cpus.clone();
    // Some firmware writes there at any time: SMM of some BIOSes, on suspend or when a cable is
    // plugged.
    info.ram
        .remove(PhysRange::new(PhysAddr(0), PhysAddr(FIRMWARES)));
    info.framebuffer = info
        .framebuffer
        // SAFETY: the boot CPU, once, on the early tables.
        .filter(|screen| unsafe { early::reach(screen.window) });
    info.keep_screen();
    trampoline::reserve(&mut info);
    kernel_main(info)
}

/// Prints why the kernel cannot start, and ends the machine.
fn give_up(why: &str) -> ! {
    for text in ["quire: ", why, "\r\n"] {
        serial::write(text.as_bytes());
    }
    cpu::stop(101)
}

/// Zeroes whole pages of a range in the direct map, with SSE stores, before user mode uses the
/// vector registers: the frame table is large.
pub fn zero(range: PhysRange) {
    let (start, end) = (
        direct_map::pointer::<u8>(range.start.0),
        direct_map::pointer::<u8>(range.end.0),
    );
    // SAFETY: the callers' range is free RAM; SSE is on from here on, and the kernel's code does
    // not use its registers.
    unsafe {
        Cr0::update(|f| f.remove(Cr0Flags::EMULATE_COPROCESSOR | Cr0Flags::TASK_SWITCHED));
        Cr4::update(|f| f.insert(Cr4Flags::OSFXSR));
        core::arch::asm!(
            "xorps xmm0, xmm0",
            "2: cmp rdi, rsi", "jae 3f",
        ".irp at, 0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240", "movaps [rdi + \\at], xmm0", ".endr",
            "add rdi, 256", "jmp 2b", "3:",
            inout("rdi") start => _, in("rsi") end, options(nostack),
        );
    }
}

/// Makes `root` the kernel half for good (x86_64: CR3, aarch64: TTBR1), turns on every protection
/// (WP, NX, SMEP, SMAP, UMIP / PAN) and drops the early mapping. Called once the kernel has built
/// its tables.
///
/// New user roots copy the kernel half's 256 root entries as they are when they are made
/// (`prepare_root`), so the kernel maps the direct map, the image and its first stack before the
/// first address space; what comes later lies below the same entries.
pub fn adopt_kernel_root(root: Pfn) {
    root::set_kernel_root(root);
    // SAFETY: the kernel's tables map everything that is in use (its promise); global pages come on
    // after the switch, so nothing of the early mapping stays in the TLB.
    unsafe {
        Efer::update(|f| f.insert(EferFlags::NO_EXECUTE_ENABLE));
        root::write_cr3(root);
    }
    features::protect();
}

/// Initialises the CPU's vectors, interrupt controller, timer, serial interrupts and FPU. Called
/// after `adopt_kernel_root`. `emergency_stacks`: top addresses of stacks for double fault and NMI.
pub fn init_cpu(_info: &BootInfo, emergency_stacks: [u64; 2]) {
    descriptors::set_emergency_stacks(emergency_stacks);
    trap::init_machine_check();
    trap::init_syscalls();
    fp::init();
    pkru::init();
    apic::init();
    timer::init_deadlines();
    serial::enable_interrupt();
    keyboard::init();
}
