//! Write protection by userfaultfd (userfaultfd.rst): the software bit [`Attrs::UFFD_WP`] in the
//! leaf of a page, which then lacks WRITE; where nothing is mapped, a marker
//! ([`Marker::WriteProtected`]).
//!
//! Only VMAs with `VmaFlags::UFFD_WP` have such entries, and their tables are not shared by a fork
//! (`share`). Verbs that change rights keep the bit ([`super::protect`]), zaps drop it with the
//! page, but in memory of objects, where only unmapping does. A leaf of 16 folded entries, or of a
//! PMD, has it as a whole, and is taken apart before one of its pages loses it.

use super::edit::{Edit, Entries};
use super::huge::by_pmd;
use super::marker::Marker;
use super::node::PteTable;
use super::walk::{leaf_tables, some_leaf_tables};
use super::{Budget, Change, Cursor, Leaf, Zap, note};
use crate::addr::{Order, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine, TABLE_ENTRIES};
use crate::frame::Kind;
use crate::frame::zone::Reserve;
use crate::manager::Result;
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use crate::thp::{PMD_ORDER, policy::block};
use arrayvec::ArrayVec;
use core::convert::Infallible;

/// PTE tables in the place of the PMD leaves of a huge page: 16 at most.
const TABLES: usize = 16;

/// Other markers stay as they are.
fn protected(attrs: Attrs) -> Attrs {
    match Marker::of(attrs) {
        Some(_) => attrs,
        None => (attrs - Attrs::WRITE) | Attrs::UFFD_WP,
    }
}

fn unprotected(attrs: Attrs) -> Attrs {
    attrs - Attrs::UFFD_WP
}

