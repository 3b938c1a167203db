//! Runs: consecutive PTEs that map consecutive pages of one folio and differ only in ACCESSED and
//! DIRTY. A run costs one account update, whatever its length.

use super::Leaf;
use super::contpte;
use super::node::{Present, PteTable};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::{Block, Kind};
use crate::tlb::Removed;

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Index of the first entry.
    pub index: usize,
    /// Number of entries.
    pub n: usize,
    /// Frame of the first entry.
    pub pfn: Pfn,
    /// Attributes of the first entry, CONTIG included; the others may differ in USED and CONTIG.
    pub attrs: Attrs,
    /// Head of the folio.
    pub head: Pfn,
    /// Kind of the folio.
    pub kind: Kind,
}

impl Run {
    /// The run, after it was cleared.
    #[inline]
    pub fn removed(&self) -> Removed {
        Removed::ptes(self.head, self.pfn, self.n as u32)
    }
    /// The run as one leaf at `va`.
    pub fn leaf(&self, va: VirtAddr) -> Leaf {
        Leaf {
            va,
            pages: self.n as u64,
            pfn: self.pfn,
            attrs: self.attrs - Attrs::CONTIG,
            level: Level::Pte,
            folded: false,
            sharers: 0,
        }
    }
}

/// Iterator over the runs of a range, each with its address.
pub(crate) struct Runs<'a, M: Machine> {
    table: PteTable<'a, M>,
    index: usize,
    end: usize,
    /// Address that the entry at `index` translates.
    va: VirtAddr,
    /// Upper bound of the live entries ahead.
    left: u32,
}

impl<M: Machine> Iterator for Runs<'_, M> {
    type Item = (VirtAddr, Run);
    /// In line: its state stays in the registers of the loop.
    #[inline(always)]
    fn next(&mut self) -> Option<(VirtAddr, Run)> {
        while self.index < self.end && self.left > 0 {
            let (va, found) = (self.va, self.table.run_at(self.index, self.end));
            let n = found.map_or(1, |run| run.n);
            self.index += n;
            self.va += n as u64 * PAGE_SIZE;
            if let Some(run) = found {
                self.left -= run.n as u32;
                return Some((va, run));
            }
        }
        None
    }
}

impl<'a, M: Machine> PteTable<'a, M> {
    /// The runs in `part`, which lies in the table, up to the last live entry. The entries of a run
    /// may change before the next one is requested.
    #[inline(always)]
    pub fn runs(self, part: VirtRange) -> Runs<'a, M> {
        let span = self.indices(part);
        Runs {
            table: self,
            index: span.start,
            end: span.end,
            va: part.start,
            left: self.live(),
        }
    }

    /// The run at `index`, up to `end`; `None` when nothing is mapped there.
    #[inline]
    pub fn run_at(self, index: usize, end: usize) -> Option<Run> {
        Some(self.run_of(index, self.present(index)?, end))
    }
    /// The run at `index` whose first entry is `first`.
    #[inline(always)]
    pub fn run_of(self, index: usize, first: Present, end: usize) -> Run {
        let Present { pfn, attrs, raw } = first;
        let Block { head, kind, order } = self.mm.frames().folio(pfn);
        let n = if order == Order(0) {
            1
        } else {
            let left = (order.pages() - (pfn - head)) as usize;
            self.alike(index, raw, left.min(end - index))
        };
        Run {
            index,
            n,
            pfn,
            attrs,
            head,
            kind,
        }
    }

    /// Maps `n` consecutive frames of one folio at `va` over absent entries, whole blocks folded at
    /// once. The caller folds the blocks that the ends complete.
    #[inline]
    pub fn install(self, va: VirtAddr, n: usize, pfn: Pfn, attrs: Attrs) {
        let first = Level::Pte.index(va);
        let folded = contpte::attrs_for_run(self.mm, va, pfn, n);
        let write = |from: usize, to: usize, attrs| {
            if from < to {
                self.write_run(first + from, to - from, pfn + from as u64, attrs);
            }
        };
        write(0, folded.start, attrs);
        write(folded.start, folded.end, attrs | Attrs::CONTIG);
        write(folded.end, n, attrs);
    }
}
