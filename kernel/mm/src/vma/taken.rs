//! A list of VMAs that were removed from a tree.

use super::types::Vma;
use crate::arch::Machine;
use crate::manager::OutOfMemory;
use alloc::vec::Vec;

/// VMAs in one piece of memory (4 KiB at most).
const PIECE: usize = 48;

/// VMAs that were removed from a tree, in address order, to be dropped after the lock of their
/// space.
pub struct Taken<M: Machine> {
    /// The first one: usually the only one, without an allocation.
    first: Option<Vma<M>>,
    pieces: Vec<Vec<Vma<M>>>,
    /// The index of the piece that is being filled.
    filling: usize,
}

impl<M: Machine> Default for Taken<M> {
    fn default() -> Self {
        Taken {
            first: None,
            pieces: Vec::new(),
            filling: 0,
        }
    }
}

impl<M: Machine> Taken<M> {
    /// One, or none.
    #[inline]
    pub(super) fn one(first: Option<Vma<M>>) -> Self {
        Taken {
            first,
            pieces: Vec::new(),
            filling: 0,
        }
    }
    /// Room for `n` VMAs.
    pub(super) fn with_room(n: usize) -> Result<Self, OutOfMemory> {
        let mut out = Self::default();
        let n = n.saturating_sub(1);
        if n == 0 {
            return Ok(out);
        }
        let count = n.div_ceil(PIECE);
        fallible::reserve_exact(&mut out.pieces, count)?;
        for k in 0..count {
            let mut piece = Vec::new();
            fallible::reserve_exact(&mut piece, PIECE.min(n - k * PIECE))?;
            out.pieces.push(piece);
        }
        Ok(out)
    }
    /// Adds one; room was made for it.
    pub(super) fn push(&mut self, vma: Vma<M>) {
        if self.first.is_none() {
            self.first = Some(vma);
            return;
        }
        if self.pieces[self.filling].len() == PIECE {
            self.filling += 1;
        }
        self.pieces[self.filling].push(vma);
    }
    /// The VMAs in address order.
    pub fn iter(&self) -> impl Iterator<Item = &Vma<M>> {
        self.first.iter().chain(self.pieces.iter().flatten())
    }
}
