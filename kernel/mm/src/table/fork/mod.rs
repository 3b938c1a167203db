//! Fork: copies entries to a child, table by table and folio by folio, with no lookups per page.
//!
//! An entry is copied with its bits, ACCESSED, DIRTY and CONTIG included, less WRITE, so a batch
//! may be non-uniform (seed 000 compares entries): the account needs only the folio and the number
//! of pages. Blocks that a range cuts are unfolded first; the others stay folded on both sides.

mod entries;

use super::edit::Entries;
use super::node::{Node, Present, PteTable};
use super::walk::{Leaves, pmd_tables, some_leaf_tables};
use super::{Budget, Cursor, PageTable, budget, note};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine};
use crate::folio::Folio;
use crate::frame::{Block, Kind};
use crate::hugetlb::mapped_by;
use crate::manager::{Mm, Result};
use crate::mutant::{self, Mutant};
use crate::own::{Account, Book, Meter, Owner, Part, with_scheme};
use crate::stat::Event;
use crate::thp::{PMD_ORDER, policy::block};
use crate::tlb::Gather;
use entries::Pair;

/// Copies the mappings of a parent to a child that does not run yet.
pub struct ForkCopy<'s, 'a, M: Machine> {
    /// The memory manager of both.
    pub mm: &'a Mm<M>,
    /// Owner of the child's mappings.
    pub child: &'s Owner,
    /// Gather of the parent.
    pub gather: &'s mut Gather<'a, M>,
    /// Whether the parent may have long-term pins: such folios are copied at once, as the pin's
    /// holder keeps using the parent's page.
    pub pinned: bool,
    /// Whether to share whole PTE tables (`share`) that the range covers: private anonymous memory
    /// only.
    pub tables: bool,
    /// Whether the area is of huge pages: all of them count as the object's.
    pub huge: bool,
    /// Private pages of the child, with those that are swapped.
    pub anon: u64,
    /// Those that are.
    pub swapped: u64,
    /// Object pages of the child.
    pub object: u64,
}

/// Totals for one table.
#[derive(Default)]
struct Done {
    /// Entries copied.
    copied: usize,
    /// Copied entries that do not map anonymous memory.
    others: usize,
    /// Entries of the parent that lost WRITE.
    protected: usize,
    meter: Meter,
}

