//! Runs: consecutive PTEs that map consecutive pages of one folio and are alike but for use. The
//! verbs work by runs, so that a folio costs one account update however many pages of it are
//! mapped.

use super::Leaf;
use super::contpte;
use super::node::{Present, PteTable};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::{Block, Kind};

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The first entry.
    pub index: usize,
    /// How many.
    pub n: usize,
    /// The frame that the first maps.
    pub pfn: Pfn,
    /// What the first says, CONTIG included; the others may differ in how they were used and
    /// folded.
    pub attrs: Attrs,
    /// The folio.
    pub head: Pfn,
    /// What it is.
    pub kind: Kind,
}

impl Run {
    /// The run as one leaf, mapped from `va` on.
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

/// The runs of a part of a table, in order, each with the address that it is mapped at.
pub(crate) struct Runs<'a, M: Machine> {
    table: PteTable<'a, M>,
    index: usize,
    end: usize,
    /// What the entry at `index` translates.
    va: VirtAddr,
    /// Live entries that may still come.
    left: u32,
}

impl<M: Machine> Iterator for Runs<'_, M> {
    type Item = (VirtAddr, Run);
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
    /// The runs in `part`, which lies in the table; what follows the last live entry is not looked
    /// at. The entries of a run may change before the next is asked for.
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

    /// The run that starts at `index` and ends before `end`; `None` when nothing is mapped there.
    #[inline(always)]
    pub fn run_at(self, index: usize, end: usize) -> Option<Run> {
        Some(self.run_of(index, self.present(index)?, end))
    }
    /// The run whose first entry, at `index`, was just read.
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

    /// Maps `n` consecutive frames of one folio from `va` on, where nothing is: whole blocks folded
    /// at once. What is left at the ends may complete a block, which is for the caller to see to.
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
