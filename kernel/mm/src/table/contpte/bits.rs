//! Bits that software adds to a page's entry: a folded block gets them whole.

use super::{block, bytes, folded};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine, PteFormat};
use crate::mutant::{self, Mutant};
use crate::table::edit::Entries;
use crate::table::node::Present;
use core::ops::Range;

impl<M: Machine> Entries<'_, '_, M> {
    /// Adds `bits` to the entry of `va`, or to all entries of its folded block. `area` limits
    /// WRITE: a block may cross into a VMA whose entries happen to be uniform. Returns the entries
    /// and the number of writes.
    #[inline]
    pub fn add_bits(&mut self, va: VirtAddr, bits: Attrs, area: VirtRange) -> (Range<usize>, u64) {
        let index = Level::Pte.index(va);
        if M::Pte::CONTIG_ORDER.is_some()
            && let Some(Present { attrs, .. }) = self.table.present(index)
            && folded::<M>(attrs)
        {
            return self.add_bits_to_block(va, bits, area);
        }
        (index..index + 1, u64::from(self.table.add(index, bits)))
    }

    /// [`Self::add_bits`] to a folded block.
    #[inline(never)]
    fn add_bits_to_block(
        &mut self,
        va: VirtAddr,
        bits: Attrs,
        area: VirtRange,
    ) -> (Range<usize>, u64) {
        let index = Level::Pte.index(va);
        let start = va.align_down(bytes::<M>());
        let block_range = VirtRange {
            start,
            end: start + bytes::<M>(),
        };
        let outside = if mutant::on(Mutant::WriteBeyond) {
            area.start > start
        } else {
            !area.covers(&block_range) && !mutant::on(Mutant::WriteOutside)
        };
        let mut entries = index..index + 1;
        if bits.contains(Attrs::WRITE) && outside {
            self.unfold(va);
        } else if !mutant::on(Mutant::MarkOne) {
            entries = block::<M>(index);
        }
        let add = |index| u64::from(self.table.add(index, bits));
        let written = entries.clone().map(add).sum();
        (entries, written)
    }
}
