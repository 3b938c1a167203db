//! Faults of several CPUs in one space where there is no PTE table, or an empty one: a PMD leaf, or
//! the table.

use super::Access;
use super::fresh::{fill, zeroed};
use super::read_locked::ReadLocked;
use super::request::attrs;
use crate::arch::{Level, Machine};
use crate::space::Rss;
use crate::table::Cursor;
use crate::thp::{PMD_ORDER, policy::block};

impl<M: Machine> ReadLocked<'_, M> {
    /// Resolves a fault where a PMD leaf could be mapped, or makes the table that is missing:
    /// `None`.
    #[cold]
    pub(super) fn at_empty_pmd(&self, cursor: &mut Cursor<'_, M>) -> Option<bool> {
        let mut rss = Rss::default();
        let fault = self.state(PMD_ORDER, &mut rss);
        let whole = block(cursor.va(), PMD_ORDER);
        if fault.orders().contains(PMD_ORDER) && self.vma.range.covers(&whole) {
            let huge = self.request.access == Access::Write
                && cursor.is_at_pmd()
                && fault.order(cursor) == PMD_ORDER;
            return Some(huge && self.map_huge(cursor));
        }
        // It stays when it is empty, as no leaf may come in its place.
        match cursor.is_at_pmd() && cursor.add_table().is_err() {
            true => Some(false),
            false => None,
        }
    }

    /// Maps a PMD leaf where nothing is.
    #[cold]
    fn map_huge(&self, cursor: &mut Cursor<'_, M>) -> bool {
        let Ok(folio) = zeroed(cursor.mm(), PMD_ORDER) else {
            return false;
        };
        let table = cursor.lock_table(Level::Pmd);
        if table.is_none() || !cursor.pmd_is_empty() {
            drop(table);
            folio.free(cursor.mm());
            return false;
        }
        let (id, attrs) = (&self.reading.space.id, attrs(self.vma, Access::Write));
        fill(cursor, folio, PMD_ORDER, attrs, id);
        self.reading.add_anon(PMD_ORDER.pages());
        true
    }
}
