//! Lab 4: blocks that the student folds and unfolds. What the hardware asks of each step is checked
//! before it is done; a wrong one panics, in words that a student can go on with.

use super::{USED, bytes, folded, span};
use crate::addr::{Order, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine, PhysMem, PteFormat};
use crate::manager::Mm;
use crate::stat::Event;
use crate::switch::Lab;
use crate::table::Change;
use crate::table::edit::Entries;
use crate::table::node::{Present, leaf_of};
use core::ops::Range;
use labs::contpte::{Block, Change as Changes, Entry, Solution, Used, referee};

pub(in crate::table) const LAB: Lab = Lab::named("contpte");

/// The first of a block's entries, which `leaf` reads, if they are not folded and the student says
/// that they may be.
#[inline(never)]
pub(super) fn complete<M: Machine>(
    mm: &Mm<M>,
    leaf: impl Fn(usize) -> Option<Present>,
) -> Option<Present> {
    let first = (M::Pte::CONTIG_ORDER.and_then(|_| leaf(0)))?;
    let foldable = !folded::<M>(first.attrs) && referee::may_fold(&Solution, &Seen { mm, leaf });
    foldable.then_some(first)
}

/// Folds or unfolds the block around `va`, as in `contig`.
#[inline(never)]
pub(super) fn remake<M: Machine>(entries: &mut Entries<'_, '_, M>, va: VirtAddr, contig: Attrs) {
    let start = va.align_down(bytes::<M>());
    let block = &mut Changed { entries, start };
    match contig.is_empty() {
        true => referee::unfold(&Solution, block, start.0),
        false => referee::fold(&Solution, block, start.0),
    }
}

/// ACCESSED and DIRTY of a folded block, of which `leaf` reads the entries.
#[inline(never)]
pub(super) fn used<M: Machine>(mm: &Mm<M>, leaf: impl Fn(usize) -> Option<Present>) -> Attrs {
    bits(referee::used(&Solution, &Seen { mm, leaf }))
}

impl<M: Machine> Change<'_, '_, '_, M> {
    /// Folds the blocks of a folio of 2^`order` pages around the page that was just mapped.
    pub fn fold_fresh(mut self, order: Order) {
        if self.gather.mm().switches().lab(LAB) && self.cursor.is_at_pte() {
            let start = self.cursor.va().align_down(order.bytes());
            let range = VirtRange::new(start, start + order.bytes());
            self.entries().fold_range(range);
        }
    }
}

/// What the student reads of a block.
struct Seen<'a, M: Machine, F> {
    mm: &'a Mm<M>,
    leaf: F,
}

impl<M: Machine, F: Fn(usize) -> Option<Present>> Block for Seen<'_, M, F> {
    fn read(&self, index: usize) -> Option<Entry> {
        entry((self.leaf)(within::<M>(index))?)
    }
    fn folio(&self, frame: u64) -> Range<u64> {
        folio(self.mm, Pfn(frame))
    }
}

/// What the student changes of a block.
struct Changed<'e, 'x, 'a, M: Machine> {
    entries: &'e mut Entries<'x, 'a, M>,
    start: VirtAddr,
}

impl<M: Machine> Changed<'_, '_, '_, M> {
    /// Index in the table of an entry of the block.
    fn at(&self, index: usize) -> usize {
        Level::Pte.index(self.start) + within::<M>(index)
    }
}

impl<M: Machine> Block for Changed<'_, '_, '_, M> {
    fn read(&self, index: usize) -> Option<Entry> {
        entry(self.entries.table.present(self.at(index))?)
    }
    fn folio(&self, frame: u64) -> Range<u64> {
        folio(self.entries.table.mm, Pfn(frame))
    }
}

impl<M: Machine> Changes for Changed<'_, '_, '_, M> {
    fn take(&mut self, index: usize) -> Option<Entry> {
        let table = self.entries.table;
        let raw = table.mem().swap(table.frame, self.at(index), 0);
        table.mm.count(Event::EntryWrites, 1);
        entry(leaf_of::<M>(raw, Level::Pte)?)
    }
    fn write(&mut self, index: usize, entry: Entry) {
        let table = self.entries.table;
        let attrs = Attrs::from_bits_truncate(entry.rights as u16) | bits(entry.used);
        let contig = if entry.contiguous {
            Attrs::CONTIG
        } else {
            Attrs::empty()
        };
        table.write_run(self.at(index), 1, Pfn(entry.frame), attrs | contig);
        table.mm.count(Event::EntryWrites, 1);
    }
    fn flush(&mut self) {
        let gather = &mut *self.entries.gather;
        gather.break_range(self.start, bytes::<M>());
    }
}

/// An index that a student gave.
fn within<M: Machine>(index: usize) -> usize {
    assert!(
        index < span::<M>(),
        "lab: there is no entry {index}: a block has 16"
    );
    index
}

fn folio<M: Machine>(mm: &Mm<M>, pfn: Pfn) -> Range<u64> {
    let head = mm.frames().head(pfn);
    head.0..head.0 + mm.frames().get(head).order().pages()
}

/// What a leaf says; nothing where the hardware takes it for absent.
fn entry(leaf: Present) -> Option<Entry> {
    let (frame, attrs) = (leaf.pfn.0, leaf.attrs);
    (!attrs.contains(Attrs::NO_ACCESS)).then(|| Entry {
        frame,
        rights: (attrs - USED - Attrs::CONTIG).bits().into(),
        contiguous: attrs.contains(Attrs::CONTIG),
        used: Used {
            accessed: attrs.contains(Attrs::ACCESSED),
            dirty: attrs.contains(Attrs::DIRTY),
        },
    })
}

fn bits(used: Used) -> Attrs {
    let bit = |set, attrs| if set { attrs } else { Attrs::empty() };
    bit(used.accessed, Attrs::ACCESSED) | bit(used.dirty, Attrs::DIRTY)
}
