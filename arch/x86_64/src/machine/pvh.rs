//! PVH: `struct hvm_start_info` version 1 and what it points to (Xen,
//! `include/public/arch-x86/hvm/start_info.h`).

use super::{direct_map, image};
use arch_boot::BootInfo;
use arch_boot::memory::{self, Ram};
use mm::addr::{PhysAddr, PhysRange};

const MAGIC: u32 = 0x336e_c578;
const RAM: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    cmdline: u64,
    rsdp: u64,
    memmap: u64,
    memmap_entries: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Module {
    start: u64,
    size: u64,
    cmdline: u64,
    reserved: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MemoryEntry {
    start: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

/// Converts PVH's start info into a [`BootInfo`] without device windows; memory at or above `limit`
/// is left out, because the early tables do not reach it. `None` when the start info is not PVH's.
///
/// # Safety
/// `start_info` is what the loader passed in `ebx`; the early tables are on; called once.
pub unsafe fn parse(start_info: u64, limit: u64) -> Option<BootInfo> {
    // SAFETY: the caller's promise; the structure lies in the first 4 GiB, which the early direct
    // map covers.
    let info = unsafe { *direct_map::pointer::<StartInfo>(start_info) };
    if info.magic != MAGIC || info.version < 1 {
        return None;
    }
    let mut boot = BootInfo {
        // SAFETY: called once, says the caller.
        cmdline: unsafe { arch_boot::cmdline::keep(string(info.cmdline)) },
        rsdp: (info.rsdp != 0).then_some(PhysAddr(info.rsdp)),
        ..BootInfo::new(Ram::new(limit), image::with_payload(), "PVH")
    };
    let entries = || {
        (0..u64::from(info.memmap_entries)).map(|i| {
            // SAFETY: the loader's table has this many entries, below 4 GiB.
            unsafe {
                *direct_map::pointer::<MemoryEntry>(
                    info.memmap + i * size_of::<MemoryEntry>() as u64,
                )
            }
        })
    };
    // Firmware may let entries overlap; what one of them reserves is not RAM, whatever another
    // says.
    for entry in entries().filter(|e| e.kind == RAM) {
        boot.ram.add(entry.range());
    }
    for entry in entries().filter(|e| e.kind != RAM) {
        boot.ram.remove(entry.range());
    }
    if info.modules > 0 {
        // SAFETY: the loader's list has at least one entry, below 4 GiB.
        let module = unsafe { *direct_map::pointer::<Module>(info.module_list) };
        let range = PhysRange::new(PhysAddr(module.start), PhysAddr(module.start + module.size));
        boot.initramfs = Some(range);
        // QEMU's microvm puts it up to the end of memory, where the firmware has reserved a page:
        // the kernel maps it anyway.
        let pages = memory::whole_pages_around(range);
        boot.ram.add(pages);
        boot.reserve(pages);
    }
    Some(boot)
}

impl MemoryEntry {
    fn range(&self) -> PhysRange {
        let end = self.start.saturating_add(self.size);
        PhysRange::new(PhysAddr(self.start), PhysAddr(end))
    }
}

/// The bytes from `at` up to 4 GiB, which begin with a NUL-terminated string; none for address 0.
fn string(at: u64) -> impl Iterator<Item = u8> {
    // SAFETY: the early direct map covers the first 4 GiB.
    (at..if at == 0 { 0 } else { 1 << 32 }).map(|at| unsafe { *direct_map::pointer::<u8>(at) })
}
