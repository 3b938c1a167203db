//! Fresh folios for faults: allocated and zeroed without the lock of the space, because 2 MiB of
//! zeros are a quarter of a million instructions.
//!
//! ```text
//!   attempt, locked ---> Wants ---> lock open: allocate, zero ---> nobody had the lock: install
//!        ^                                                    |
//!        +--- with the folio kept, or the order refused <-----+ somebody had: look again
//! ```

use super::Resolution;
use super::resolve::{Attempt, Request, attempt, attrs};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Level, Machine};
use crate::folio::Folio;
use crate::manager::{Mm, OutOfMemory};
use crate::mutant::{self, Mutant};
use crate::space::{AddressSpace, Inner, Locked};
use crate::stat::Event;
use crate::table::{Cursor, Spot};
use crate::thp::{PMD_ORDER, Stat};
use crate::tlb::Gather;
use crate::vma::Slot;

/// The folio that a fault wants, and where it goes.
pub(super) struct Wants {
    pub order: Order,
    /// The area of the page.
    pub slot: Slot,
    /// The page, and the lowest table on the way to it.
    pub spot: Spot,
}

/// A folio that was made for an attempt that did not need it.
struct Kept(Option<(Folio, Order)>);

impl Kept {
    /// The folio, if it has this order; any other is freed.
    fn take<M: Machine>(&mut self, mm: &Mm<M>, wanted: Order) -> Option<Folio> {
        if self.0.as_ref().is_some_and(|(_, order)| *order != wanted) {
            self.free(mm);
        }
        self.0.take().map(|(folio, _)| folio)
    }
    fn free<M: Machine>(&mut self, mm: &Mm<M>) {
        if let Some((folio, _)) = self.0.take() {
            folio.free(mm);
        }
    }
}

/// Makes the folio and maps it. Retries with what became of the entries when somebody else had the
/// lock meanwhile, and with a lower order when there is no memory for this one.
#[inline(always)]
pub(super) fn supply<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
    wants: Wants,
) -> Result<Pfn, Resolution> {
    match wants.order {
        Order(0) => {
            let order = Order(0);
            supply_here(locked, request, &Wants { order, ..wants })
        }
        _ => supply_large(locked, request, &wants),
    }
}

#[inline(never)]
fn supply_large<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
    wants: &Wants,
) -> Result<Pfn, Resolution> {
    supply_here(locked, request, wants)
}

/// [`supply`] in place: for single pages, of which the order is a constant.
#[inline(always)]
fn supply_here<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
    wants: &Wants,
) -> Result<Pfn, Resolution> {
    let order = wants.order;
    let (folio, undisturbed) = locked.open(|mm| zeroed(mm, order));
    let Ok(folio) = folio else {
        return retry(locked, request, order, Kept(None), true);
    };
    if !undisturbed && !mutant::on(Mutant::InstallWithoutLooking) {
        let kept = Kept(Some((folio, order)));
        return retry(locked, request, order, kept, false);
    }
    match install(locked, request, wants, folio) {
        Ok(pfn) => Ok(pfn),
        Err(OutOfMemory) => retry(locked, request, order, Kept(None), true),
    }
}

/// [`supply`] after an attempt that came to nothing: for want of memory (`refused`), or because the
/// entries may have changed.
#[cold]
fn retry<M: Machine>(
    locked: &mut Locked<'_, M>,
    request: Request,
    mut order: Order,
    mut kept: Kept,
    mut refused: bool,
) -> Result<Pfn, Resolution> {
    let mm = locked.mm();
    let mut most = PMD_ORDER;
    loop {
        if refused {
            if order == Order(0) {
                return Err(Resolution::NoMem);
            }
            mm.thp().stats.add(order, Stat::AnonFaultFallback, 1);
            most = Order(order.0 - 1);
        } else {
            mm.count(Event::FaultRetry, 1);
        }
        let wants = match attempt(locked, request, most) {
            Ok(Attempt::Wants(wants)) => wants,
            Ok(Attempt::Mapped(pfn)) => {
                kept.free(mm);
                return Ok(pfn);
            }
            Err(why) => {
                kept.free(mm);
                return Err(why);
            }
        };
        order = wants.order;
        let (folio, undisturbed) = match kept.take(mm, order) {
            Some(folio) => (Ok(folio), true),
            None => locked.open(|mm| zeroed(mm, order)),
        };
        refused = match folio {
            Ok(folio) if undisturbed => match install(locked, request, &wants, folio) {
                Ok(pfn) => return Ok(pfn),
                Err(OutOfMemory) => true,
            },
            Ok(folio) => {
                kept = Kept(Some((folio, order)));
                false
            }
            Err(OutOfMemory) => true,
        };
    }
}

#[inline(always)]
fn zeroed<M: Machine>(mm: &Mm<M>, order: Order) -> Result<Folio, OutOfMemory> {
    match order {
        Order(0) => Folio::anon(mm),
        order => Folio::large(mm, order),
    }
}

/// Maps the folio, all of it, around the page; returns the page's frame. Without memory for tables
/// nothing is mapped, and the folio is freed.
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
    clear_way(&mut cursor, order, space);
    cursor.install_folio(folio, order, attrs, &space.id.owner);
    space.mm.thp().stats.add(order, Stat::AnonFaultAlloc, 1);
    let va = cursor.va();
    Ok(first + (va - va.align_down(order.bytes())) / PAGE_SIZE)
}

/// Takes out what is in the way of a PMD leaf: an empty table, or the huge zero page.
fn clear_way<M: Machine>(cursor: &mut Cursor<'_, M>, order: Order, space: &AddressSpace<M>) {
    if order != PMD_ORDER {
        return;
    }
    let mut gather = Gather::new(&space.mm, &space.id);
    match cursor.leaf() {
        Some(_) => cursor.take_huge(&mut gather),
        None => cursor.remove_empty_table(&mut gather),
    }
    gather.finish();
}
