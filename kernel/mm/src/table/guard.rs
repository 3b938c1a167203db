//! Guards (MADV_GUARD_INSTALL): entries that refuse every access until they are removed, whatever
//! the VMA allows.
//!
//! A guard is a marker ([`super::marker`]). Where it differs from the leaves of pages:
//! - A fault on it fails.
//! - mprotect leaves it as it is.
//! - Page advice and truncation leave it ([`super::Zap::keep_guards`]); unmapping removes it.
//! - Its table is not shared by a fork (`share`): its VMA has `VmaFlags::GUARDED`.

use super::edit::Edit;
use super::huge::by_pmd;
use super::marker::Marker;
use super::node::{PteTable, leaf_of};
use super::walk::some_leaf_tables;
use super::{Budget, Cursor, budget, note};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::{Level, Machine};
use crate::manager::Result;
use core::convert::Infallible;

/// Whether an entry is a guard. Out of line: zaps ask it of few entries.
#[inline(never)]
pub(super) fn is_guard<M: Machine>(raw: u64) -> bool {
    let leaf = leaf_of::<M>(raw, Level::Pte);
    leaf.is_some_and(|leaf| Marker::of(leaf.attrs) == Some(Marker::Guard))
}

impl<M: Machine> Edit<'_, '_, M> {
    /// Installs guards in `range`, which lies under one PMD entry and is empty. No flush: absent
    /// entries are not cached. Out of memory for a table: no change.
    pub fn guard(&mut self, range: VirtRange, budget: &mut Budget) -> Result {
        self.markers(range, Marker::Guard)?;
        budget.take(budget::TABLE + range.pages() as u32);
        Ok(())
    }
    /// Installs poison where nothing is, or markers are. A huge page may have several PMD entries.
    pub fn poison(&mut self, range: VirtRange) -> Result {
        for part in by_pmd(range) {
            Cursor::new(self.mm(), self.space, part.start).prepare(Level::Pte)?;
        }
        for part in by_pmd(range) {
            if let Some(table) = self.root().pte_table(part.start) {
                table.remove_markers(part, |_| true);
            }
        }
        by_pmd(range).try_for_each(|part| self.markers(part, Marker::Poison))
    }
    fn markers(&mut self, range: VirtRange, marker: Marker) -> Result {
        let mut cursor = Cursor::new(self.mm(), self.space, range.start);
        cursor.prepare(Level::Pte)?;
        cursor.node.ptes().install_markers(range, marker);
        Ok(())
    }

    /// Removes the guards in `range` within the budget; returns where the rest begins, if any.
    /// Tables stay.
    pub fn unguard_some(&mut self, range: VirtRange, budget: &mut Budget) -> Option<VirtAddr> {
        let Ok(stopped) = some_leaf_tables(self.root(), range, budget, &mut |leaves, budget| {
            budget.take_leaves(&leaves);
            if let Some(table) = leaves.ptes().filter(|_| !leaves.shared) {
                table.remove_markers(leaves.part, |marker| marker == Marker::Guard);
            }
            Ok::<_, Infallible>(())
        });
        stopped
    }
}

impl<M: Machine> PteTable<'_, M> {
    /// Writes markers over the absent entries of `part`.
    fn install_markers(self, part: VirtRange, marker: Marker) {
        let span = self.indices(part);
        debug_assert!(
            self.all_absent(span.start, span.len()),
            "{part:?} is mapped"
        );
        self.write_same(span.start, span.len(), self.mm.zero_page(), marker.attrs());
        self.gained(part.pages() as u32);
        note::note_zeros(self);
    }
}
