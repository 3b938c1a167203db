//! From the boot protocol's `BootInfo` to the kernel's own tables: the frame table, the memory
//! manager, the direct map, the image with its permissions, the first guarded stacks.

#![allow(unsafe_code)]

use crate::arch::boot::{BootInfo, DIRECT_MAP, adopt_kernel_root, zero};
use crate::arch::cpu::{KernelContext, switch};
use crate::base::heap;
use crate::base::kstack::KernelStack;
use crate::base::machine::{self, KernelSpace, Mm};
use alloc::{boxed::Box, vec::Vec};
use arch_boot::memory::{whole_pages_around, without};
use core::mem::{ManuallyDrop, size_of};
use mm::addr::{Order, PAGE_SIZE, Pfn, PfnRange, PhysAddr, PhysRange, VirtAddr, VirtRange};
use mm::arch::Attrs;
use mm::frame::table::parts;
use mm::{FrameMeta, PageCount};

unsafe extern "C" {
    static __image_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __image_end: u8;
}

/// A linker symbol's address.
fn symbol(s: &'static u8) -> VirtAddr {
    VirtAddr(&raw const *s as u64)
}

/// The image's sections in virtual memory: text, read-only data, data.
fn sections() -> [(VirtRange, Attrs); 3] {
    // SAFETY: linker.ld defines the symbols; only their addresses are used.
    let [start, text, rodata, end] =
        unsafe { [&__image_start, &__text_end, &__rodata_end, &__image_end] }.map(symbol);
    [
        (VirtRange::new(start, text), Attrs::EXEC),
        (VirtRange::new(text, rodata), Attrs::empty()),
        (VirtRange::new(rodata, end), Attrs::WRITE),
    ]
}

/// Builds the memory manager and the kernel's tables, and moves onto them.
pub fn take_over(info: &BootInfo) {
    let mut free = free_ranges(info);
    let slots = parts::cmdline::zram(info.cmdline) / PAGE_SIZE;
    add_heap(info, &mut free, slots);
    let (memory, frames) = frame_table(info, &mut free, slots);
    let counts = page_counts(info, &mut free, frames.len());
    let free: Vec<PfnRange> = free
        .iter()
        .map(PhysRange::whole_frames)
        .filter(|r| !r.is_empty())
        .collect();
    let mm = Mm::new(machine::Hw, memory, frames, counts, &free, slots);
    let root = zeroed_frame(&mm);
    let space = machine::set_kernel_space(KernelSpace::new(mm, root));
    map_everything(space, info);
    adopt_kernel_root(root);
}

/// The root table's frame.
fn zeroed_frame(mm: &Mm) -> Pfn {
    use mm::arch::{Machine, PhysMem};
    let root = mm
        .alloc_kernel(Order(0))
        .expect("memory for the first table");
    mm.machine().mem().zero(root, Order(0));
    root
}

/// RAM less what is in use.
fn free_ranges(info: &BootInfo) -> Vec<PhysRange> {
    let mut free: Vec<PhysRange> = info.ram.iter().copied().collect();
    for used in &info.reserved {
        free = free
            .iter()
            .flat_map(|range| without(*range, *used))
            .filter(|r| !r.is_empty())
            .collect();
    }
    free
}

/// Takes so many bytes, in whole pages, from the first free range that can hold them.
fn take(free: &mut [PhysRange], bytes: u64, what: &str) -> PhysAddr {
    let size = bytes.next_multiple_of(PAGE_SIZE);
    let home = free
        .iter_mut()
        .find(|range| range.len() >= size + PAGE_SIZE)
        .unwrap_or_else(|| panic!("no {size} bytes of RAM side by side for {what}"));
    let start = PhysAddr(home.start.0.next_multiple_of(PAGE_SIZE));
    home.start = start + size;
    start
}

