//! Collapse: copies the pages of one PTE table to one folio under a PMD leaf, whichever folios they
//! were in.

use super::edit::Edit;
use super::node::{Node, PteTable};
use super::walk::leaf_tables;
use super::{PageTable, owner};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine, TABLE_ENTRIES};
use crate::folio::Folio;
use crate::frame::Kind;
use crate::manager::Mm;
use crate::mutant::{self, Mutant};
use crate::own::{By, Owner};
use crate::stat::Event;
use crate::thp::PMD_ORDER;
use crate::tlb::{Gather, Removed};
use core::convert::Infallible;

/// Counts of the pages under one PMD entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Private pages.
    pub anon: u32,
    /// Private pages that may be shared.
    pub shared: u32,
    /// Pages that may be pinned.
    pub pinned: u32,
    /// Whether there is a PMD leaf or other memory: no collapse.
    pub other: bool,
}

/// Counts what is mapped in the 2 MiB at `start`.
pub fn census<M: Machine>(mm: &Mm<M>, space: &PageTable, owner: &Owner, start: VirtAddr) -> Census {
    let mut found = Census::default();
    let Some(pmd) = Node::root(mm, space).table_at(start, Level::Pmd) else {
        return found;
    };
    let (frame, shared) = match pmd.entry(pmd.index(start)) {
        Entry::Table(frame) => (frame, false),
        Entry::Shared(frame) => (frame, true),
        Entry::Leaf { .. } => {
            found.other = true;
            return found;
        }
        Entry::Absent => return found,
    };
    let range = VirtRange::new(start, start + Level::Pmd.bytes());
    for (va, run) in (PteTable { mm, frame }).runs(range) {
        match run.kind {
            Kind::Anon => {
                found.anon += run.n as u32;
                let owned = !shared && owner::owns(mm, owner, &run.leaf(va));
                if !owned {
                    found.shared += run.n as u32;
                }
                // A pin and another mapping look the same in the account.
                if mm.pins() != 0 && !owned || mm.any_long_term(run.pfn, run.n as u64) {
                    found.pinned += run.n as u32;
                }
            }
            Kind::Kernel => {}
            _ => found.other = true,
        }
    }
    found
}

impl<M: Machine> Edit<'_, '_, M> {
    /// Replaces the pages of the unshared PTE table at `start`, private or zero, by a PMD leaf on
    /// `folio`, which is filled here. Allocates nothing. The PMD entry is absent and flushed during
    /// the copy, so no CPU can use the range.
    pub fn collapse(&mut self, start: VirtAddr, folio: Folio, attrs: Attrs) {
        let mm = self.mm();
        let pmd = self.root().table_at(start, Level::Pmd);
        let Some((pmd, table)) = pmd.and_then(|pmd| Some((pmd, pmd.below(start)?))) else {
            unreachable!("a census found a PTE table there");
        };
        pmd.clear(pmd.index(start));
        self.gather.unhooked(start, Level::Pte);
        if !mutant::on(Mutant::CollapseWithoutFlush) {
            self.gather.flush();
        }
        copy_pages(table.ptes(), start, &folio, self.gather);
        table.meta().set_live(0);
        self.gather.table(start, Level::Pte, table.frame);
        self.space.pages -= 1;
        let pfn = folio.into_pfn();
        owner::begin(mm, (pfn, PMD_ORDER), self.gather.owner(), start, By::Leaf);
        mm.count(Event::EntryWrites, 2);
        pmd.write_leaf(pmd.index(start), pfn, attrs);
        mm.thp().pmd_mapped();
    }

    /// Unfolds every folded block in `range`, before a split of its folio.
    pub fn unfold_range(&mut self, range: VirtRange) {
        let Ok(()) = leaf_tables(self.root(), range, &mut |leaves| {
            if let Some(table) = leaves.ptes() {
                self.entries(table).unfold_range(leaves.part);
            }
            Ok::<_, Infallible>(())
        });
    }
}

/// Fills the folio from the unlinked table for the 2 MiB at `start`, and hands what it mapped to
/// the gather.
fn copy_pages<M: Machine>(
    table: PteTable<'_, M>,
    start: VirtAddr,
    folio: &Folio,
    gather: &mut Gather<'_, M>,
) {
    let range = VirtRange::new(start, start + Level::Pmd.bytes());
    let mut filled = 0;
    for (va, run) in table.runs(range) {
        (filled..run.index).for_each(|page| folio.zero_page(table.mm, page as u64));
        filled = run.index + run.n;
        for page in run.index..filled {
            match run.kind {
                Kind::Anon => {
                    let from = run.pfn + (page - run.index) as u64;
                    folio.copy_page(table.mm, page as u64, from);
                }
                _ => folio.zero_page(table.mm, page as u64),
            }
        }
        gather.removed(
            va,
            Removed {
                folio: run.head,
                first: run.pfn,
                pages: run.n as u32,
                level: Level::Pte,
            },
        );
    }
    (filled..TABLE_ENTRIES).for_each(|page| folio.zero_page(table.mm, page as u64));
}
