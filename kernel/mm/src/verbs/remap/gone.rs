//! What is unmapped on the way, in the target and behind the new end.

use crate::arch::Machine;
use crate::manager::OutOfMemory;
use crate::vma::Taken;
use alloc::vec::Vec;
use arrayvec::ArrayVec;

/// Mappings to be dropped after the lock.
pub(super) struct Gone<M: Machine> {
    /// All that the move of one mapping takes.
    few: ArrayVec<Taken<M>, 2>,
    more: Vec<Taken<M>>,
}

impl<M: Machine> Gone<M> {
    #[inline]
    pub fn new() -> Self {
        Gone {
            few: ArrayVec::new(),
            more: Vec::new(),
        }
    }
    /// Makes room for one more. There is room for two.
    pub fn reserve(&mut self) -> Result<(), OutOfMemory> {
        if self.few.is_full() {
            fallible::reserve(&mut self.more, 1)?;
        }
        Ok(())
    }
    /// Adds one; there is room.
    pub fn push(&mut self, taken: Taken<M>) {
        if let Err(full) = self.few.try_push(taken) {
            self.more.push(full.element());
        }
    }
}