/// Gives the heap what the memory manager's structures of each CPU, and for each pageblock, need.
fn add_heap(info: &BootInfo, free: &mut [PhysRange], slots: u64) {
    use mm::arch::{Cpu, Machine};
    let cpus = machine::Hw.cpu().count();
    let frames = info.ram.last().map_or(0, |ram| ram.whole_frames().end.0);
    let bytes = cpus * heap::BOOT_BYTES_PER_CPU
        + mm::frame::pageblock::bytes(frames)
        + mm::swap_bytes(slots, cpus);
    let start = take(free, bytes as u64, "the heap");
    // SAFETY: the range is free RAM, now taken off the list, and the early direct map covers it.
    unsafe { heap::add_at_boot(start, bytes) };
}

/// Room for counts of the mappings of single pages, if the command line asks for any. It is read
/// here and not from what was made of it: that takes memory.
fn page_counts(info: &BootInfo, free: &mut [PhysRange], frames: usize) -> &'static [PageCount] {
    if !mm::switch::page_counts(parts::cmdline::early(info.cmdline)) {
        return &[];
    }
    let bytes = (frames * size_of::<PageCount>()) as u64;
    let start = take(free, bytes, "counts of mappings");
    zero(whole_pages_around(PhysRange::new(start, start + bytes)));
    let counts = (DIRECT_MAP + start.0) as *const PageCount;
    // SAFETY: the range is free RAM, now taken off the list, and the early direct map covers it;
    // zeros are valid.
    unsafe { core::slice::from_raw_parts(counts, frames) }
}

/// Takes the frame table from the first free range that can hold it: one [`FrameMeta`] for each
/// frame from the lowest RAM to the highest, and for each swap slot behind them. Holes have room
/// there, but it is left as it is. Returns the frames of memory, too.
fn frame_table(
    info: &BootInfo,
    free: &mut [PhysRange],
    slots: u64,
) -> (PfnRange, &'static mut [FrameMeta]) {
    let (Some(lowest), Some(highest)) = (info.ram.first(), info.ram.last()) else {
        panic!("the boot protocol named no RAM")
    };
    let span = PfnRange::new(lowest.whole_frames().start, highest.whole_frames().end);
    let bytes = |frames: u64| frames * size_of::<FrameMeta>() as u64;
    let all = mm::frame::table::metas(span, slots + mm::frame::slots::MOVING);
    let start = take(free, bytes(all), "the frame table");
    let whole: Vec<PfnRange> = free.iter().map(PhysRange::whole_frames).collect();
    for part in parts(span, &whole) {
        let at = |frame: Pfn| start + bytes(frame - span.start);
        zero(whole_pages_around(PhysRange::new(
            at(part.start),
            at(part.end),
        )));
    }
    let (memory, end) = (start + bytes(span.len()), start + bytes(all));
    zero(whole_pages_around(PhysRange::new(memory, end)));
    let table = (DIRECT_MAP + start.0) as *mut FrameMeta;
    // SAFETY: the range is free RAM, now taken off the list, and the early direct map covers it;
    // zeros are a valid FrameMeta, and so are any bytes, which are never read.
    let frames = unsafe { core::slice::from_raw_parts_mut(table, all as usize) };
    (span, frames)
}

/// The direct map, without a writable alias of the kernel's text and read-only data; devices; the
/// image.
fn map_everything(space: &KernelSpace, info: &BootInfo) {
    let sections = sections();
    let image_base = sections[0].0.start;
    let physical = |va: VirtAddr| info.image + (va - image_base);
    let map = |va: VirtRange, pa: PhysAddr, attrs: Attrs| {
        let attrs = attrs | Attrs::GLOBAL | Attrs::ACCESSED | Attrs::DIRTY;
        if !va.is_empty() {
            space
                .map(va, pa, attrs)
                .expect("memory for the kernel's tables");
        }
    };
    let direct = |range: PhysRange| {
        VirtRange::new(
            VirtAddr(DIRECT_MAP + range.start.0),
            VirtAddr(DIRECT_MAP + range.end.0),
        )
    };
    let read_only = PhysRange::new(physical(image_base), physical(sections[1].0.end));
    for ram in info.ram.iter() {
        for part in without(*ram, read_only) {
            map(direct(part), part.start, Attrs::WRITE);
        }
    }
    map(direct(read_only), read_only.start, Attrs::empty());
    for window in &info.devices {
        map(direct(*window), window.start, Attrs::WRITE | Attrs::DEVICE);
    }
    for (range, attrs) in sections {
        map(range, physical(range.start), attrs);
    }
}

