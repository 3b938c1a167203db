//! A list of VMAs that were removed from a tree.

use super::types::Vma;
use crate::arch::Machine;
use crate::manager::Result;
use alloc::vec::Vec;

/// VMAs that were removed from a tree, in address order, to be dropped after the lock of their
/// space.
pub struct Taken<M: Machine> {
    /// The only one, as usual: without an allocation.
    one: Option<Vma<M>>,
    several: Vec<Vma<M>>,
}

impl<M: Machine> Taken<M> {
    /// One, or none.
    #[inline]
    pub(crate) fn one(one: Option<Vma<M>>) -> Self {
        let several = Vec::new();
        Taken { one, several }
    }
    /// Room for `n` VMAs.
    pub(super) fn with_room(n: usize) -> Result<Self> {
        let mut several = Vec::new();
        fallible::reserve_exact(&mut several, n)?;
        Ok(Taken { one: None, several })
    }
    /// Adds one, if any; room was made for it.
    pub(super) fn extend(&mut self, vma: Option<Vma<M>>) {
        self.several.extend(vma);
    }
    /// The VMAs in address order.
    pub fn iter(&self) -> impl Iterator<Item = &Vma<M>> {
        self.one.iter().chain(&self.several)
    }
}
