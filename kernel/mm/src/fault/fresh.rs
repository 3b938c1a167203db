//! Fresh folios for faults, allocated and zeroed without the lock of the space: 2 MiB of zeros take
//! a quarter of a million instructions.
//!
//! ```text
//!   attempt, locked ---> Wants ---> lock open: allocate, zero ---> lock not taken: install
//!        ^                                                    |
//!        +--- with the folio kept, or the order refused <-----+ lock taken: read the entries again
//! ```

use super::Resolution;
use super::request::{Attempt, Request, Wants, attrs};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Attrs, Level, Machine};
use crate::folio::Folio;
use crate::manager::{Mm, OutOfMemory, Result, SpaceId};
use crate::mutant::{self, Mutant};
use crate::space::{Inner, Locked, gathered};
use crate::stat::Event;
use crate::table::Cursor;
use crate::thp::{PMD_ORDER, Stat};

/// Reason for not mapping a folio.
enum Miss {
    /// Out of memory for it or for tables.
    Refused,
    /// The lock was taken during its allocation.
    Disturbed(Folio),
}

impl<M: Machine> Locked<'_, M> {
    /// Allocates the folio and maps it. Retries from the entries if the lock was taken meanwhile,
    /// and with a lower order when out of memory, unless it is worth waiting for some.
    #[inline(never)]
    pub(super) fn supply(&mut self, request: Request, wants: Wants) -> Result<Pfn, Resolution> {
        self.once(request, &wants, None)
            .or_else(|miss| self.retry(request, wants.order, miss))
    }

    /// Fast path: [`Self::supply`] with order 0 inlined as a constant.
    #[inline(always)]
    pub(super) fn supply_here(
        &mut self,
        request: Request,
        wants: Wants,
    ) -> Result<Pfn, Resolution> {
        let result = match wants.order {
            Order(0) => {
                let order = Order(0);
                self.once_here(request, &Wants { order, ..wants }, None)
            }
            _ => self.once(request, &wants, None),
        };
        result.or_else(|miss| self.retry(request, wants.order, miss))
    }

    /// Retries the fault after a miss with a folio of `order`, until it is resolved.
    #[cold]
    fn retry(
        &mut self,
        request: Request,
        mut order: Order,
        mut miss: Miss,
    ) -> Result<Pfn, Resolution> {
        let (mm, mut most) = (self.mm(), PMD_ORDER);
        loop {
            let kept = match miss {
                Miss::Refused if order == Order(0) => return Err(Resolution::NoMem),
                Miss::Refused if request.patient && self.is_worth_waiting(request, order) => {
                    return Err(Resolution::Short(order));
                }
                Miss::Refused => {
                    mm.count_folios(order, Stat::AnonFaultFallback, 1);
                    most = Order(order.0 - 1);
                    None
                }
                Miss::Disturbed(folio) => {
                    mm.count(Event::FaultRetry, 1);
                    Some(folio)
                }
            };
            // The lock may have been released, and marks made.
            let attempt = self.attempt_past_markers(request, most);
            let wanted = matches!(&attempt, Ok(Attempt::Wants(wants)) if wants.order == order);
            let (kept, spare) = if wanted { (kept, None) } else { (None, kept) };
            spare.into_iter().for_each(|folio| folio.free(mm));
            let wants = match attempt? {
                Attempt::Mapped(pfn) => return Ok(pfn),
                Attempt::Wants(wants) => wants,
            };
            match self.once(request, &wants, kept) {
                Ok(pfn) => return Ok(pfn),
                Err(why) => (order, miss) = (wants.order, why),
            }
        }
    }

    /// Whether a folio of this order is to be waited for: reclaim or compaction may bring one.
    fn is_worth_waiting(&self, request: Request, order: Order) -> bool {
        let mm = self.mm();
        if mm.is_worth_waiting(order) {
            return true;
        }
        let advised = self.vmas.at(request.addr);
        let advised = advised.is_some_and(|vma| vma.flags.advises_large());
        match mm.thp().controls.settings().defrag.waits(advised) {
            Some(waits) => waits && mm.may_compact(order),
            None => {
                mm.compact_later(order);
                false
            }
        }
    }

    /// Allocates the folio, unless `kept` is one, and maps it.
    #[inline(never)]
    fn once(&mut self, request: Request, wants: &Wants, kept: Option<Folio>) -> Result<Pfn, Miss> {
        self.once_here(request, wants, kept)
    }

    /// [`Self::once`], in line in the fault's first attempt, which saves it a call.
    #[inline(always)]
    fn once_here(
        &mut self,
        request: Request,
        wants: &Wants,
        kept: Option<Folio>,
    ) -> Result<Pfn, Miss> {
        let (folio, undisturbed) = match kept {
            Some(folio) => (Ok(folio), true),
            None => self.open(|mm| zeroed(mm, wants.order)),
        };
        let folio = folio.map_err(|OutOfMemory| Miss::Refused)?;
        if !undisturbed && !mutant::on(Mutant::InstallWithoutLooking) {
            return Err(Miss::Disturbed(folio));
        }
        self.install(request, wants, folio)
            .map_err(|OutOfMemory| Miss::Refused)
    }

    /// Maps the whole folio around the page; returns the page's frame. Out of memory for tables:
    /// frees the folio.
    #[inline(always)]
    fn install(&mut self, request: Request, wants: &Wants, folio: Folio) -> Result<Pfn> {
        let space = self.space;
        let Inner {
            vmas, table, rss, ..
        } = &mut **self;
        let (order, vma) = (wants.order, vmas.get(wants.slot));
        let mut cursor = Cursor::at(&space.mm, table, wants.spot);
        let level = match order {
            PMD_ORDER => Level::Pmd,
            _ => Level::Pte,
        };
        if let Err(error) = cursor.prepare(level) {
            folio.free(&space.mm);
            return Err(error);
        }
        rss.add_anon(order.pages());
        let attrs = attrs(vma, request.access);
        if order == PMD_ORDER {
            // What blocks a PMD leaf: the huge zero page, or an empty table.
            gathered(&space.mm, &space.id, |gather| match cursor.leaf() {
                Some(_) => cursor.edit(gather).take_huge(),
                None => cursor.edit(gather).remove_empty_table(),
            });
        }
        Ok(fill(&mut cursor, folio, order, attrs, &space.id))
    }
}

/// A zeroed folio. In line: the order is mostly a constant of the caller.
#[inline(always)]
pub(super) fn zeroed<M: Machine>(mm: &Mm<M>, order: Order) -> Result<Folio> {
    match order {
        Order(0) => Folio::anon(mm),
        order => Folio::large(mm, order),
    }
}

/// Maps the fresh folio at the absent entries around the page; returns the page's frame.
#[inline(always)]
pub(super) fn fill<M: Machine>(
    cursor: &mut Cursor<'_, M>,
    folio: Folio,
    order: Order,
    attrs: Attrs,
    id: &SpaceId,
) -> Pfn {
    let first = folio.pfn();
    if order == Order(0) {
        cursor.install_anon(folio, attrs, &id.owner);
        return first;
    }
    cursor.install_folio(folio, order, attrs, &id.owner);
    let mm = cursor.mm();
    mm.count_folios(order, Stat::AnonFaultAlloc, 1);
    let va = cursor.va();
    first + (va - va.align_down(order.bytes())) / PAGE_SIZE
}
