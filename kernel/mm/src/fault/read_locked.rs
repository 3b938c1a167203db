//! Faults of several CPUs in one space at once: as readers of its lock, each with the lock of the
//! table that it changes.
//!
//! This way go faults in private anonymous memory that was written before, but for what takes a
//! table or a PMD leaf away. All others take the space's lock.
//!
//! ```text
//!   absent: the order is read, table open --+
//!                                           v
//!   table locked: attempt ---> Wants ---> table open: allocate, zero ---> table locked:
//!     ^      |                                                            its next turn, or
//!     |      +--> mapped                                                  absent: install
//!     |                                                                     |
//!     +---------------------------------------------- else, folio kept -----+
//! ```
//! The space stays locked for reading meanwhile: its areas and its tables stay.

use super::Access;
use super::cow::reuse_single;
use super::fresh::{fill, zeroed};
use super::keys::may_try;
use super::request::{Fault, Request, Stop, attrs};
use crate::addr::{Order, PAGE_SIZE, VirtAddr};
use crate::arch::{Level, Machine};
use crate::folio::Folio;
use crate::manager::Mm;
use crate::mutant::{self, Mutant};
use crate::space::{AddressSpace, Reading, Rss};
use crate::stat::Event;
use crate::table::Cursor;
use crate::thp::{PMD_ORDER, policy::block};
use crate::vma::Vma;

/// The largest order of a folio in a PTE table.
const BELOW_PMD: Order = Order(PMD_ORDER.0 - 1);

/// A fault beside those of other CPUs, in a VMA in which it changes no more than entries.
pub(super) struct ReadLocked<'r, M: Machine> {
    pub reading: &'r Reading<'r, M>,
    pub vma: &'r Vma<M>,
    pub request: Request,
}

impl<M: Machine> AddressSpace<M> {
    /// Resolves a fault beside those of other CPUs; `false`: it is to take the space's lock.
    #[inline(never)]
    pub(super) fn fault_read_locked(&self, addr: VirtAddr, access: Access) -> bool {
        self.read_shared()
            .is_some_and(|reading| reading.fault(addr, access))
    }
}

impl<M: Machine> Reading<'_, M> {
    /// [`AddressSpace::fault_read_locked`].
    pub(super) fn fault(&self, addr: VirtAddr, access: Access) -> bool {
        let (mm, request) = (&*self.space.mm, Request::tried(addr, access));
        let Some(vma) = self.find(addr) else {
            return false;
        };
        let first = access == Access::Write && !vma.has_anon;
        if first || !vma.changes_only_entries() || !may_try(mm, vma, &request) {
            return false;
        }
        let fault = ReadLocked {
            reading: self,
            vma,
            request,
        };
        let mut tables = self.table.as_reader();
        let mut cursor = Cursor::new(mm, &mut tables, addr.align_down(PAGE_SIZE));
        let at_pmd = match cursor.pmd_is_empty() {
            true => fault.at_empty_pmd(&mut cursor),
            false => None,
        };
        let resolved = at_pmd.unwrap_or_else(|| fault.map_in_table(&mut cursor));
        self.add_tables(&tables);
        resolved
    }
}

impl<M: Machine> ReadLocked<'_, M> {
    /// Its state, for folios of order `most` at most.
    pub(super) fn state<'f>(&'f self, most: Order, rss: &'f mut Rss) -> Fault<'f, M> {
        Fault::new(self.reading.space, self.request, most, self.vma, rss)
    }

    /// The same for entries of the PTE table that the cursor is at. Others may empty it at any
    /// time, and it stays.
    fn in_table<'f>(&'f self, rss: &'f mut Rss) -> Fault<'f, M> {
        let most = match mutant::on(Mutant::LeafBeside) {
            true => PMD_ORDER,
            false => BELOW_PMD,
        };
        self.state(most, rss)
    }

    /// Resolves it by entries of the PTE table that the cursor is at.
    fn map_in_table(&self, cursor: &mut Cursor<'_, M>) -> bool {
        if !cursor.is_at_pte() {
            return false;
        }
        let (mm, access) = (cursor.mm(), self.request.access);
        let id = &self.reading.space.id;
        // What is read with the table open holds if nobody else had it locked since.
        let mut turn = cursor.turn();
        let mut next = match access == Access::Write && cursor.is_absent() {
            true => Ok(self.in_table(&mut Rss::default()).order(cursor)),
            false => self.attempt(cursor, &mut turn),
        };
        let mut kept: Option<(Order, Folio)> = None;
        let resolved = loop {
            let order = match next {
                Ok(order) => order,
                Err(resolved) => break resolved,
            };
            if kept.as_ref().is_none_or(|(has, _)| *has != order) {
                discard(mm, kept.take());
                let Ok(folio) = zeroed(mm, order) else {
                    break false;
                };
                kept = Some((order, folio));
            }
            let table = cursor.lock_table(Level::Pte);
            let same = table.as_ref().is_some_and(|table| table.is_turn(turn));
            if same || is_still_absent(cursor, order) || mutant::on(Mutant::InstallBeside) {
                let (_, folio) = kept.take().expect("it was made above");
                fill(cursor, folio, order, attrs(self.vma, access), id);
                self.reading.add_anon(order.pages());
                return true;
            }
            drop(table);
            mm.count(Event::FaultRetry, 1);
            next = self.attempt(cursor, &mut turn);
        };
        discard(mm, kept);
        resolved
    }

    /// Resolves it with the table locked as far as that needs no folio: `Err`, and whether it did.
    /// Else the order of the folio that is needed, and the table's next turn.
    fn attempt(&self, cursor: &mut Cursor<'_, M>, next: &mut u64) -> Result<Order, bool> {
        let _table = cursor.lock_table(Level::Pte);
        *next = cursor.turn() + 1;
        let id = &self.reading.space.id;
        if self.request.access == Access::Write && reuse_single(cursor, id).is_some() {
            return Err(true);
        }
        let mut rss = Rss::default();
        let result = self.in_table(&mut rss).at(cursor);
        // Whatever came of it, swap entries may have become leaves.
        self.reading.sub_swapped(rss.swapped.wrapping_neg());
        match result {
            Ok(_) => {
                self.reading.add_anon(rss.anon);
                Err(true)
            }
            // With the space's lock smaller folios are tried, and failures are told.
            Err(Stop::Failed(_)) => Err(false),
            Err(Stop::Wants(order)) => Ok(order),
        }
    }
}

/// Whether a folio of the order can be mapped around the page.
fn is_still_absent<M: Machine>(cursor: &Cursor<'_, M>, order: Order) -> bool {
    let place = block(cursor.va(), order);
    match order {
        Order(0) => cursor.is_absent(),
        _ => cursor.hole(place) == place,
    }
}

/// Frees a folio that was made for nothing.
fn discard<M: Machine>(mm: &Mm<M>, kept: Option<(Order, Folio)>) {
    if let Some((_, folio)) = kept {
        folio.free(mm);
    }
}
