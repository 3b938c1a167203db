//! Mappings that a move replaces in its target, or cuts at the new end.

use crate::arch::Machine;
use crate::manager::OutOfMemory;
use crate::vma::Taken;
use alloc::vec::Vec;
use arrayvec::ArrayVec;

/// Mappings to be dropped after the lock.
pub(super) struct Gone<M: Machine> {
    /// Room for the move of one mapping.
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
    /// Reserves room for one more; there is room for two.
    pub fn reserve(&mut self) -> Result<(), OutOfMemory> {
        if self.few.is_full() {
            fallible::reserve(&mut self.more, 1)?;
        }
        Ok(())
    }
    /// Adds one to the reserved room.
    pub fn push(&mut self, taken: Taken<M>) {
        if let Err(full) = self.few.try_push(taken) {
            self.more.push(full.element());
        }
    }
}
