//! The kernel heap: the crate `talc` over frames of the memory manager. It grows by at least 1 MiB
//! at a time, and returns a chunk to it when nothing in the chunk is allocated any more.
//!
//! When there are no frames, fallible allocations (the crate `fallible`) fail, and the others come
//! from a [`reserve`] that was set aside before.

#![allow(unsafe_code)]

pub mod fail;
pub mod reserve;

use crate::arch::boot::DIRECT_MAP;
use crate::base::machine;
use crate::base::{Pid, room};
use core::alloc::{GlobalAlloc, Layout};
use core::ops::Range;
use mm::addr::{Order, PAGE_SIZE, Pfn, PhysAddr};
use reserve::HeapReserve;
use spin::mutex::SpinMutex;
use talc::TalcLock;
use talc::base::{Talc, binning::Binning};
use talc::source::Source;

/// What the heap needs to know of threads. It may do so under any lock.
pub trait Threads {
    /// The number of the running thread; `None` before the first one.
    fn running() -> Option<Pid>;
    /// The reserve was used: the running thread makes it whole before it goes back to user mode.
    fn owe_reserve();
}

/// What boot needs before there are frames: the memory manager's own structures, but for those of
/// each CPU.
const ARENA_BYTES: usize = 128 << 10;
/// What boot needs for each CPU before there are frames: mostly its page lists, of 3 KiB in all
/// where memory is large.
pub const BOOT_BYTES_PER_CPU: usize = 8 << 10;

#[global_allocator]
static HEAP: Heap = Heap(TalcLock::new(Frames {
    arena_used: false,
    boot: 0..0,
    reserve: HeapReserve::new(),
    used: 0,
}));

static mut ARENA: [u8; ARENA_BYTES] = [0; ARENA_BYTES];

/// The allocator, with an instrument in front of it that is hardly ever on: see [`fail`]. On cache
/// lines of its own: whoever allocates writes them.
#[repr(align(64))]
struct Heap(TalcLock<SpinMutex<()>, Frames>);

// SAFETY: memory comes from and goes to the inner allocator, with the layouts that it is asked for.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fail::is_on() && fail::refuses() {
            return core::ptr::null_mut();
        }
        let mut talc = self.0.lock();
        // SAFETY: as the caller promises.
        let place = unsafe { talc.allocate(layout) };
        let place = place.map_or(core::ptr::null_mut(), |place| {
            talc.source.used += layout.size();
            place.as_ptr()
        });
        drop(talc);
        if fail::is_on() && !place.is_null() {
            fail::allocated(place.addr(), layout.size());
        }
        place
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if fail::is_on() {
            fail::freed(place.addr());
        }
        let mut talc = self.0.lock();
        talc.source.used -= layout.size();
        // SAFETY: as the caller promises.
        unsafe { talc.deallocate(place, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if fail::is_on() && size > layout.size() && fail::refuses() {
            return core::ptr::null_mut();
        }
        // SAFETY: as the caller promises.
        let moved = unsafe { self.0.realloc(place, layout, size) };
        if !moved.is_null() {
            let used = &mut self.0.lock().source.used;
            *used = *used + size - layout.size();
        }
        if fail::is_on() && !moved.is_null() {
            fail::freed(place.addr());
            fail::allocated(moved.addr(), size);
        }
        moved
    }
}

/// Bytes that are allocated. A piece stays the heap's while one byte of it is: whether something
/// leaks, this tells, and not how many frames the heap has.
pub fn used() -> usize {
    HEAP.0.lock().source.used
}

/// Adds RAM that the page allocator will never be given: `bytes` from `start` on, once, at boot.
///
/// # Safety
/// The RAM is used for nothing else, and the direct map covers it.
pub unsafe fn add_at_boot(start: PhysAddr, bytes: usize) {
    let base = (DIRECT_MAP + start.0) as *mut u8;
    let mut talc = HEAP.0.lock();
    talc.source.boot = base.addr()..base.addr() + bytes + 1;
    // SAFETY: as the caller promises.
    let claimed = unsafe { talc.claim(base, bytes) };
    assert!(claimed.is_some(), "{bytes} bytes are too few for a heap");
}

/// Where the heap's memory comes from: first the arena and what boot added, then frames, at last
/// the reserve.
#[derive(Debug)]
struct Frames {
    arena_used: bool,
    /// Where what boot added may end.
    boot: Range<usize>,
    reserve: HeapReserve,
    /// Bytes that are allocated, as they were asked for. Counted under the heap's lock, which costs
    /// an instruction or two.
    used: usize,
}

// SAFETY: `acquire` and `resize` never use the heap itself: taking and freeing frames allocates
// nothing. `resize` leaves a piece as it is, or deletes it as a whole.
unsafe impl Source for Frames {
    const TRACK_HEAP_END: bool = true;

    unsafe fn resize(&mut self, free: *mut u8, end: *mut u8, whole: bool) -> *mut u8 {
        let arena = (&raw const ARENA).addr()..(&raw const ARENA).addr() + ARENA_BYTES + 1;
        let for_good = [&arena, &self.boot];
        if !whole || for_good.iter().any(|range| range.contains(&free.addr())) {
            return end;
        }
        self.give_frames(free.addr());
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
        let piece = take_frames(layout).or_else(|| talc.source.reserve.take(layout));
        let piece = piece.ok_or(())?;
        // SAFETY: the frames are allocated to the heap alone, mapped writable in the direct map,
        // and given back only once the piece is deleted.
        unsafe { talc.claim(piece.base(), piece.bytes()) }
            .map(drop)
            .ok_or(())
    }
}

/// Frames for a piece of the heap.
#[derive(Clone, Copy, Debug)]
struct Piece {
    first: Pfn,
    order: Order,
}

impl Piece {
    fn base(&self) -> *mut u8 {
        (DIRECT_MAP + self.first.start().0) as *mut u8
    }
    fn bytes(&self) -> usize {
        self.order.bytes() as usize
    }
}

impl Frames {
    /// Frees a piece of the heap by the address of its first free byte: its frames' first page
    /// holds that, since a piece starts with a few bytes of the heap's own.
    fn give_frames(&mut self, free: usize) {
        let first = PhysAddr((free - 1) as u64 - DIRECT_MAP).frame();
        let Some(mm) = machine::try_mm() else {
            return;
        };
        let order = mm.frames().get(first).order();
        let piece = Piece { first, order };
        if !self.reserve.put_back(piece) {
            mm.free_kernel(first, order);
        }
    }
}

/// The smallest order of a piece that has room for `layout` with the heap's own tags.
fn least_order(layout: Layout) -> Order {
    let wanted = (layout.size() + layout.align()) as u64 + PAGE_SIZE;
    let pages = wanted.div_ceil(PAGE_SIZE).next_power_of_two();
    Order(pages.trailing_zeros() as u8)
}

/// Frames enough for `layout`, more when there are some. A fallible allocation leaves the frames
/// that the kernel itself may need.
fn take_frames(layout: Layout) -> Option<Piece> {
    let mm = machine::try_mm()?;
    let least = least_order(layout);
    let may_take = |order: Order| !fallible::is_refusable() || room::leaves_enough(order.pages());
    [least.max(room::PIECE), least]
        .into_iter()
        .find_map(|order| {
            let first = may_take(order).then(|| mm.alloc_kernel(order))??;
            Some(Piece { first, order })
        })
}
