//! The Limine boot protocol (PROTOCOL.md of Limine 8), base revision 2: what we ask for, and the
//! answers as a [`BootInfo`].
//!
//! CPUs are not asked for: Limine would start them and let them wait in memory that the kernel
//! takes back. They are read from the firmware's tables instead, and stay off.
//!
//! The entry point is the architecture's own: it puts an [`EntryPointRequest`] beside these, in
//! section `.limine_requests`.

use crate::memory::Ram;
use crate::{BootInfo, Framebuffer, cmdline};
use limine::BaseRevision;
use limine::firmware_type::FirmwareType;
use limine::memory_map::EntryType;
use limine::request::*;
use mm::addr::{PhysAddr, PhysRange};

pub use limine::request::EntryPointRequest;

// linker.ld keeps the three sections in this order: the loader looks for requests between the
// markers.
#[used]
#[unsafe(link_section = ".limine_requests.start")]
static START: RequestsStartMarker = RequestsStartMarker::new();
#[used]
#[unsafe(link_section = ".limine_requests.end")]
static END: RequestsEndMarker = RequestsEndMarker::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static BASE: BaseRevision = BaseRevision::with_revision(2);
#[used]
#[unsafe(link_section = ".limine_requests")]
static MEMORY: MemoryMapRequest = MemoryMapRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static DIRECT_MAP: HhdmRequest = HhdmRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static ADDRESS: ExecutableAddressRequest = ExecutableAddressRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static FILE: ExecutableFileRequest = ExecutableFileRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static MODULES: ModuleRequest = ModuleRequest::with_revision(0);
#[used]
#[unsafe(link_section = ".limine_requests")]
static FIRMWARE: FirmwareTypeRequest = FirmwareTypeRequest::new();
#[used]
#[unsafe(link_section = ".limine_requests")]
static SCREEN: FramebufferRequest = FramebufferRequest::with_revision(0);
#[used]
#[unsafe(link_section = ".limine_requests")]
static TABLES: RsdpRequest = RsdpRequest::new();
#[cfg(target_arch = "aarch64")]
#[used]
#[unsafe(link_section = ".limine_requests")]
static TREE: DeviceTreeBlobRequest = DeviceTreeBlobRequest::new();

/// Where Limine put the image's first byte.
pub fn image() -> Option<PhysAddr> {
    Some(PhysAddr(ADDRESS.get_response()?.physical_base()))
}

/// Limine's answers, without device windows; memory at or above `limit` is left out. `image` is
/// where the kernel lies, with what the image tool put behind it. An error is a sentence for the
/// console.
///
/// # Safety
/// Called once, on the tables that Limine made.
pub unsafe fn parse(image: PhysRange, limit: u64) -> Result<BootInfo, &'static str> {
    if !BASE.is_supported() {
        return Err("this Limine does not know base revision 2 of its protocol");
    }
    let direct = DIRECT_MAP
        .get_response()
        .ok_or("Limine gave no direct map")?;
    let physical = |pointer: u64| PhysAddr(pointer.wrapping_sub(direct.offset()));
    let map = MEMORY.get_response().ok_or("Limine gave no memory map")?;
    let mut ram = Ram::new(limit);
    for entry in map.entries() {
        // What Limine needed itself is free again: everything is copied or on our own tables when
        // the kernel starts.
        let kinds = [
            EntryType::USABLE,
            EntryType::BOOTLOADER_RECLAIMABLE,
            EntryType::EXECUTABLE_AND_MODULES,
        ];
        if kinds.contains(&entry.entry_type) {
            let end = entry.base.saturating_add(entry.length);
            ram.add(PhysRange::new(PhysAddr(entry.base), PhysAddr(end)));
        }
    }
    let protocol = match FIRMWARE.get_response().map(|r| r.firmware_type()) {
        Some(FirmwareType::X86_BIOS) => "Limine (BIOS)",
        _ => "Limine (UEFI)",
    };
    let mut info = BootInfo::new(ram, image, protocol);
    let module = MODULES.get_response().and_then(|r| r.modules().first());
    let initramfs = module.map(|file| {
        let start = physical(file.addr() as u64);
        PhysRange::new(start, start + file.size())
    });
    if let Some(range) = initramfs {
        info.reserve(range);
    }
    let words = FILE
        .get_response()
        .map_or(&[][..], |r| r.file().string().to_bytes());
    Ok(BootInfo {
        // SAFETY: called once, says the caller.
        cmdline: unsafe { cmdline::keep(words.iter().copied()) },
        initramfs,
        device_tree: tree().map(physical),
        rsdp: TABLES.get_response().map(|r| physical(r.address() as u64)),
        framebuffer: screen(&physical),
        ..info
    })
}

/// Where the loader says that the device tree is, in its direct map; a PC has none.
fn tree() -> Option<u64> {
    #[cfg(target_arch = "aarch64")]
    let at = TREE.get_response().map(|r| r.dtb_ptr() as u64);
    #[cfg(not(target_arch = "aarch64"))]
    let at = None;
    at.filter(|at| *at != 0)
}

/// The first framebuffer whose pixel format is supported.
fn screen(physical: &dyn Fn(u64) -> PhysAddr) -> Option<Framebuffer> {
    let screens = SCREEN.get_response()?.framebuffers();
    screens.into_iter().find_map(|screen| {
        let start = physical(screen.addr() as u64);
        let bytes_per_pixel = (screen.bpp() / 8) as u8;
        (2..=4).contains(&bytes_per_pixel).then(|| Framebuffer {
            window: PhysRange::new(start, start + screen.pitch() * screen.height()),
            width: screen.width() as u32,
            height: screen.height() as u32,
            pitch: screen.pitch() as u32,
            bytes_per_pixel,
            colours: [
                (screen.red_mask_size(), screen.red_mask_shift()),
                (screen.green_mask_size(), screen.green_mask_shift()),
                (screen.blue_mask_size(), screen.blue_mask_shift()),
            ],
        })
    })
}
