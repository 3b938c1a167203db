//! Collapsing: the pages that one PTE table maps become one folio under a PMD leaf. The pages are copied, so it does not
//! matter which folios they were in.

use super::batch::run_at;
use super::walk::table_at;
use super::{PageTable, contpte, entry, owner};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Attrs, Entry, Level, Machine, TABLE_ENTRIES};
use crate::folio::Folio;
use crate::frame::{Kind, Mm};
use crate::mutant::{self, Mutant};
use crate::own::{By, Owner};
use crate::stat::Event;
use crate::thp::PMD_ORDER;
use crate::tlb::{Gather, Removed};

/// What is mapped under one PMD entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Private pages.
    pub anon: u32,
    /// Private pages that others may have, too.
    pub shared: u32,
    /// Pages that may be pinned.
    pub pinned: u32,
    /// A PMD leaf, or not private memory: nothing to collapse.
    pub other: bool,
}

/// The PMD table and the index in it of the entry for `va`, if there is one.
fn pmd_entry<M: Machine>(mm: &Mm<M>, space: &PageTable, va: VirtAddr) -> Option<(Pfn, usize)> {
    let table = table_at(mm, space, va, Level::Pmd)?;
    Some((table, Level::Pmd.index(va)))
}

/// What is mapped in the 2 MiB from `start` on.
pub fn census<M: Machine>(mm: &Mm<M>, space: &PageTable, owner: &Owner, start: VirtAddr) -> Census {
    let mut found = Census::default();
    let Some((pmd, index)) = pmd_entry(mm, space, start) else {
        return found;
    };
    let (table, shared) = match entry::read(mm, pmd, index, Level::Pmd) {
        Entry::Table(table) => (table, false),
        Entry::Shared(table) => (table, true),
        Entry::Leaf { .. } => {
            found.other = true;
            return found;
        }
        Entry::Absent => return found,
    };
    let mut index = 0;
    while index < TABLE_ENTRIES {
        let Some(run) = run_at(mm, table, index, TABLE_ENTRIES) else {
            index += 1;
            continue;
        };
        let leaf = run.leaf(start + index as u64 * PAGE_SIZE);
        match run.kind {
            Kind::Anon => {
                found.anon += run.n as u32;
                let owned = !shared && owner::owns(mm, owner, &leaf);
                if !owned {
                    found.shared += run.n as u32;
                }
                // The account does not tell a pin from another's mapping.
                if mm.pins() != 0 && !owned || mm.any_long_term(run.pfn, run.n as u64) {
                    found.pinned += run.n as u32;
                }
            }
            Kind::Kernel => {}
            _ => found.other = true,
        }
        index += run.n;
    }
    found
}

/// Replaces what the PTE table at `start` maps, which nobody shares, private pages and zeros, by a PMD leaf on `folio`, whose
/// contents are made here. No other memory is needed. Nobody can use the range in between: its PMD entry is absent and flushed while the pages are
/// copied.
pub fn collapse<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    start: VirtAddr,
    folio: Folio,
    attrs: Attrs,
    gather: &mut Gather<'_, M>,
) {
    let Some((pmd, index)) = pmd_entry(mm, space, start) else {
        unreachable!("a census found pages there");
    };
    let Entry::Table(table) = entry::read(mm, pmd, index, Level::Pmd) else {
        unreachable!("a census found a PTE table there");
    };
    entry::clear(mm, pmd, index);
    gather.unhooked(start, Level::Pte);
    if !mutant::on(Mutant::CollapseWithoutFlush) {
        gather.flush();
    }
    copy_pages(mm, table, start, &folio, gather);
    mm.frames().get(table).set_live(0);
    gather.table(start, Level::Pte, table);
    space.pages -= 1;
    let pfn = folio.into_pfn();
    owner::begin(mm, (pfn, PMD_ORDER), gather.owner(), start, By::Leaf);
    mm.count(Event::EntryWrites, 2);
    entry::write_leaf(mm, pmd, index, Level::Pmd, pfn, attrs);
    mm.thp().pmd_mapped();
}

/// Fills the folio from a table that nothing points to any more, and gives what it mapped to the gather.
fn copy_pages<M: Machine>(
    mm: &Mm<M>,
    table: Pfn,
    start: VirtAddr,
    folio: &Folio,
    gather: &mut Gather<'_, M>,
) {
    let mut index = 0;
    while index < TABLE_ENTRIES {
        let Some(run) = run_at(mm, table, index, TABLE_ENTRIES) else {
            folio.zero_page(mm, index as u64);
            index += 1;
            continue;
        };
        for page in index..index + run.n {
            if run.kind == Kind::Anon {
                folio.copy_page(mm, page as u64, run.pfn + (page - index) as u64);
            } else {
                folio.zero_page(mm, page as u64);
            }
        }
        gather.removed(
            start + index as u64 * PAGE_SIZE,
            Removed {
                folio: run.head,
                first: run.pfn,
                pages: run.n as u32,
                level: Level::Pte,
            },
        );
        index += run.n;
    }
}

/// Unfolds every folded block in `range`: its folio is about to be split.
pub fn unfold_range<M: Machine>(
    mm: &Mm<M>,
    space: &mut PageTable,
    range: crate::addr::VirtRange,
    gather: &mut Gather<'_, M>,
) {
    let Ok(()) = super::walk::leaf_tables(mm, space, range, &mut |leaves| {
        if leaves.level == Level::Pte {
            contpte::unfold_range(mm, leaves.table, leaves.part, gather);
        }
        Ok::<_, core::convert::Infallible>(())
    });
}
