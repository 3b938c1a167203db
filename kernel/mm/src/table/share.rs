//! Page tables shared by several spaces (`fork=share`): fork shares PTE tables, and the first
//! change in the 2 MiB of one copies it. Source: K. Zhao, S. Gong, P. Fonseca, "On-demand-fork: a
//! microsecond fork for memory-intensive and latency-sensitive applications", EuroSys 2021.
//!
//! ```text
//!   parent's PMD entry --- nothing below may be written ---+--> PTE table: as it was before the fork, count 2
//!   child's PMD entry  --- nothing below may be written ---+
//! ```
//! # Rules
//! 1. A table is shared if one VMA of private anonymous memory covers all of its 2 MiB and the
//!    space has no pins.
//! 2. The table's frame counts the sharers. Each PMD entry that points to it is an
//!    [`Entry::Shared`], and its entries are not written, except for the accessed bit by hardware.
//!    A walk finds no table to change there before [`Edit::unshare`], so other forks cost nothing.
//! 3. [`Edit::unshare`] copies the table; both copies are write-protected by entry, as by any fork.
//!    The old one's entries may change for that: no space writes through them. The last sharer
//!    takes the table over as it is.
//! 4. A zap of all of it drops the share without touching an entry.
//!
//! # The account
//! The references of a shared table have one owner in the folios' account, however many spaces
//! share it: the *accountant*, which is the space that shared it first, or plain. They become plain
//! when the accountant exits, as its id is reused, and when it copies: its own references then
//! stand for the copy. Any other sharer adds what it copies. With a common id ([`MmId::COMMON`]),
//! which does not identify one space, they are plain from the start.
//!
//! Invariant: "exclusive" is never wrong. A space asks only about pages that its own tables map;
//! other mappings of the page are by the other spaces' tables, or by a shared one accounted plainly
//! or to another space: the asker's shared tables map other pages, as no space maps a page twice.
//! Thus the last sharer's entries keep WRITE: the table was not copied (WRITE would be lost), and
//! none of its pages is pinned (pins unshare), so the pages have no other user.
//!
//! # Two spaces at once
//! Each sharer holds only its own lock. While there are several, only the accountant changes the
//! note; the release of a share pairs with the acquire of the count's next reader. If all others
//! leave during a copy, the copying space drops the old table.

use super::edit::{Edit, Entries};
use super::node::{Node, PteTable};
use super::walk::{Leaves, some_leaf_tables};
use super::{Budget, Cursor, Zap, budget, fork, note};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Entry, Level, Machine, TABLE_ENTRIES};
use crate::frame::zone::Reserve;
use crate::manager::Result;
use crate::mutant::{self, Mutant};
use crate::own::Owner;
use crate::stat::Event;
use crate::thp::{PMD_ORDER, policy::block};

impl<'a, M: Machine> Node<'a, M> {
    /// The shared table for `va`, if any, below this root.
    pub(crate) fn shared_table(self, va: VirtAddr) -> Option<PteTable<'a, M>> {
        Hung::find(self, va).map(|hung| hung.table)
    }
}

/// What [`Edit::share_row`] did.
pub(super) struct SharedRow {
    /// Where the next entry begins.
    pub end: VirtAddr,
    /// Private pages that are shared, with those that are swapped.
    pub anon: u64,
    /// Those that are.
    pub swapped: u64,
}

/// A shared table, and its entry in one of its spaces.
struct Hung<'a, M: Machine> {
    pmd: Node<'a, M>,
    index: usize,
    table: PteTable<'a, M>,
}

impl<'a, M: Machine> Hung<'a, M> {
    /// The shared table for `va`.
    fn find(root: Node<'a, M>, va: VirtAddr) -> Option<Self> {
        let pmd = root.table_at(va, Level::Pmd)?;
        let index = pmd.index(va);
        let table = pmd.shared(pmd.entry(index))?;
        Some(Hung { pmd, index, table })
    }
}