impl<'a, M: Machine> Edit<'_, 'a, M> {
    /// Write-protects each page of `range`, of 2^`order` single ones, within the budget; with
    /// `empty` also what is not mapped. Returns where the rest begins, if any. No PMD leaf crosses
    /// an end of the range. Out of memory: the start of the range may be protected already.
    pub fn uffd_protect_some(
        &mut self,
        range: VirtRange,
        order: Order,
        empty: bool,
        budget: &mut Budget,
    ) -> Result<Option<VirtAddr>> {
        let mut rest = range;
        while let Some(piece) = rest.intersection(&block(rest.start, order.max(PMD_ORDER))) {
            if budget.is_spent() {
                return Ok(Some(rest.start));
            }
            if empty {
                by_pmd(piece).try_for_each(|part| self.prepare_markers(part.start))?;
            }
            leaf_tables(self.root(), piece, &mut |mut leaves| {
                budget.take_leaves(&leaves);
                self.own(&mut leaves)?;
                match leaves.ptes() {
                    Some(table) => self.entries(table).uffd_protect(leaves.part, empty),
                    None => self.modify_leaf(&leaves, protected),
                }
                Ok(())
            })?;
            rest.start = match empty {
                true => piece.end,
                // What precedes the next table is empty.
                false => {
                    let behind = VirtRange::new(piece.end, rest.end);
                    let next = (!behind.is_empty()).then(|| self.root().first_used(behind));
                    next.flatten().unwrap_or(rest.end)
                }
            };
            budget.take(1);
        }
        Ok(None)
    }

    /// Makes the PTE table for `va`, unless there is one or a PMD leaf. One of an object's folio is
    /// split: markers take the place of its pages one by one.
    fn prepare_markers(&mut self, va: VirtAddr) -> Result {
        let mm = self.mm();
        let mut cursor = Cursor::new(mm, self.space, va);
        let of_object = |leaf: &Leaf| mm.frames().folio(leaf.pfn).kind == Kind::Object;
        match cursor.leaf() {
            Some(leaf) if leaf.level == Level::Pmd && of_object(&leaf) => {
                self.split_leaf(va, Reserve::User)
            }
            None if !cursor.is_shared() => cursor.prepare(Level::Pte),
            _ => Ok(()),
        }
    }

    /// [`Edit::zap`] for markers: what was write-protected stays so, as a marker, when its page
    /// goes, or as a table of them. With `all`, there are tables for markers everywhere. No PMD
    /// leaf crosses an end of the range; tables stay. Out of memory for the tables of a huge page:
    /// what precedes it is zapped.
    pub fn zap_for_markers(
        &mut self,
        range: VirtRange,
        all: bool,
        zap: &mut Zap,
    ) -> Result<Option<VirtAddr>> {
        let mut rest = range;
        while let Some(piece) = rest.intersection(&self.folio_block(rest.start)) {
            if zap.budget.is_spent() {
                return Ok(Some(rest.start));
            }
            let protected = self.protected_in(piece);
            let mut tables = ArrayVec::<Pfn, TABLES>::new();
            // Of a huge page the first entry stands for all.
            if (all || protected[0]) && self.root().pte_table(piece.start).is_none() {
                self.alloc_tables(by_pmd(piece).count(), &mut tables)?;
            }
            let mut now = Zap {
                keep_tables: true,
                budget: Budget::UNLIMITED,
                ..*zap
            };
            let stopped = self.zap(piece, &mut now);
            debug_assert!(stopped.is_none(), "without a limit nothing is left");
            *zap = Zap {
                keep_tables: zap.keep_tables,
                budget: zap.budget,
                ..now
            };
            self.hook_tables(piece, tables);
            for part in by_pmd(piece) {
                zap.budget.take(TABLE_ENTRIES as u32);
                if let Some(table) = self.root().pte_table(part.start) {
                    table.mark(part, &protected);
                }
            }
            let behind = VirtRange::new(piece.end, rest.end);
            let next = (!behind.is_empty()).then(|| self.root().first_used(behind));
            rest.start = next.flatten().unwrap_or(rest.end);
        }
        Ok(None)
    }

    /// Hooks tables, if any, in the places of leaves that are zapped.
    fn hook_tables(&mut self, piece: VirtRange, tables: ArrayVec<Pfn, TABLES>) {
        if !tables.is_empty() {
            // Break before make: a CPU may hold the leaf.
            self.gather.flush();
        }
        for (part, table) in by_pmd(piece).zip(tables) {
            Cursor::new(self.mm(), self.space, part.start).hook(table);
        }
    }

    /// What a PMD entry maps around `va`, or all of the huge page of several of them.
    fn folio_block(&self, va: VirtAddr) -> VirtRange {
        let pmd = self.root().table_at(va, Level::Pmd);
        let leaf = pmd.and_then(|pmd| pmd.present(pmd.index(va)));
        let order = leaf.map(|leaf| self.mm().frames().folio(leaf.pfn).order);
        block(va, order.unwrap_or(PMD_ORDER).max(PMD_ORDER))
    }
    /// Allocates `n` tables, or none.
    fn alloc_tables(&self, n: usize, tables: &mut ArrayVec<Pfn, TABLES>) -> Result {
        for _ in 0..n {
            match self.mm().alloc_table(Reserve::User) {
                Ok(table) => tables.push(table),
                Err(why) => {
                    tables
                        .drain(..)
                        .for_each(|table| self.mm().free_table(table));
                    return Err(why);
                }
            }
        }
        Ok(())
    }

    /// Which of the entries of a table's part are write-protected.
    fn protected_in(&self, piece: VirtRange) -> Protected {
        let mut protected = [false; TABLE_ENTRIES];
        self.root().for_each_leaf(piece, &mut |leaf| {
            if leaf.attrs.contains(Attrs::UFFD_WP) {
                let first = Level::Pte.index(leaf.va);
                protected[first..first + leaf.pages as usize].fill(true);
            }
        });
        protected
    }

    /// Ends the write protection of each page of `range` within the budget; returns where the rest
    /// begins, if any. No PMD leaf crosses an end of the range. No flush: no access is allowed that
    /// was not before, until it faults.
    pub fn uffd_unprotect_some(
        &mut self,
        range: VirtRange,
        budget: &mut Budget,
    ) -> Option<VirtAddr> {
        let Ok(stopped) = some_leaf_tables(self.root(), range, budget, &mut |leaves, budget| {
            budget.take_leaves(&leaves);
            match leaves.ptes() {
                Some(_) if leaves.shared => {}
                Some(table) => self.entries(table).uffd_unprotect(leaves.part),
                None => {
                    let changed = leaves.node.modify(leaves.index(), unprotected);
                    leaves.node.mm.count(Event::EntryWrites, changed.into());
                }
            }
            Ok::<_, Infallible>(())
        });
        stopped
    }
}