impl<'a, M: Machine> ForkCopy<'_, 'a, M> {
    /// Copies the mappings of `range` within the budget; returns where the rest begins, if any.
    /// Both sides lose WRITE; each folio gains one reference per copied page. On failure the child
    /// is partial and the caller drops it. No PMD leaf crosses an end of the range: VMA splits
    /// split theirs.
    pub fn range(
        &mut self,
        parent: &mut PageTable,
        child: &mut PageTable,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>> {
        if self.huge {
            return self.huge_pages(parent, child, range, budget);
        }
        let table = Level::Pmd.bytes();
        let low = range.start.align_up(table).unwrap_or(range.end);
        let high = range.end.align_down(table);
        if !self.tables || self.pinned || low >= high {
            return self.copy(parent, child, range, budget);
        }
        let (below, whole) = (VirtRange::new(range.start, low), VirtRange::new(low, high));
        if let Some(next) = self.copy(parent, child, below, budget)? {
            return Ok(Some(next));
        }
        if let Some(next) = self.share(parent, child, whole, budget)? {
            return Ok(Some(next));
        }
        self.copy(parent, child, VirtRange::new(high, range.end), budget)
    }

    /// [`Self::range`], entry by entry.
    fn copy(
        &mut self,
        parent: &mut PageTable,
        child: &mut PageTable,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>> {
        let root = Node::root(self.mm, parent);
        some_leaf_tables(root, range, budget, &mut |mut leaves, budget| {
            if leaves.ptes().is_none() {
                budget.take_leaf();
                return self.leaf(&leaves, parent, child);
            }
            if leaves.node.live() == 0 {
                return Ok(());
            }
            let part = leaves.part;
            parent.edit(self.gather).own(&mut leaves)?;
            let mut to = Cursor::new(self.mm, child, part.start);
            to.prepare(Level::Pte)?;
            self.table(leaves.node.ptes(), to.node.ptes(), part, budget)
        })
    }

    /// [`Self::range`] of whole tables: those of PTEs are shared.
    fn share(
        &mut self,
        parent: &mut PageTable,
        child: &mut PageTable,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>> {
        let root = Node::root(self.mm, parent);
        let walked = pmd_tables(root.around(range), range, &mut |pmd, mut left| {
            while !left.is_empty() {
                if budget.is_spent() {
                    return Err(Ok(left.start));
                }
                let start = left.start;
                match pmd.entry(pmd.index(start)) {
                    Entry::Absent => left.start = start + Level::Pmd.bytes(),
                    Entry::Leaf { .. } => {
                        budget.take_leaf();
                        left.start = start + Level::Pmd.bytes();
                        let part = VirtRange::new(start, left.start);
                        let leaf = Leaves::leaf(pmd, part);
                        self.leaf(&leaf, parent, child).map_err(Err)?;
                    }
                    Entry::Table(_) | Entry::Shared(_) => {
                        let mut to = Cursor::new(self.mm, child, start);
                        to.prepare(Level::Pmd).map_err(Err)?;
                        let mut edit = parent.edit(self.gather);
                        let row = edit.share_row(pmd, left, &mut to, budget);
                        self.anon += row.anon;
                        self.swapped += row.swapped;
                        left.start = row.end;
                    }
                }
            }
            Ok(())
        });
        walked.map_or_else(|stopped| stopped.map(Some), |()| Ok(None))
    }

    /// Copies a PMD leaf.
    fn leaf(
        &mut self,
        leaves: &Leaves<'a, M>,
        parent: &mut PageTable,
        child: &mut PageTable,
    ) -> Result {
        let (mm, node, index) = (self.mm, leaves.node, leaves.index());
        let Some(Present { pfn, mut attrs, .. }) = node.present(index) else {
            unreachable!("the walk found a leaf, and the space is locked");
        };
        if !self.huge && mm.frames().get(pfn).kind() == Kind::Object {
            // The child's first fault maps it.
            return Ok(());
        }
        let mut to = Cursor::new(mm, child, leaves.part.start);
        to.prepare(node.level)?;
        let folio = Block::anon(pfn, node.level.order());
        if self.huge {
            self.share_huge(pfn);
        } else if pfn == mm.huge_zero_page() {
            mm.share_huge_zero_page();
        } else if self.keeps(&folio) {
            return self.copy_leaf(&mut to, &folio, attrs);
        } else {
            mm.with_account(pfn, folio.order, |account, book, meter| {
                account.map(book, self.child, Part::leaf(book.order()), meter)
            });
            mm.pmd_mapped();
            self.anon += folio.order.pages();
        }
        if attrs.contains(Attrs::WRITE) {
            let mut edit = parent.edit(self.gather);
            edit.modify_leaf(leaves, |attrs| attrs - Attrs::WRITE);
            attrs = node.present(index).map_or(attrs, |leaf| leaf.attrs);
        }
        to.write_huge(pfn, attrs - Attrs::WRITE);
        mm.count(Event::ForkEntries, 1);
        Ok(())
    }

    /// [`Self::range`] of huge pages. Pinned ones are copied to the child.
    #[cold]
    fn huge_pages(
        &mut self,
        parent: &mut PageTable,
        child: &mut PageTable,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>> {
        let stopped = match self.pinned {
            true => self.copy_pinned(parent, child, range, budget),
            false => self.copy(parent, child, range, budget),
        };
        // By the area, as everywhere.
        self.object += core::mem::take(&mut self.anon);
        stopped
    }

    /// [`Self::huge_pages`], one at a time.
    fn copy_pinned(
        &mut self,
        parent: &mut PageTable,
        child: &mut PageTable,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>> {
        let (mm, mut rest) = (self.mm, range);
        while !rest.is_empty()
            && let Some(at) = Node::root(mm, parent).first_used(rest)
        {
            if !budget.take_leaf() {
                return Ok(Some(at));
            }
            // Its table is used: there may be nothing, or a marker.
            let leaf = Cursor::new(mm, parent, at).leaf();
            let folio = leaf.map_or(Block::anon(Pfn(0), Order(0)), |leaf| {
                mm.frames().folio(leaf.pfn)
            });
            let page = VirtRange::new(at, at + folio.order.bytes());
            rest.start = page.end;
            match leaf {
                Some(leaf) if folio.kind == Kind::Anon && self.keeps(&folio) => {
                    let copy = Folio::huge_copy(mm, folio.order, folio.head)?;
                    budget.take(budget::of_runs(0, folio.order.pages() as u32));
                    let mut to = Cursor::new(mm, child, at);
                    if let Err(why) = to.prepare(leaf.level) {
                        copy.free(mm);
                        return Err(why);
                    }
                    to.install_huge(copy, leaf.attrs, self.child);
                    self.object += folio.order.pages();
                }
                Some(_) => {
                    self.copy(parent, child, page, &mut Budget::default())?;
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// Adds the child's references to a huge page, or to a part of one, that a PMD leaf maps.
    fn share_huge(&mut self, first: Pfn) {
        let mm = self.mm;
        let (folio, n) = (mm.frames().folio(first), PMD_ORDER.pages() as u32);
        self.object += u64::from(n);
        if folio.kind == Kind::Object {
            return mm.frames().get(folio.head).get_refs(n.into());
        }
        let (first, by) = ((first - folio.head) as u32, mapped_by(folio.order));
        mm.with_account(folio.head, folio.order, |account, book, meter| {
            account.map(book, self.child, Part { first, n, by }, meter)
        });
    }

    /// Copies a pinned PMD leaf to the child: one folio or, if none is available, pages.
    fn copy_leaf(&mut self, to: &mut Cursor<'_, M>, folio: &Block, attrs: Attrs) -> Result {
        let (pfn, order) = (folio.head, folio.order);
        if let Ok(copy) = Folio::large_copy(self.mm, order, pfn) {
            to.install_copy(copy, order, attrs, self.child);
        } else {
            to.prepare(Level::Pte)?;
            let start = to.va();
            for page in 0..order.pages() {
                let copy = Folio::copy_of(self.mm, pfn + page)?;
                to.move_in_table(start + page * PAGE_SIZE);
                to.install_copy(copy, Order(0), attrs, self.child);
            }
        }
        self.anon += order.pages();
        Ok(())
    }

    /// Copies the entries of a PTE table in `part`.
    fn table(
        &mut self,
        from: PteTable<'a, M>,
        to: PteTable<'_, M>,
        part: VirtRange,
        budget: &mut Budget,
    ) -> Result {
        let (mm, table) = (self.mm, from);
        let gather = &mut *self.gather;
        Entries { table, gather }.unfold_ends(part);
        note::inherit(from.node(), to.node());
        let tables = &Pair {
            mm,
            from: from.frame,
            to: to.frame,
        };
        let mut done = Done::default();
        let slowly = mm.switches().fork_slowly();
        // The scheme is selected once per table, not per entry.
        let result = with_scheme!(mm.account(), account => match slowly {
            false => self.entries::<_, false>(account, tables, part, &mut done),
            true => self.entries::<_, true>(account, tables, part, &mut done),
        });
        self.anon += (done.copied - done.others) as u64;
        to.add_live(done.copied as u32);
        if done.protected > 0 {
            self.gather
                .changed_range(part.start, part.len(), Level::Pte);
        }
        let written = done.copied + done.protected;
        mm.count(Event::ForkEntries, done.copied as u64);
        mm.count(Event::EntryWrites, written as u64);
        // One account update per run, or per page.
        let cost = budget::of_runs(done.meter.updates, done.copied as u32);
        mm.metered(done.meter);
        budget.take(budget::TABLE + cost);
        result
    }

    /// Whether a long-term pin keeps the folio with the parent.
    #[inline]
    fn keeps(&self, folio: &Block) -> bool {
        self.pinned
            && self.mm.any_long_term(folio.head, folio.order.pages())
            && !mutant::on(Mutant::SharePinned)
    }
}

/// Copies all entries of the table for the 2 MiB at `start` to an empty one, for owner `who`.
pub(super) fn whole<'a, M: Machine>(
    from: PteTable<'a, M>,
    to: PteTable<'a, M>,
    start: VirtAddr,
    who: &Owner,
    gather: &mut Gather<'a, M>,
) {
    let mut copy = ForkCopy {
        mm: from.mm,
        child: who,
        gather,
        pinned: false,
        tables: false,
        huge: false,
        anon: 0,
        swapped: 0,
        object: 0,
    };
    let Ok(()) = copy.table(from, to, block(start, PMD_ORDER), &mut Budget::default()) else {
        unreachable!("memory is needed only for pages that are pinned");
    };
}
