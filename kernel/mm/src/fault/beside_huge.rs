//! Faults of several CPUs in one space where there is no PTE table, or an empty one: a PMD leaf, or
//! the table.

use super::Access;
use super::fresh::{fill, zeroed};
use super::request::attrs;
use crate::arch::{Level, Machine};
use crate::space::{Reading, Rss};
use crate::table::Cursor;
use crate::thp::{PMD_ORDER, policy::block};
use crate::vma::Vma;

impl<M: Machine> Reading<'_, M> {
    /// Resolves a fault where a PMD leaf could be mapped, or makes the table that is missing:
    /// `None`.
    #[cold]
    pub(super) fn at_empty_pmd(
        &self,
        vma: &Vma<M>,
        access: Access,
        cursor: &mut Cursor<'_, M>,
    ) -> Option<bool> {
        let mut rss = Rss::default();
        let fault = self.state(vma, access, cursor, &mut rss);
        let orders = fault.orders();
        let whole = block(cursor.va(), PMD_ORDER);
        if orders.contains(PMD_ORDER) && vma.range.covers(&whole) {
            let huge = access == Access::Write
                && cursor.is_at_pmd()
                && fault.order(cursor, orders) == PMD_ORDER;
            return Some(huge && self.map_huge(vma, access, cursor));
        }
        // It stays when it is empty, as no leaf may come in its place.
        match cursor.is_at_pmd() && cursor.add_table().is_err() {
            true => Some(false),
            false => None,
        }
    }

    /// Maps a PMD leaf where nothing is.
    #[cold]
    fn map_huge(&self, vma: &Vma<M>, access: Access, cursor: &mut Cursor<'_, M>) -> bool {
        let (mm, id) = (&*self.space.mm, &self.space.id);
        let Ok(folio) = zeroed(mm, PMD_ORDER) else {
            return false;
        };
        let table = cursor.lock_table(Level::Pmd);
        if table.is_none() || !cursor.pmd_is_empty() {
            drop(table);
            folio.free(mm);
            return false;
        }
        fill(cursor, folio, PMD_ORDER, attrs(vma, access), id);
        self.add_anon(PMD_ORDER.pages());
        true
    }
}
