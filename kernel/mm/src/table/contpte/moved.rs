//! Blocks that move to another address (mremap). No CPU walks the entries meanwhile, so a block is
//! rewritten where it is, as it is to be, without break-before-make.

use super::{USED, bytes, complete, folded, span};
use crate::addr::{Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Blank, Level, Machine, PhysMem, PteFormat};
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use crate::table::node::{Present, PteTable, frames, leaf_of};
use core::ops::Range;

/// A table whose entries move.
struct Moving<'a, M: Machine> {
    table: PteTable<'a, M>,
    /// Whether its own entries are frozen.
    frozen: bool,
}

impl<M: Machine> PteTable<'_, M> {
    /// Folds and unfolds the entries of `from`, which cuts no folded block, as they are to be at
    /// `to`; each block keeps its ACCESSED and DIRTY.
    pub fn refold(self, from: VirtRange, to: VirtAddr, frozen: bool) {
        let (table, span) = (self, self.indices(from));
        let moving = Moving { table, frozen };
        let alike = (from.start.0 ^ to.0) & (bytes::<M>() - 1) == 0;
        if !alike && !mutant::on(Mutant::MoveFolded) {
            whole_blocks::<M>(&span, from.start).for_each(|block| moving.unfold(block));
        }
        if self.mm.switches().contpte() {
            let folds = whole_blocks::<M>(&span, to).map(|block| u64::from(moving.fold(block)));
            self.mm.count(Event::ContpteFold, folds.sum());
        }
    }
}

/// The first indices of the whole blocks among entries of which the first translates `va`.
#[inline]
fn whole_blocks<M: Machine>(entries: &Range<usize>, va: VirtAddr) -> impl Iterator<Item = usize> {
    let span = span::<M>();
    let first = entries.start + (span - Level::Pte.index(va) % span) % span;
    (first..(entries.end + 1).saturating_sub(span)).step_by(span)
}

impl<M: Machine> Moving<'_, M> {
    /// What the entry maps, frozen or not. In line: most callers need a part of it.
    #[inline(always)]
    fn leaf(&self, index: usize) -> Option<Present> {
        let raw = self.table.mem().load(self.table.frame, index);
        // Zero stays absent.
        let thawed = self.frozen && raw != 0;
        leaf_of::<M>(if thawed { M::Pte::thaw(raw) } else { raw }, Level::Pte)
    }

    /// Unfolds the block at `start` if it is folded.
    fn unfold(&self, start: usize) {
        if let Some(first) = self.leaf(start).filter(|leaf| folded::<M>(leaf.attrs)) {
            self.write(
                start,
                first.pfn,
                self.used(start, first.attrs) - Attrs::CONTIG,
            );
        }
    }

    /// Folds the block at `start` if it is complete and not folded; returns whether it did.
    fn fold(&self, start: usize) -> bool {
        // Fast path: it usually is folded, which one bit shows.
        if self.leaf(start).is_some_and(|leaf| folded::<M>(leaf.attrs)) {
            return false;
        }
        let first = complete(self.table.mm, |i| self.leaf(start + i));
        if let Some(first) = first {
            self.write(
                start,
                first.pfn,
                self.used(start, first.attrs) | Attrs::CONTIG,
            );
        }
        first.is_some()
    }

    /// `attrs` with the block's ACCESSED and DIRTY.
    fn used(&self, start: usize, attrs: Attrs) -> Attrs {
        let each = (start..start + span::<M>()).filter_map(|index| self.leaf(index));
        each.fold(attrs, |sum, leaf| sum | leaf.attrs & USED)
    }

    fn write(&self, start: usize, pfn: Pfn, attrs: Attrs) {
        let raw = M::Pte::leaf(pfn, attrs, Level::Pte);
        let raw = if self.frozen {
            raw & !M::Pte::VALID
        } else {
            raw
        };
        let row = Blank(self.table.row(start, span::<M>()));
        self.table.mem().store_run(row, frames::<M>(raw));
    }
}
