//! PVH: `struct hvm_start_info` version 1 and what it points to (Xen, `include/public/arch-x86/hvm/start_info.h`).

use crate::boot::{BootInfo, physical};
use arrayvec::ArrayVec;
use core::cell::UnsafeCell;
use mm::addr::{PAGE_SIZE, PhysAddr, PhysRange};

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

/// Longest command line that is kept, in bytes (x86 Linux: COMMAND_LINE_SIZE 2048).
const CMDLINE: usize = 2048;
struct CmdlineCopy(UnsafeCell<[u8; CMDLINE]>);
// SAFETY: written by the one call of `copy_cmdline`, read-only afterwards.
unsafe impl Sync for CmdlineCopy {}
static COPY: CmdlineCopy = CmdlineCopy(UnsafeCell::new([0; CMDLINE]));

/// The loader's words as a [`BootInfo`] without device windows; memory at or above `limit` is left out, because the early tables
/// do not reach it. `None` when the start info is not PVH's.
///
/// # Safety
/// `start_info` is what the loader passed in `ebx`; the early tables are on; called once.
pub unsafe fn parse(start_info: u64, limit: u64) -> Option<BootInfo> {
    // SAFETY: the caller's promise; the structure lies in the first 4 GiB, which the early direct map covers.
    let info = unsafe { *physical::<StartInfo>(start_info) };
    if info.magic != MAGIC || info.version < 1 {
        return None;
    }
    let mut boot = BootInfo {
        ram: ArrayVec::new(),
        reserved: ArrayVec::new(),
        devices: ArrayVec::new(),
        // SAFETY: called once, so nobody else holds the copy.
        cmdline: unsafe { copy_cmdline(info.cmdline) },
        initramfs: None,
        image: PhysAddr(crate::boot::image_start()),
        firmware: (info.rsdp != 0).then_some(PhysAddr(info.rsdp)),
        protocol: "PVH",
    };
    for i in 0..u64::from(info.memmap_entries) {
        // SAFETY: the loader's table has this many entries, below 4 GiB.
        let entry =
            unsafe { *physical::<MemoryEntry>(info.memmap + i * size_of::<MemoryEntry>() as u64) };
        if entry.kind == RAM {
            add_ram(
                &mut boot.ram,
                entry.start,
                entry.start.saturating_add(entry.size).min(limit),
            );
        }
    }
    // Frame 0 stays out of use: a zero frame number in a table must never be right.
    boot.reserved
        .push(PhysRange::new(PhysAddr(0), PhysAddr(PAGE_SIZE)));
    boot.reserved.push(PhysRange::new(
        boot.image,
        PhysAddr(crate::boot::image_end()),
    ));
    if info.modules > 0 {
        // SAFETY: the loader's list has at least one entry, below 4 GiB.
        let module = unsafe { *physical::<Module>(info.module_list) };
        let range = PhysRange::new(PhysAddr(module.start), PhysAddr(module.start + module.size));
        let end = PhysAddr(range.end.0.next_multiple_of(PAGE_SIZE));
        boot.initramfs = Some(range);
        // QEMU's microvm puts it up to the end of memory, where the firmware has reserved a page: the kernel maps it anyway.
        let start = PhysAddr(range.start.0 & !(PAGE_SIZE - 1));
        match boot
            .ram
            .iter_mut()
            .find(|r| r.start <= start && start <= r.end)
        {
            Some(home) => home.end = home.end.max(end),
            None => add_ram(&mut boot.ram, start.0, end.0),
        }
        boot.reserved.push(PhysRange::new(range.start, end));
    }
    Some(boot)
}

/// Adds the whole pages of `start..end`, keeping the list sorted; an entry that does not fit is left unused.
fn add_ram(ram: &mut ArrayVec<PhysRange, 32>, start: u64, end: u64) {
    let (start, end) = (start.next_multiple_of(PAGE_SIZE), end & !(PAGE_SIZE - 1));
    if start < end && !ram.is_full() {
        let at = ram
            .iter()
            .position(|r| r.start.0 > start)
            .unwrap_or(ram.len());
        ram.insert(at, PhysRange::new(PhysAddr(start), PhysAddr(end)));
    }
}

/// Copies the command line out of memory that the kernel will reuse; bytes that are not ASCII become '?'.
///
/// # Safety
/// Called once; `at` is 0 or a NUL-terminated string below 4 GiB.
unsafe fn copy_cmdline(at: u64) -> &'static str {
    if at == 0 {
        return "";
    }
    // SAFETY: the only reference to the copy, per the caller.
    let copy = unsafe { &mut *COPY.0.get() };
    let mut len = 0;
    while len < CMDLINE {
        // SAFETY: not past the terminator, which stops the loop.
        let byte = unsafe { *physical::<u8>(at + len as u64) };
        if byte == 0 {
            break;
        }
        copy[len] = if byte.is_ascii() { byte } else { b'?' };
        len += 1;
    }
    core::str::from_utf8(&copy[..len]).unwrap_or("")
}
