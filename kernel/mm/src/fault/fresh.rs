//! Fresh folios for faults, allocated and zeroed without the lock of the space: 2 MiB of zeros take
//! a quarter of a million instructions.
//!
//! ```text
//!   attempt, locked ---> Wants ---> lock open: allocate, zero ---> lock not taken: install
//!        ^                                                    |
//!        +--- with the folio kept, or the order refused <-----+ lock taken: read the entries again
//! ```

use super::Resolution;
use super::resolve::{Attempt, Request, attempt, attrs};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Level, Machine};
use crate::folio::Folio;
use crate::manager::{Mm, OutOfMemory};
use crate::mutant::{self, Mutant};
use crate::space::{Inner, Locked, gathered};
use crate::stat::Event;
use crate::table::{Cursor, Spot};
use crate::thp::{PMD_ORDER, Stat};
use crate::vma::Slot;

/// A folio that a fault needs, and its place.
pub(super) struct Wants {
    pub order: Order,
    /// The page's VMA.
    pub slot: Slot,
    /// The page and its lowest existing table.
    pub spot: Spot,
}

/// Reason for not mapping a folio.
enum Miss {
    /// Out of memory for it or for tables.
    Refused,
    /// The lock was taken during its allocation.
    Disturbed(Folio),
}

/// Allocates the folio and maps it. Retries from the entries if the lock was taken meanwhile, and
/// with a lower order when out of memory.
#[inline(always)]
pub(super) fn supply<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
    wants: Wants,
) -> Result<Pfn, Resolution> {
    if wants.order != Order(0) {
        return supply_until(locked, request, wants, None);
    }
    // Fast path: order 0 is a constant here.
    let order = Order(0);
    let single = Wants { order, ..wants };
    match once(locked, request, &single, None) {
        Ok(pfn) => Ok(pfn),
        Err(miss) => supply_until(locked, request, single, Some(miss)),
    }
}

/// [`supply`], after the first miss if there was one.
#[inline(never)]
fn supply_until<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
    mut wants: Wants,
    mut missed: Option<Miss>,
) -> Result<Pfn, Resolution> {
    let (mm, mut most, mut kept) = (locked.mm(), PMD_ORDER, None);
    loop {
        let miss = match missed.take() {
            Some(miss) => miss,
            None => match once(locked, request, &wants, kept.take()) {
                Ok(pfn) => return Ok(pfn),
                Err(miss) => miss,
            },
        };
        match miss {
            Miss::Refused if wants.order == Order(0) => return Err(Resolution::NoMem),
            Miss::Refused => {
                let stats = &mm.thp().stats;
                stats.add(wants.order, Stat::AnonFaultFallback, 1);
                most = Order(wants.order.0 - 1);
            }
            Miss::Disturbed(folio) => {
                mm.count(Event::FaultRetry, 1);
                kept = Some(folio);
            }
        }
        let again = attempt(locked, request, most);
        let fits = matches!(&again, Ok(Attempt::Wants(next)) if next.order == wants.order);
        if !fits && let Some(folio) = kept.take() {
            folio.free(mm);
        }
        wants = match again? {
            Attempt::Mapped(pfn) => return Ok(pfn),
            Attempt::Wants(next) => next,
        };
    }
}

/// Allocates the folio, unless `kept` is one, and maps it.
#[inline(always)]
fn once<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
    wants: &Wants,
    kept: Option<Folio>,
) -> Result<Pfn, Miss> {
    let (folio, undisturbed) = match kept {
        Some(folio) => (Ok(folio), true),
        None => locked.open(|mm| zeroed(mm, wants.order)),
    };
    let folio = folio.map_err(|OutOfMemory| Miss::Refused)?;
    if !undisturbed && !mutant::on(Mutant::InstallWithoutLooking) {
        return Err(Miss::Disturbed(folio));
    }
    install(locked, request, wants, folio).map_err(|OutOfMemory| Miss::Refused)
}

#[inline(always)]
fn zeroed<M: Machine>(mm: &Mm<M>, order: Order) -> Result<Folio, OutOfMemory> {
    match order {
        Order(0) => Folio::anon(mm),
        order => Folio::large(mm, order),
    }
}

/// Maps the whole folio around the page; returns the page's frame. Out of memory for tables: frees
/// the folio.
#[inline(always)]
fn install<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
    wants: &Wants,
    folio: Folio,
) -> Result<Pfn, OutOfMemory> {
    let space = locked.space;
    let Inner {
        vmas, table, rss, ..
    } = &mut **locked;
    let (order, vma) = (wants.order, vmas.get_mut(wants.slot));
    let mut cursor = Cursor::at(&space.mm, table, wants.spot);
    let level = match order {
        PMD_ORDER => Level::Pmd,
        _ => Level::Pte,
    };
    if let Err(error) = cursor.prepare(level) {
        folio.free(&space.mm);
        return Err(error);
    }
    vma.has_anon = true;
    rss.add_anon(order.pages());
    let (first, attrs) = (folio.pfn(), attrs(vma, request.access));
    if order == Order(0) {
        cursor.install_anon(folio, attrs, &space.id.owner);
        return Ok(first);
    }
    if order == PMD_ORDER {
        // What blocks a PMD leaf: the huge zero page, or an empty table.
        gathered(&space.mm, &space.id, |gather| match cursor.leaf() {
            Some(_) => cursor.edit(gather).take_huge(),
            None => cursor.edit(gather).remove_empty_table(),
        });
    }
    cursor.install_folio(folio, order, attrs, &space.id.owner);
    space.mm.thp().stats.add(order, Stat::AnonFaultAlloc, 1);
    let va = cursor.va();
    Ok(first + (va - va.align_down(order.bytes())) / PAGE_SIZE)
}