impl<'a, M: Machine> Edit<'_, 'a, M> {
    /// Shares consecutive tables of a PMD table of the parent, from the start of `range` up to an
    /// entry of another kind, with a child whose cursor is at its own PMD table for them; within
    /// the budget, but at least one. The parent's gather owes the flush.
    pub(super) fn share_row(
        &mut self,
        pmd: Node<'a, M>,
        range: VirtRange,
        child: &mut Cursor<'_, M>,
        budget: &mut Budget,
    ) -> SharedRow {
        let (mm, owner) = (self.mm(), self.gather.owner());
        let mut row = SharedRow {
            end: range.start,
            anon: 0,
            swapped: 0,
        };
        let (mut tables, mut news) = (0, 0);
        for index in pmd.indices(range) {
            let (frame, shared) = match pmd.entry(index) {
                Entry::Table(frame) => (frame, false),
                Entry::Shared(frame) => (frame, true),
                _ => break,
            };
            if row.end != range.start && budget.is_spent() {
                break;
            }
            row.end += Level::Pmd.bytes();
            let table = PteTable::new(mm, frame);
            let meta = table.meta();
            if meta.live() == 0 {
                continue;
            }
            budget.take(table.cost_of_sharing(meta, owner));
            if !shared {
                table.begin_sharing(meta, owner);
                if !mutant::on(Mutant::ShareWritable) {
                    pmd.write_shared(index, frame);
                }
                news += 1;
            }
            meta.get_ref();
            child.node.write_shared(index, frame);
            row.anon += note::shared_pages(meta);
            if note::may_be_swapped(table) {
                row.swapped += table.swapped_pages();
            }
            tables += 1;
        }
        if news > 0 {
            let row = VirtRange::new(range.start, row.end);
            self.gather.unhooked_row(row);
        }
        child.node.gained(tables);
        child.space.pages += u64::from(tables);
        mm.count(Event::EntryWrites, news);
        mm.count(Event::TableShared, tables.into());
        row
    }

    /// Makes a shared table for `va` private to this space. Out of memory: no change.
    #[inline(never)]
    pub fn unshare(&mut self, va: VirtAddr, reserve: Reserve) -> Result {
        let Some(Hung { pmd, index, table }) = Hung::find(self.root(), va) else {
            return Ok(());
        };
        let start = va.align_down(Level::Pmd.bytes());
        if self.settle(start) {
            return Ok(());
        }
        let mm = self.mm();
        let frame = mm.alloc_table(reserve)?;
        self.copy_entries(table, PteTable::new(mm, frame), start);
        pmd.clear(index);
        self.hide(start);
        pmd.write_table(index, frame);
        mm.count(Event::EntryWrites, 1);
        mm.count(Event::TableUnshared, 1);
        if table.meta().put_ref() {
            self.entries(table).discard(start);
        }
        Ok(())
    }

    /// [`Edit::unshare`] of the table of a walk, which goes on with the copy.
    #[inline(always)]
    pub(super) fn own(&mut self, leaves: &mut Leaves<'a, M>) -> Result {
        if leaves.shared {
            let start = leaves.part.start;
            self.unshare(start, Reserve::User)?;
            let table = self.root().pte_table(start).expect("it was unshared");
            (leaves.node, leaves.shared) = (table.node(), false);
        }
        Ok(())
    }

    /// Takes over the shared table for `va`, if it has no other sharers; returns whether it did.
    pub(crate) fn settle(&mut self, va: VirtAddr) -> bool {
        let hung = Hung::find(self.root(), va);
        let Some(Hung { pmd, index, table }) = hung.filter(|hung| hung.table.refs() == 1) else {
            return false;
        };
        table.take_over(self.gather.owner());
        pmd.write_table(index, table.frame);
        pmd.mm.count(Event::EntryWrites, 1);
        // A cached PMD entry would remain read-only.
        self.gather.unhooked(va, Level::Pte);
        self.gather.flush();
        true
    }

    /// Flushes the old table from every CPU's paging-structure caches.
    fn hide(&mut self, start: VirtAddr) {
        if !mutant::on(Mutant::UnshareWithoutFlush) {
            self.gather.unhooked(start, Level::Pte);
            self.gather.flush();
        }
    }

    /// Copies a shared table into a fresh one, as fork does, and assigns the references.
    fn copy_entries(&mut self, from: PteTable<'a, M>, to: PteTable<'a, M>, start: VirtAddr) {
        let owner = self.gather.owner();
        if from.accountant() != *owner {
            fork::whole(from, to, start, owner, self.gather);
            return;
        }
        // The accountant's own references stand for the copy.
        fork::whole(from, to, start, &Owner::PLAIN, self.gather);
        if !mutant::on(Mutant::KeepAccountant) {
            from.be_plain();
        }
    }

    /// [`Edit::unshare`] of the tables in `range` within the budget; returns where the rest begins,
    /// if any. Out of memory: some tables are private already, which is invisible.
    pub fn unshare_some(
        &mut self,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>> {
        some_leaf_tables(self.root(), range, budget, &mut |mut leaves, budget| {
            // Unshared tables are skipped, but in sparse memory the walk is long.
            let entries = if leaves.shared { TABLE_ENTRIES } else { 0 };
            budget.take(budget::TABLE + entries as u32);
            self.own(&mut leaves)
        })
    }

    /// Drops consecutive shared tables of a PMD table in `range`, within the budget but at least
    /// one: each whole, or the space is exiting.
    #[inline(never)]
    pub(super) fn zap_shared_row(
        &mut self,
        pmd: Node<'a, M>,
        first: usize,
        range: VirtRange,
        zap: &mut Zap,
    ) {
        let end = pmd.indices(range).end;
        let owner = self.gather.owner();
        let taken = |index: &usize| {
            let Some(table) = pmd.shared(pmd.entry(*index)) else {
                return false;
            };
            zap.budget.take(table.cost_of_leaving(owner)) || *index == first
        };
        let n = (first..end).take_while(taken).count();
        pmd.freeze_run(first, n);
        for index in first..first + n {
            let part = pmd.part(index, range);
            debug_assert!(
                zap.dead || part.len() == Level::Pmd.bytes() && !zap.keep_anon,
                "a shared table is cut by {part:?}"
            );
            self.gather.unhooked(part.start, Level::Pte);
        }
        // One TLB flush for all: the remaining sharers may write to the pages afterwards.
        self.gather.flush();
        for index in first..first + n {
            let Some(table) = pmd.shared(pmd.frozen_entry(index)) else {
                unreachable!("it was frozen just now, under the lock of the space");
            };
            pmd.clear(index);
            zap.anon += note::shared_pages(table.meta());
            if note::may_be_swapped(table) {
                zap.swapped += table.swapped_pages();
            }
            self.entries(table).leave(pmd.part(index, range).start);
        }
        pmd.lost(n as u32);
        self.space.pages -= n as u64;
    }
}

impl<M: Machine> Entries<'_, '_, M> {
    /// Drops the space's share of this table, which it no longer maps at `at`.
    fn leave(&mut self, at: VirtAddr) {
        let (table, owner) = (self.table, self.gather.owner());
        let accounts = table.accountant() == *owner;
        if table.refs() != 1 && accounts && !mutant::on(Mutant::KeepAccountant) {
            table.pass(owner, &Owner::PLAIN);
            table.be_plain();
        }
        if table.meta().put_ref() {
            self.discard(at.align_down(Level::Pmd.bytes()));
        }
    }

    /// Frees this table, which is unlinked, after its last share was dropped.
    fn discard(&mut self, start: VirtAddr) {
        let (table, owner) = (self.table, self.gather.owner());
        table.take_over(owner);
        let meta = table.meta();
        meta.set_refs(1);
        let mut zap = Zap {
            dead: true,
            ..Zap::default()
        };
        let all = block(start, PMD_ORDER);
        self.drop_swapped(all, &mut zap);
        self.zap_called(all, &mut zap);
        self.gather.dead_table(table.frame);
    }
}
