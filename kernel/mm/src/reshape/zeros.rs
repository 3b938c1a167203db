//! Pages of zeros after a split: they go, as absent memory reads as zeros, too (transhuge.rst;
//! Linux maps its zero page there).

use crate::addr::{PAGE_SIZE, Pfn, VirtRange};
use crate::arch::{Level, Machine, PhysMem};
use crate::manager::Mm;
use crate::mutant::{self, Mutant};
use crate::space::{Inner, Locked};
use crate::table::{Budget, Rights, Zap};
use crate::thp::PMD_ORDER;
use crate::vma::Slot;

/// Bytes that are looked at at a time.
const PIECE: usize = 256;

/// Which pages of a part of one table hold zeros only.
type Zeros = [bool; PMD_ORDER.pages() as usize];

impl<M: Machine> Locked<'_, M> {
    /// Unmaps the small private pages in `range`, at most one table's, that hold zeros only. Those
    /// of VMAs that are locked or have a monitor stay, and all while the family has pins: who has
    /// one may write.
    pub(super) fn drop_zeros(&mut self, range: VirtRange) {
        let mut rest = range;
        while self.id().family.pins() == 0
            && let Some(slot) = self.vmas.from(rest.start)
            && let Some(part) = self.vmas.get(slot).range.intersection(&rest)
        {
            if !self.vmas.get(slot).flags.keeps_zeros() {
                self.drop_zeros_of(slot, part);
            }
            rest.start = part.end;
        }
    }

    /// [`Self::drop_zeros`] of a part of one VMA.
    fn drop_zeros_of(&mut self, slot: Slot, part: VirtRange) {
        let mut zeros = self.zeros_in(part);
        let rights = Rights {
            base: self.vmas.get(slot).attrs(),
            writable: false,
            shared: false,
            only_more: false,
        };
        self.edit(|edit| {
            for run in runs(part, &zeros) {
                edit.protect_some(run, rights, &mut Budget::default());
            }
        });
        // What was written before the flush is seen now, and nothing is written there after it.
        if !mutant::on(Mutant::LookOnce) {
            let still = self.zeros_in(part);
            zeros
                .iter_mut()
                .zip(still)
                .for_each(|(zero, still)| *zero &= still);
        }
        let mut zap = Zap {
            keep_tables: true,
            ..Zap::default()
        };
        self.edit(|edit| {
            for run in runs(part, &zeros) {
                // What one table maps by PTEs goes without memory.
                let _ = edit.zap_part(run, &mut zap);
            }
        });
        let Inner { vmas, rss, .. } = &mut **self;
        rss.sub(vmas.get(slot), &zap);
    }

    /// Which pages of `part` are small private pages with zeros only.
    fn zeros_in(&self, part: VirtRange) -> Zeros {
        let (mm, mut zeros) = (self.mm(), [false; _]);
        self.root().for_each_leaf(part, &mut |leaf| {
            let alone = leaf.level == Level::Pte && leaf.sharers == 0;
            if alone && mm.frames().single(leaf.pfn).is_some() && is_zero(mm, leaf.pfn) {
                zeros[(leaf.va.page() - part.start.page()) as usize] = true;
            }
        });
        zeros
    }
}

/// The runs of pages with zeros.
fn runs(part: VirtRange, zeros: &Zeros) -> impl Iterator<Item = VirtRange> {
    let (mut at, zeros) = (part.start, &zeros[..part.pages() as usize]);
    zeros.chunk_by(|a, b| a == b).filter_map(move |run| {
        let start = at;
        at = start + run.len() as u64 * PAGE_SIZE;
        run[0].then_some(VirtRange::new(start, at))
    })
}

fn is_zero<M: Machine>(mm: &Mm<M>, page: Pfn) -> bool {
    let mut piece = [0; PIECE];
    (0..PAGE_SIZE).step_by(PIECE).all(|at| {
        mm.machine().mem().read(page.start() + at, &mut piece);
        piece == [0; PIECE]
    })
}
