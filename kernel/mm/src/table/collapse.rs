//! Collapse: copies the pages of one PTE table to one folio under a PMD leaf, whichever folios they
//! were in.

use super::MARKED;
use super::edit::{Edit, Entries};
use super::node::Node;
use super::walk::leaf_tables;
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine, TABLE_ENTRIES};
use crate::folio::Folio;
use crate::frame::{Block, Kind};
use crate::manager::SpaceId;
use crate::mutant::{self, Mutant};
use crate::own::By;
use crate::stat::Event;
use crate::thp::{PMD_ORDER, policy::block};
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
    /// Whether there is a marker or a page that userfaultfd write-protects: no collapse.
    pub marked: bool,
    /// Whether there is a PMD leaf or other memory: no collapse.
    pub other: bool,
}

impl<M: Machine> Node<'_, M> {
    /// Counts what is mapped in the 2 MiB at `start`, below this root.
    pub fn census(self, id: &SpaceId, start: VirtAddr) -> Census {
        let (mm, mut found) = (self.mm, Census::default());
        let Ok(()) = leaf_tables(self, block(start, PMD_ORDER), &mut |leaves| {
            let Some(table) = leaves.ptes() else {
                found.other = true;
                return Ok::<_, Infallible>(());
            };
            for (va, run) in table.runs(leaves.part) {
                let pages = run.n as u32;
                found.marked |= run.attrs.intersects(MARKED);
                match run.kind {
                    Kind::Anon => {
                        found.anon += pages;
                        let owned = !leaves.shared && mm.owns(&id.owner, &run.leaf(va));
                        if !owned {
                            found.shared += pages;
                        }
                        // A pin and another mapping look the same in the account.
                        if id.family.pins() != 0 && !owned
                            || mm.any_long_term(run.pfn, run.n as u64)
                        {
                            found.pinned += pages;
                        }
                    }
                    Kind::Kernel => {}
                    _ => found.other = true,
                }
            }
            Ok(())
        });
        found
    }
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
        self.entries(table.ptes()).copy_to(start, &folio);
        table.meta().set_live(0);
        self.gather.table(start, Level::Pte, table.frame);
        self.space.pages -= 1;
        let pfn = folio.into_pfn();
        let block = Block::anon(pfn, PMD_ORDER);
        mm.begin(block, self.gather.owner(), start, By::Leaf);
        mm.count(Event::EntryWrites, 2);
        pmd.write_leaf(pmd.index(start), pfn, attrs);
        mm.pmd_mapped();
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

impl<M: Machine> Entries<'_, '_, M> {
    /// Fills the folio from this unlinked table for the 2 MiB at `start`, and hands what it mapped
    /// to the gather.
    fn copy_to(&mut self, start: VirtAddr, folio: &Folio) {
        let (table, mm) = (self.table, self.table.mm);
        let mut filled = 0;
        for (va, run) in table.runs(block(start, PMD_ORDER)) {
            (filled..run.index).for_each(|page| folio.zero_page(mm, page as u64));
            filled = run.index + run.n;
            for page in run.index..filled {
                match run.kind {
                    Kind::Anon => {
                        let from = run.pfn + (page - run.index) as u64;
                        folio.copy_page(mm, page as u64, from);
                    }
                    _ => folio.zero_page(mm, page as u64),
                }
            }
            self.gather.removed(va, run.removed());
        }
        (filled..TABLE_ENTRIES).for_each(|page| folio.zero_page(mm, page as u64));
    }
}
