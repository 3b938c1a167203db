//! Memory set aside for allocations that cannot fail, for when there are no frames.
//!
//! The rule: what one system call allocates without being able to fail, largest sum at one time, is
//! at most [`MOST_PER_CALL`], and no single piece of it is larger than a block has room for; all
//! else goes through the crate `fallible`. The reserve is twice that, since pieces do not fill
//! blocks. A thread that has used it makes it whole again before it goes back to user mode, by an
//! end of a process if need be ([`crate::pressure::refill`]); so does each thread that gets the CPU
//! meanwhile. While it is not whole, nothing that lasts is made (`fallible::check`,
//! [`crate::base::room`]).

use super::{HEAP, Piece, Threads, least_order};
use crate::base::above::Above;
use crate::base::machine;
use arrayvec::ArrayVec;
use core::alloc::Layout;
use mm::addr::Order;

/// What a system call may allocate without being able to fail, in bytes at one time.
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
    /// It was filled for the first time.
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

/// Sets aside what is missing. `false`: there are no frames for it.
pub fn refill() -> bool {
    HEAP.0.lock().source.reserve.fill()
}

/// Looks whether it is whole.
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
