//! Folios of objects in swap slots.
//!
//! ```text
//!   map of the object    5 6 7 8             5 6 7 8
//!                        | | | |  shelve     | | | |
//!   frames               h t t t  ------->   s s s s   slots, with a name for each index
//!                                 <-------   |
//!                                 take_out   h         the folio, private and in slots
//! ```
//! In slots it is as a private folio that is parked, and goes to the store as that does
//! ([`super::evict`]). Only its object names these slots, under its lock, so that nobody else can
//! look at what is in them, and what is stored comes back under that lock.

use super::swap::Unit;
use super::{Mm, OutOfMemory, Result};
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Cpu, Machine, PhysMem};
use crate::frame::slots::Place;
use crate::frame::zone::Reserve;
use crate::frame::{Block, Kind};
use crate::own::{Account, Owner, Part};
use crate::thp::Stat;

impl<M: Machine> Mm<M> {
    /// Puts a folio of a unit or less, to which only its object has references, in slots, of which
    /// the object has as many names from now on. Returns the first slot. `None`: there are no
    /// slots.
    pub(crate) fn shelve(&self, folio: &Block) -> Option<Pfn> {
        let Block { head, order, .. } = *folio;
        let frames = self.frames();
        let names = frames.get(head).refs() as u32;
        let mut lots = self.swap.resident.lock();
        let first = self.slots().take(frames, order, false)?;
        self.with_account(first, order, |account, book, meter| {
            account.begin(book, &Owner::PLAIN, Part::nothing(1 + names), meter)
        });
        self.recount(Kind::Object, Kind::Anon, order);
        let unit = Unit { first, order };
        self.begin_in_slots(head, unit);
        if order != Order(0) {
            self.count_folios(order, Stat::NrAnon, 1);
        }
        self.set_place(unit, Place::Here(head));
        lots.set(first, true);
        Some(first)
    }

    /// Brings the unit of a slot into memory, if it is not, and keeps it there until it is taken
    /// out. The caller has its object's lock.
    pub(crate) fn bring(&self, slot: Pfn) -> Result<Unit> {
        loop {
            let (mut lots, slots) = (self.swap.resident.lock(), self.frames().folio(slot));
            let unit = self.unit(&slots, slot);
            if let Some(head) = self.place(unit).frame() {
                self.set_place(unit, Place::Here(head));
                lots.set(unit.first, false);
                return Ok(unit);
            }
            let load = self
                .begin_to_load(&slots, slot, false, lots)
                .map_err(|_| OutOfMemory)?;
            self.swap
                .store
                .at_spare_bench(|bench| self.fill(&load, bench));
            self.end_load(&load);
        }
    }

    /// Takes the folio of a unit that was brought out of its slots: it is the object's, which has
    /// so many names of them and as many references from now on. Returns its head.
    pub(crate) fn take_out(&self, unit: Unit, names: u64) -> Pfn {
        let frames = self.frames();
        let lots = self.swap.resident.lock();
        let Place::Here(head) = self.place(unit) else {
            unreachable!("{unit:?} was brought into memory");
        };
        self.set_place(unit, Place::Empty);
        let meta = frames.get(head);
        meta.anon().set_slots(None);
        if unit.order != Order(0) {
            self.large_folio_ends(head, unit.order);
        }
        self.account().forget_pages(&frames.book(head, unit.order));
        meta.set(Kind::Object, unit.order);
        meta.set_refs(names);
        self.recount(Kind::Anon, Kind::Object, unit.order);
        drop(lots);
        self.drop_names(unit.first, names);
        head
    }

    /// A page for the object, from all of the reserve, with a copy of what is in a slot, of which
    /// it still has a name.
    pub(crate) fn copy_out(&self, slot: Pfn) -> Result<Pfn> {
        let page = self.alloc(Order(0), Kind::Object, Reserve::Kernel)?;
        let mem = self.machine().mem();
        mem.in_place(page.start(), PAGE_SIZE, &mut |to| {
            self.read_slot(slot, 0, to)
        });
        Ok(page)
    }

    /// Reads bytes of the page in a slot from an offset on, wherever it is. The caller has its
    /// object's lock.
    pub(crate) fn read_slot(&self, slot: Pfn, offset: u64, into: &mut [u8]) {
        let (lots, slots) = (self.swap.resident.lock(), self.frames().folio(slot));
        let unit = self.unit(&slots, slot);
        let at = (slot - unit.first) * PAGE_SIZE + offset;
        match self.place(unit) {
            Place::Here(pfn) | Place::Storing(pfn, _) => {
                self.machine().mem().read(pfn.start() + at, into)
            }
            Place::Stored(kept) => {
                drop(lots);
                let pieces = self.pieces(unit, kept);
                self.swap.store.at_spare_bench(|bench| {
                    let plain = bench.unpack_here(self, &pieces, kept, unit.order.bytes());
                    into.copy_from_slice(&plain[at as usize..][..into.len()])
                });
            }
            place => unreachable!("{unit:?} is {place:?}, and only its object has names of it"),
        }
    }

    /// Ends names that an object had of a block of slots.
    pub(crate) fn drop_names(&self, slot: Pfn, names: u64) {
        let slots = self.frames().folio(slot);
        // Never the last: that is the block's own.
        self.with_account(slots.head, slots.order, |account, book, meter| {
            account.sub(book, &Owner::PLAIN, names as u32, meter)
        });
        self.free_unnamed(&slots);
    }

    fn recount(&self, from: Kind, to: Kind, order: Order) {
        let cpu = self.machine().cpu().id();
        self.allocator.recount(cpu, from, to, order.pages());
    }
}
