//! Split of a PMD leaf into 512 PTEs that map the same pages, so that a subrange can change. The
//! folio and its account stay: a PMD leaf counts as 512 pages.

use super::edit::Edit;
use super::node::{Node, Present, PteTable};
use super::note;
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Entry, Level, Machine, PteFormat, TABLE_ENTRIES};
use crate::frame::Kind;
use crate::frame::zone::Reserve;
use crate::manager::{Mm, Result};
use crate::mutant::{self, Mutant};
use crate::own::{Account, Book, Meter, Owner, Part, with_scheme};
use crate::stat::Event;
use crate::switch::Accounting;
use crate::thp::PMD_ORDER;

impl<'a, M: Machine> Edit<'_, 'a, M> {
    /// Splits the PMD leaves and unshares the tables that the ends of `range` cut, with tables from
    /// `reserve`. On failure one may be split already, which is invisible.
    pub fn split_ends(&mut self, range: VirtRange, reserve: Reserve) -> Result {
        self.split_at(range.start, reserve)?;
        self.split_at(range.end, reserve)
    }

    /// Splits the PMD leaf, or unshares the table, that covers both sides of `va`.
    fn split_at(&mut self, va: VirtAddr, reserve: Reserve) -> Result {
        if !va.is_aligned(Level::Pmd.bytes())
            && let Some(pmd) = self.root().table_at(va, Level::Pmd)
        {
            return self.open(pmd, va, reserve);
        }
        Ok(())
    }

    /// Makes a table of the entry for `va`, which changes partly, if it is a PMD leaf or a shared
    /// table.
    #[inline]
    pub(super) fn open(&mut self, node: Node<'a, M>, va: VirtAddr, reserve: Reserve) -> Result {
        match node.entry(node.index(va)) {
            Entry::Leaf { .. } => self.split_leaf(va, reserve),
            Entry::Shared(_) => self.unshare(va, reserve),
            _ => Ok(()),
        }
    }

    /// Splits the PMD leaf that maps `va`, if any, with a table from `reserve`.
    pub fn split_leaf(&mut self, va: VirtAddr, reserve: Reserve) -> Result {
        let mm = self.mm();
        let pmd = self.root().table_at(va, Level::Pmd);
        let index = Level::Pmd.index(va);
        // Huge pages stay whole: what would change a part of one is refused before.
        let splits = |pmd: &Node<'_, M>| match pmd.entry(index) {
            Entry::Leaf { pfn, .. } => {
                let meta = mm.frames().get(pfn);
                // A leaf of a huge page with several maps tails.
                let is_tail = M::Pte::CONTIG_ORDER.is_some() && meta.kind() == Kind::Reserved;
                !meta.is_hugetlb() && !is_tail
            }
            _ => false,
        };
        let Some(pmd) = pmd.filter(splits) else {
            return Ok(());
        };
        let frame = mm.alloc_table(reserve)?;
        let (table, start) = (PteTable::new(mm, frame), va.align_down(Level::Pmd.bytes()));
        let Some(Present { pfn, attrs, .. }) = pmd.take_leaf(index) else {
            unreachable!("a PMD leaf goes only under the lock of its space");
        };
        self.gather.changed_leaf(start, Level::Pmd);
        // Break-before-make on arm64; on x86 it avoids two translations of different sizes (SDM Vol
        // 3A, 4.10.2.3).
        if !mutant::on(Mutant::SplitWithoutFlush) {
            self.gather.flush();
        }
        if pfn == mm.huge_zero_page() {
            // PTEs map the small zero page, which has no count.
            for index in 0..TABLE_ENTRIES {
                table.write_leaf(index, mm.zero_page(), attrs);
            }
            mm.put_huge_zero_page(1);
            note::note_zeros(table);
        } else {
            table.install(start, TABLE_ENTRIES, pfn, attrs);
            if mm.frames().get(pfn).kind() == Kind::Object {
                mm.shmem_unmapped();
            } else {
                mm.pmd_unmapped();
                if mm.switches().accounting() != Accounting::PLAIN || mm.switches().splits_by_page()
                {
                    split_account(mm, pfn, self.gather.owner());
                }
            }
        }
        table.meta().set_live(TABLE_ENTRIES as u32);
        pmd.write_table(index, frame);
        self.space.pages += 1;
        mm.count(Event::EntryWrites, TABLE_ENTRIES as u64 + 2);
        mm.count(Event::SplitPmd, 1);
        Ok(())
    }
}

/// Account update of a split: counts of single pages, or one mapping at a time, as in a kernel
/// whose leaves count once (`split=per-pte`).
#[cold]
fn split_account<M: Machine>(mm: &Mm<M>, head: Pfn, owner: &Owner) {
    let mut meter = Meter::default();
    let book = mm.frames().book(head, PMD_ORDER);
    let by_page = mm.switches().splits_by_page();
    with_scheme!(mm.account(), account => match by_page {
        true => {
            let leaf = Part::leaf(book.order());
            for page in Part::ptes(0, leaf.n).each() {
                account.enter_again(&book, owner, page, &mut meter);
            }
            account.leave(&book, owner, leaf, &mut meter);
        }
        false => account.split_leaf(&book, &mut meter),
    });
    mm.metered(meter);
}

const _: () = assert!(TABLE_ENTRIES as u64 * PAGE_SIZE == Level::Pmd.bytes());
