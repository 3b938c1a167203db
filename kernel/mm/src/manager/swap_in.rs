//! What is stored comes back, with its folio where that can be had whole.

use super::store::Bench;
use super::swap::{Lots, Unit};
use super::{Mm, OutOfMemory, Result};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Machine, PhysMem};
use crate::frame::slots::{IN_PAGES, Pages, Place, TOGETHER, UNIT};
use crate::frame::table::SwapSlot;
use crate::frame::zone::Reserve;
use crate::frame::{Block, Kind};
use crate::own::{Account, Owner};
use crate::stat::Event;
use crate::thp::Stat;

impl<M: Machine> Mm<M> {
    /// Brings the page in a slot back into memory, with its folio where that can be had whole. The
    /// slot may have another use by now; the caller, who holds no lock, looks again. `Err`: all is
    /// as it was for want of a folio of this order, for which a `patient` caller can wait.
    pub(crate) fn load(&self, slot: SwapSlot, patient: bool) -> Result<(), Order> {
        let slot = self.frames().slot_of(slot);
        let loaded = self.swap.store.at_bench(self, |bench| {
            let lots = self.swap.resident.lock();
            let slots = self.frames().folio(slot);
            if slots.kind != Kind::Swap {
                return Ok(false);
            }
            match self.place(self.unit(&slots, slot)) {
                Place::Stored(_) => {
                    let load = self.begin_to_load(&slots, slot, patient, lots)?;
                    self.fill(&load, bench);
                    self.end_load(&load);
                    self.machine().wake();
                    Ok(false)
                }
                place => Ok(matches!(place, Place::Loading(_))),
            }
        });
        // A thread that is to end needs no page.
        if loaded.unwrap_or(Err(Order(0)))? {
            self.machine().wait(&mut || !self.is_loading(slot));
        }
        Ok(())
    }
    /// Whether another thread brings the page in a slot back, if it still is one.
    fn is_loading(&self, slot: Pfn) -> bool {
        let _lots = self.swap.resident.lock();
        let slots = self.frames().folio(slot);
        slots.kind == Kind::Swap && matches!(self.place(self.unit(&slots, slot)), Place::Loading(_))
    }

    /// Takes frames for the unit of a slot, or all units if all are stored. `Err`: as
    /// [`Self::load`].
    pub(super) fn begin_to_load(
        &self,
        slots: &Block,
        slot: Pfn,
        patient: bool,
        lots: Lots<'_>,
    ) -> Result<Load, Order> {
        let unit = self.unit(slots, slot);
        let stored = |unit| matches!(self.place(unit), Place::Stored(_));
        let whole = slots.order > unit.order
            && self.comes_whole(slots.order.pages())
            && self
                .units(*slots)
                .all(|unit| unit.order == UNIT && stored(unit));
        // The store gives most of it back at once.
        let reserve = match patient {
            true => Reserve::User,
            false => Reserve::GivingBack,
        };
        let frames = |order| self.alloc(order, Kind::Anon, reserve);
        let all = Unit {
            first: slots.head,
            order: slots.order,
        };
        let to = match whole.then(|| frames(slots.order)) {
            Some(Ok(head)) => Frames::Block(all, head),
            _ => match frames(unit.order) {
                Ok(head) => Frames::Block(unit, head),
                Err(OutOfMemory) if patient && self.is_worth_waiting(unit.order) => {
                    return Err(unit.order);
                }
                Err(OutOfMemory) => Frames::Pages(unit, self.single_pages(unit)?),
            },
        };
        self.add_plain(slots.head, slots.order);
        let load = Load {
            slots: *slots,
            slot,
            to,
        };
        for unit in self.units_in(&load) {
            let Place::Stored(kept) = self.place(unit) else {
                unreachable!("{unit:?} was found stored");
            };
            self.set_place(unit, Place::Loading(kept));
        }
        drop(lots);
        Ok(load)
    }
    /// As many pages as a unit has.
    fn single_pages(&self, unit: Unit) -> Result<Pages, Order> {
        let page = |_| self.alloc(Order(0), Kind::Anon, Reserve::User).ok();
        let pages: Pages = (0..unit.order.pages()).map_while(page).collect();
        if pages.len() as u64 == unit.order.pages() {
            return Ok(pages);
        }
        self.unused_frames(&pages);
        Err(Order(0))
    }
    fn units_in<'a>(&'a self, load: &Load) -> impl Iterator<Item = Unit> + use<'a, M> {
        let (Frames::Block(unit, _) | Frames::Pages(unit, _)) = &load.to;
        self.units_at(load.slots, unit.first, unit.order.pages())
    }

    /// Fills the frames.
    pub(super) fn fill(&self, load: &Load, bench: &mut Bench) {
        for unit in self.units_in(load) {
            let Place::Loading(kept) = self.place(unit) else {
                unreachable!("{unit:?} is loading");
            };
            let (bytes, pieces) = (unit.order.bytes(), self.pieces(unit, kept));
            let mem = self.machine().mem();
            match &load.to {
                Frames::Block(all, head) => {
                    let to = *head + (unit.first - all.first);
                    mem.in_place(to.start(), bytes, &mut |to| {
                        bench.unpack(self, &pieces, kept, to)
                    });
                }
                Frames::Pages(_, pages) => {
                    let plain = bench.unpack_here(self, &pieces, kept, bytes);
                    let parts = plain.chunks(PAGE_SIZE as usize);
                    for (part, page) in parts.zip(pages) {
                        mem.write(page.start(), part);
                    }
                }
            }
        }
    }

    /// The units are in their frames from now on.
    pub(super) fn end_load(&self, load: &Load) {
        let mut lots = self.swap.resident.lock();
        let mut pages = 0;
        for unit in self.units_in(load) {
            if let Place::Loading(kept) = self.place(unit) {
                self.drop_kept(unit, kept);
            }
            pages += unit.order.pages();
        }
        match &load.to {
            &Frames::Block(unit, head) => {
                if unit.order != Order(0) {
                    self.count_folios(unit.order, Stat::NrAnon, 1);
                    self.count_folios(unit.order, Stat::SwpIn, 1);
                }
                self.begin_in_slots(head, unit);
                let mut more = 0;
                for part in self.units_in(load) {
                    self.set_place(part, Place::Here(head + (part.first - unit.first)));
                    if part.order != Order(0) {
                        self.slot(part.first).set_used(0);
                    }
                    lots.set(part.first, true);
                    more += 1;
                }
                // One it has.
                self.with_account(head, unit.order, |account, book, meter| {
                    account.add(book, &Owner::PLAIN, more - 1, meter)
                });
            }
            Frames::Pages(unit, frames) => {
                self.set_used(unit.first, unit.order, IN_PAGES | TOGETHER);
                for (part, page) in self.units_in(load).zip(frames.iter().copied()) {
                    self.begin_in_slots(page, part);
                    self.set_place(part, Place::Here(page));
                    lots.set(part.first, true);
                }
            }
        }
        // Not before it was used: it may be the only one that could be stored, again and again.
        lots.set(self.unit(&load.slots, load.slot).first, false);
        drop(lots);
        self.count(Event::SwapIn, pages);
        self.sub_plain(load.slots.head, load.slots.order);
        self.free_unnamed(&load.slots);
    }
}

/// Frames for what comes back.
enum Frames {
    /// For all of these slots, side by side.
    Block(Unit, Pfn),
    /// One by one for those of a unit.
    Pages(Unit, Pages),
}

/// What is loaded.
pub(super) struct Load {
    slots: Block,
    /// The one that was asked for.
    slot: Pfn,
    to: Frames,
}