/// Bytes of physical memory that are not written any more: the payload, the loader's initramfs.
pub fn physical_bytes(range: PhysRange) -> &'static [u8] {
    // SAFETY: the callers' ranges are RAM that boot reserved for good and that is mapped in the
    // direct map.
    unsafe {
        core::slice::from_raw_parts(
            (DIRECT_MAP + range.start.0) as *const u8,
            range.len() as usize,
        )
    }
}

/// Where the payload starts: right behind the image.
pub fn payload_start(info: &BootInfo) -> PhysAddr {
    let [(text, _), _, (data, _)] = sections();
    info.image + (data.end - text.start)
}

/// The top of a stack that is never given back, for traps that cannot trust the running one.
pub fn emergency_stack() -> u64 {
    let stack = KernelStack::new().expect("memory for the emergency stacks");
    ManuallyDrop::new(stack).top()
}

/// Continues with `next` on a stack with a guard page; the running one is left for good.
pub fn on_guarded_stack(info: BootInfo, next: fn(&BootInfo) -> !) -> ! {
    extern "C" fn entry(argument: usize) -> ! {
        // SAFETY: the pointer below, given once.
        let (info, next) =
            *unsafe { Box::from_raw(argument as *mut (BootInfo, fn(&BootInfo) -> !)) };
        next(&info)
    }
    let stack = ManuallyDrop::new(KernelStack::new().expect("memory for the first stack"));
    let argument = Box::into_raw(Box::new((info, next))) as usize;
    let to = KernelContext::new(stack.top(), entry, argument);
    let mut from = KernelContext::running();
    // SAFETY: `to` is new; no thread switches back to `from`, whose stack stays.
    unsafe { switch(&raw mut from, &raw const to, stack.top()) };
    unreachable!("nobody switches back to the boot stack")
}

/// The functions that the architecture crates declare and call.
mod entry {
    use super::{BootInfo, VirtAddr};
    use mm::fault::Access;

    #[unsafe(no_mangle)]
    fn kernel_main(info: BootInfo) -> ! {
        crate::start(info)
    }

    #[unsafe(no_mangle)]
    fn secondary_main(cpu: usize, fit: Result<(), arch_boot::cpus::Unfit>) -> ! {
        crate::entry::bring_up::secondary(cpu, fit)
    }

    #[unsafe(no_mangle)]
    fn kernel_fault(addr: VirtAddr, access: Access) -> bool {
        crate::entry::trap::kernel_fault(addr, access)
    }

    #[unsafe(no_mangle)]
    fn kernel_wait(what: &dyn core::fmt::Display, done: &mut dyn FnMut() -> bool) {
        crate::base::watchdog::wait(what, done, || ());
    }

    #[unsafe(no_mangle)]
    fn kernel_trap(
        what: &str,
        addr: u64,
        pc: u64,
        fp: u64,
        registers: &crate::entry::panic::Registers<'_>,
    ) -> ! {
        crate::entry::panic::kernel_trap(what, addr, pc, fp, registers)
    }
}

/// Reads address 16, where nothing is mapped: a kernel fault on purpose.
pub fn read_null() {
    // SAFETY: not sound, and meant so: the fault ends the machine (`quire.crash=null`).
    unsafe { core::ptr::read_volatile(core::ptr::without_provenance::<u8>(16)) };
}
