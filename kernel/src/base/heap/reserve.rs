//! Reserve of the heap: memory for infallible allocations when there are no frames.
//!
//! Invariant: the infallible allocations of one system call take at most [`MOST_PER_CALL`] at one
//! time, and none of them is larger than a block has room for; all others go through the crate
//! `fallible`. The reserve is twice that, since pieces do not fill blocks. A thread that has used
//! it refills it before it goes back to user mode, with the OOM killer if need be
//! ([`crate::pressure::refill`]); so does each thread that gets the CPU meanwhile. While it is not
//! full, no lasting object is made (`fallible::check`, [`crate::base::room`]).

use super::{HEAP, Piece, Threads, least_order};
use crate::base::above::Above;
use crate::base::machine;
use arrayvec::ArrayVec;
use core::alloc::Layout;
use mm::addr::Order;

/// The infallible allocations of a system call, in bytes at one time, at most.
pub const MOST_PER_CALL: usize = 64 << 10;
/// Blocks of 16 KiB: to be had when memory is in pieces, and larger than what is allocated without
/// being able to fail.
const BLOCK: Order = Order(2);
/// How many.
const BLOCKS: usize = 2 * MOST_PER_CALL / BLOCK_BYTES;
/// Their size.
pub const BLOCK_BYTES: usize = 4096 << BLOCK.0;

/// The reserve: blocks of frames.
#[derive(Debug)]
pub(super) struct HeapReserve {
    blocks: ArrayVec<Piece, BLOCKS>,
    /// Whether it was filled for the first time.
    filled: bool,
    /// How many blocks were taken, since boot.
    taken: u64,
}

impl HeapReserve {
    /// Before there are frames.
    pub const fn new() -> Self {
        Self {
            blocks: ArrayVec::new_const(),
            filled: false,
            taken: 0,
        }
    }

    /// A block for an allocation that must not fail. `None`: it may, or is too large, or none is
    /// left.
    pub fn take(&mut self, layout: Layout) -> Option<Piece> {
        if fallible::is_refusable() || least_order(layout) > BLOCK {
            return None;
        }
        let block = self.blocks.pop()?;
        self.taken += 1;
        fallible::set_short(true);
        Above::owe_reserve();
        Some(block)
    }

    /// Keeps a block that the heap gives back, if it belongs here and there is room.
    pub fn put_back(&mut self, piece: Piece) -> bool {
        let kept = self.filled && piece.order == BLOCK && self.blocks.try_push(piece).is_ok();
        if kept {
            self.note();
        }
        kept
    }

    fn fill(&mut self) -> bool {
        self.filled = true;
        while !self.blocks.is_full()
            && let Some(first) = machine::mm().alloc_kernel(BLOCK)
        {
            self.blocks.push(Piece {
                first,
                order: BLOCK,
            });
        }
        self.note();
        self.blocks.is_full()
    }

    fn note(&self) {
        fallible::set_short(self.filled && !self.blocks.is_full());
    }
}

/// Refills it. Returns `false` when there are no frames for it.
pub fn refill() -> bool {
    HEAP.0.lock().source.reserve.fill()
}

/// Whether it is full.
pub fn look() {
    HEAP.0.lock().source.reserve.note();
}

/// Bytes that are set aside, and bytes that should be.
pub fn bytes() -> (usize, usize) {
    let left = HEAP.0.lock().source.reserve.blocks.len();
    (left * BLOCK_BYTES, BLOCKS * BLOCK_BYTES)
}

/// How many blocks were taken since boot.
pub fn taken() -> u64 {
    HEAP.0.lock().source.reserve.taken
}