impl<M: Machine> Entries<'_, '_, M> {
    /// Write-protects the pages of `part`, and with `empty` what is absent.
    fn uffd_protect(&mut self, part: VirtRange, empty: bool) {
        if !mutant::on(Mutant::ProtectWithoutUnfold) {
            self.unfold_ends(part);
        }
        let table = self.table;
        let span = table.indices(part);
        let written = span.map(|index| u64::from(table.modify(index, protected)));
        let written = written.sum();
        if empty {
            table.mark(part, &[true; TABLE_ENTRIES]);
        }
        if written > 0 {
            self.gather
                .changed_range(part.start, part.len(), Level::Pte);
            table.mm.count(Event::EntryWrites, written);
        }
        self.fold_range(part);
    }

    /// Ends the write protection of the pages of `part`, and removes its markers.
    fn uffd_unprotect(&mut self, part: VirtRange) {
        self.unfold_ends(part);
        let table = self.table;
        table.remove_markers(part, |marker| marker == Marker::WriteProtected);
        let (mut written, mut span) = (0, table.indices(part));
        while !span.is_empty() {
            let changed = table.modify(span.start, unprotected);
            written += u64::from(changed);
            // Of what is not there, and of other markers, there may be many.
            span.start += match changed {
                true => 1,
                false => table.same(span.start, span.end),
            };
        }
        table.mm.count(Event::EntryWrites, written);
        self.fold_range(part);
    }
}

/// By entry of a PTE table.
type Protected = [bool; TABLE_ENTRIES];

impl<M: Machine> PteTable<'_, M> {
    /// Marks what is absent of `part` and was write-protected.
    fn mark(self, part: VirtRange, protected: &Protected) {
        let to_mark = |index: &usize| protected[*index] && self.is_absent(*index);
        let mut marked = 0;
        for index in self.indices(part).filter(to_mark) {
            self.write_leaf(index, self.mm.zero_page(), Marker::WriteProtected.attrs());
            marked += 1;
        }
        if marked > 0 {
            self.gained(marked);
            note::note_zeros(self);
        }
    }

    /// Removes the markers in `part` that `f` selects. No CPU has them in its TLB.
    pub(super) fn remove_markers(self, part: VirtRange, f: impl Fn(Marker) -> bool) {
        let (mut removed, mut span) = (0, self.indices(part));
        while !span.is_empty() {
            let (index, n) = (span.start, self.same(span.start, span.end));
            let found = self.present(index).and_then(|leaf| Marker::of(leaf.attrs));
            if found.is_some_and(&f) {
                self.clear_run(index, n);
                removed += n as u32;
            }
            span.start += n;
        }
        self.lost(removed);
    }
}

impl<M: Machine> Cursor<'_, M> {
    /// Removes the marker of the page.
    pub fn take_marker(&mut self) {
        debug_assert!(
            self.leaf()
                .is_some_and(|leaf| Marker::of(leaf.attrs).is_some()),
            "{:?} is no marker",
            self.va
        );
        let node = self.node;
        node.clear(self.index());
        node.lost(1);
    }

    /// Marks the page, whose entry is absent, as one that no access reaches (UFFDIO_POISON).
    pub fn install_poison(&mut self) {
        let zeros = self.mm().zero_page();
        self.install_page(zeros, Marker::Poison.attrs());
        note::note_zeros(self.node.ptes());
    }
}

impl<M: Machine> Change<'_, '_, '_, M> {
    /// Ends the write protection of the page; of a folded block, this page alone changes.
    pub fn uffd_unprotect(mut self) {
        let (va, node) = (self.cursor.va, self.cursor.node);
        self.entries().unfold(va);
        let changed = node.modify(node.index(va), unprotected);
        node.mm.count(Event::EntryWrites, changed.into());
    }
    /// Ends the write protection of the page's huge page.
    pub fn uffd_unprotect_huge(self) {
        self.modify_huge(unprotected);
    }
}
