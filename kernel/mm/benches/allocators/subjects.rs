//! What is measured: Quire's page allocator, and the frame allocator of the crate
//! `buddy_system_allocator`.

use buddy_system_allocator::LockedFrameAllocator;
use mm::addr::{Order, Pfn, PfnRange};
use mm::frame::zone::Reserve;
use mm::frame::{AllocRequest, Allocator, FrameMeta, FrameTable, Kind};

/// The first frame: a multiple of the largest block.
const FIRST: u64 = 1 << 18;

const PAGE: usize = 4096;

/// An allocator of frames, used by several threads at once.
pub trait Subject: Sync {
    /// A new one with `frames` free frames, for `threads` threads.
    fn new(frames: u64, threads: usize) -> Self;
    /// Takes 2^order frames and answers the first one's number.
    fn alloc(&self, thread: usize, order: Order, what: Kind) -> Option<u32>;
    /// Gives them back.
    fn free(&self, thread: usize, frame: u32, order: Order, what: Kind);
    /// Free frames; panics when the allocator's own books are wrong.
    fn check(&self) -> u64;
}

/// `mm::frame::Allocator`; each thread is a CPU.
pub struct Quire {
    allocator: Allocator,
}

impl Subject for Quire {
    fn new(frames: u64, threads: usize) -> Self {
        // As in the kernel, the table starts with a page and buddies of order 0 share a cache line.
        let spare = PAGE / size_of::<FrameMeta>();
        let metas = (0..frames as usize + spare).map(|_| FrameMeta::default());
        let metas: &mut [FrameMeta] = Box::leak(metas.collect());
        let (_, metas) = metas.split_at_mut(metas.as_ptr().align_offset(PAGE));
        let first = Pfn(FIRST);
        let table = FrameTable::new(first, &mut metas[..frames as usize]);
        let free = PfnRange::new(first, first + frames);
        Quire {
            allocator: Allocator::new(table, &[free], threads),
        }
    }
    #[inline]
    fn alloc(&self, thread: usize, order: Order, what: Kind) -> Option<u32> {
        // The kernel may take the last frame, which is what filling means.
        let request = AllocRequest {
            cpu: thread,
            order,
            kind: what,
            reserve: Reserve::Kernel,
        };
        self.allocator.alloc(request).map(|pfn| pfn.0 as u32)
    }
    #[inline]
    fn free(&self, thread: usize, frame: u32, order: Order, what: Kind) {
        self.allocator
            .free_owned(thread, Pfn(u64::from(frame)), order, what);
    }
    fn check(&self) -> u64 {
        self.allocator.validate();
        self.allocator.counts().free
    }
}

/// `buddy_system_allocator::LockedFrameAllocator`.
pub struct Other {
    frames: LockedFrameAllocator<19>,
    given: u64,
}

impl Subject for Other {
    fn new(frames: u64, _threads: usize) -> Self {
        let other = LockedFrameAllocator::new();
        other
            .lock()
            .insert(FIRST as usize..(FIRST + frames) as usize);
        Other {
            frames: other,
            given: frames,
        }
    }
    #[inline]
    fn alloc(&self, _thread: usize, order: Order, _what: Kind) -> Option<u32> {
        self.frames.lock().alloc(1 << order.0).map(|f| f as u32)
    }
    #[inline]
    fn free(&self, _thread: usize, frame: u32, order: Order, _what: Kind) {
        self.frames.lock().dealloc(frame as usize, 1 << order.0);
    }
    /// It does not tell; taking them all one by one does.
    fn check(&self) -> u64 {
        let mut all = Vec::with_capacity(self.given as usize);
        all.extend(std::iter::from_fn(|| self.frames.lock().alloc(1)));
        all.iter().for_each(|f| self.frames.lock().dealloc(*f, 1));
        all.len() as u64
    }
}
