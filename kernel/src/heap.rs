//! The kernel heap: the crate `talc` over frames of the memory manager. It grows by at least 1 MiB at a time, and gives a
//! piece back when nothing is left in it.

#![allow(unsafe_code)]

use crate::arch::boot::DIRECT_MAP;
use crate::machine;
use core::alloc::Layout;
use mm::addr::{Order, PAGE_SIZE, PhysAddr};
use spin::mutex::SpinMutex;
use talc::TalcLock;
use talc::base::{Talc, binning::Binning};
use talc::source::Source;

/// What boot needs before there are frames: the memory manager's own structures.
const ARENA_BYTES: usize = 128 << 10;
/// 1 MiB: one growth in hundreds of allocations.
const GROWTH: Order = Order(8);

#[global_allocator]
static HEAP: TalcLock<SpinMutex<()>, Frames> = TalcLock::new(Frames { arena_used: false });

static mut ARENA: [u8; ARENA_BYTES] = [0; ARENA_BYTES];

/// Where the heap's memory comes from: first the arena, then frames.
#[derive(Debug)]
struct Frames {
    arena_used: bool,
}

// SAFETY: `acquire` and `resize` never use the heap itself: taking and freeing frames allocates nothing. `resize` leaves a
// piece as it is, or deletes it as a whole.
unsafe impl Source for Frames {
    const TRACK_HEAP_END: bool = true;

    unsafe fn resize(&mut self, free: *mut u8, end: *mut u8, whole: bool) -> *mut u8 {
        let arena = (&raw const ARENA).addr()..(&raw const ARENA).addr() + ARENA_BYTES + 1;
        if !whole || arena.contains(&free.addr()) {
            return end;
        }
        give_frames(free.addr());
        free
    }

    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        if !talc.source.arena_used {
            talc.source.arena_used = true;
            // SAFETY: the arena is used nowhere else, and only this once.
            return unsafe { talc.claim((&raw mut ARENA).cast(), ARENA_BYTES) }
                .map(drop)
                .ok_or(());
        }
        let (base, bytes) = take_frames(layout).ok_or(())?;
        // SAFETY: the frames are fresh, mapped writable in the direct map, and given back only once the piece is deleted.
        unsafe { talc.claim(base, bytes) }.map(drop).ok_or(())
    }
}

/// Frees a piece of the heap by the address of its first free byte: its frames' first page holds that, since a piece starts with
/// a few bytes of the heap's own.
fn give_frames(free: usize) {
    let first = PhysAddr((free - 1) as u64 - DIRECT_MAP).frame();
    if let Some(mm) = machine::try_mm() {
        mm.free_kernel(first, mm.frames().get(first).order());
    }
}

/// Frames enough for `layout` with the heap's own tags, more when they can be had.
fn take_frames(layout: Layout) -> Option<(*mut u8, usize)> {
    let wanted = (layout.size() + layout.align()) as u64 + PAGE_SIZE;
    let least = Order(
        wanted
            .div_ceil(PAGE_SIZE)
            .next_power_of_two()
            .trailing_zeros() as u8,
    );
    let mm = machine::try_mm()?;
    let order = least.max(GROWTH);
    let (first, order) = match mm.alloc_kernel(order) {
        Some(first) => (first, order),
        None => (mm.alloc_kernel(least)?, least),
    };
    Some((
        (DIRECT_MAP + first.start().0) as *mut u8,
        order.bytes() as usize,
    ))
}
