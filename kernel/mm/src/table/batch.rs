//! Runs: consecutive PTEs that map consecutive pages of one folio and are alike but for use. The verbs work by runs, so that
//! a folio costs one account update however many pages of it are mapped.

use super::{Leaf, contpte, entry};
use crate::addr::{Order, Pfn, VirtAddr};
use crate::arch::{Attrs, Level, Machine};
use crate::frame::{Kind, Mm};

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The first entry.
    pub index: usize,
    /// How many.
    pub n: usize,
    /// The frame that the first maps.
    pub pfn: Pfn,
    /// What the first says, CONTIG included; the others may differ in how they were used and folded.
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

/// The run that starts at `index` and ends before `end`; `None` when nothing is mapped there.
#[inline]
pub(super) fn run_at<M: Machine>(mm: &Mm<M>, table: Pfn, index: usize, end: usize) -> Option<Run> {
    let (pfn, attrs, raw) = entry::read_leaf(mm, table, index)?;
    let (head, kind, order) = mm.frames().folio(pfn);
    let n = if order == Order(0) {
        1
    } else {
        let left = (order.pages() - (pfn - head)) as usize;
        entry::alike(mm, table, index, raw, left.min(end - index))
    };
    Some(Run {
        index,
        n,
        pfn,
        attrs,
        head,
        kind,
    })
}

/// Maps `n` consecutive frames of one folio from `va` on, where nothing is: whole blocks folded at once. What is left at the
/// ends may complete a block, which is for the caller to see to.
#[inline]
pub(super) fn install<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    va: VirtAddr,
    n: usize,
    pfn: Pfn,
    attrs: Attrs,
) {
    let first = Level::Pte.index(va);
    let folded = contpte::attrs_for_run(mm, va, pfn, n);
    let write = |from: usize, to: usize, attrs| {
        if from < to {
            entry::write_run(mm, table, first + from, to - from, pfn + from as u64, attrs);
        }
    };
    write(0, folded.start, attrs);
    write(folded.start, folded.end, attrs | Attrs::CONTIG);
    write(folded.end, n, attrs);
}
