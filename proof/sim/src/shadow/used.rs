//! Pages that were accessed and written through the walker: their entries must keep the bits.

use mm::addr::Pfn;
use mm::arch::Attrs;
use std::collections::HashMap;

/// The bits that a page's entry must have.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub pfn: Pfn,
    pub bits: Attrs,
    /// The frame's contents at that time: the record ends when it gets new ones.
    contents: u64,
}

/// The records, by root and page.
#[derive(Default)]
pub struct Used {
    records: HashMap<(Pfn, u64), Record>,
    contents: HashMap<Pfn, u64>,
}

impl Used {
    /// Records new contents of a frame.
    pub(crate) fn renew(&mut self, pfn: Pfn) {
        *self.contents.entry(pfn).or_default() += 1;
    }
    /// Drops the records of a root that ended.
    pub(crate) fn forget(&mut self, root: Pfn) {
        self.records.retain(|(of, _), _| *of != root);
    }
    pub(crate) fn note(&mut self, root: Pfn, page: u64, pfn: Pfn, bits: Attrs) {
        let contents = self.contents.get(&pfn).copied().unwrap_or(0);
        let fresh = Record {
            pfn,
            bits: Attrs::empty(),
            contents,
        };
        let record = self.records.entry((root, page)).or_insert(fresh);
        if (record.pfn, record.contents) != (pfn, contents) {
            *record = fresh;
        }
        record.bits |= bits;
    }
    /// Records bits that were cleared on purpose, for each page and frame that `cleared` returns
    /// true for.
    pub(crate) fn forgive(&mut self, root: Pfn, cleared: impl Fn(u64, Pfn) -> bool, bits: Attrs) {
        for ((of, page), record) in &mut self.records {
            if *of == root && cleared(*page, record.pfn) {
                record.bits -= bits;
            }
        }
    }
    /// Takes out the records of a root; frames that got new contents are left out.
    pub(crate) fn take(&mut self, root: Pfn) -> Vec<(u64, Record)> {
        let mine: Vec<_> = self.records.extract_if(|(of, _), _| *of == root).collect();
        mine.into_iter()
            .filter(|(_, r)| self.contents.get(&r.pfn).copied().unwrap_or(0) == r.contents)
            .map(|((_, page), record)| (page, record))
            .collect()
    }
}
