//! A range cut at the entries of one table.

use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Level;

/// `n` entries of one table covered whole, or the part of one that ends at `end`.
pub(super) struct Piece {
    pub at: VirtAddr,
    pub n: usize,
    pub end: VirtAddr,
}

/// The first piece of `part`, which lies in one table: all entries that it covers whole, if
/// `whole`.
#[inline]
pub(super) fn piece(level: Level, part: VirtRange, whole: bool) -> Piece {
    let (at, bytes) = (part.start, level.bytes());
    let n = (part.end - at) >> level.shift();
    if whole && n > 0 && at.is_aligned(bytes) {
        let end = at + (n << level.shift());
        return Piece {
            at,
            n: n as usize,
            end,
        };
    }
    let end = VirtAddr((at.0 | (bytes - 1)) + 1).min(part.end);
    Piece { at, n: 0, end }
}

impl Piece {
    #[inline]
    pub fn range(&self) -> VirtRange {
        VirtRange {
            start: self.at,
            end: self.end,
        }
    }
}
