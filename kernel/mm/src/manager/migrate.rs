//! What is alone in its slots gets other frames ([`super::swap`]).
//!
//! It is as if it were stored ([`super::evict`]): copied outside of every lock, which only reads.
//! So a fault takes the folio back at once, where it was, and the copy is thrown away.

use super::Mm;
use super::swap::Unit;
use crate::addr::{Order, Pfn};
use crate::arch::{Cpu, Machine, PhysMem};
use crate::frame::compact::{DEFERRED_FOR, Held};
use crate::frame::pageblock::PAGEBLOCK;
use crate::frame::slots::{Pages, Place, TIMES};
use crate::frame::zone::Zone;
use crate::frame::{Block, Kind};
use crate::mutant::{self, Mutant};
use crate::own::{Account, Owner};
use crate::stat::Event;
use crate::sync::Ordering;
use crate::thp::Stat;

/// A private folio that is being moved, and its slots.
pub(crate) struct Moving {
    head: Pfn,
    order: Order,
    slots: Block,
    first: Pfn,
    /// How many units it has, and which of them may be stored, by a bit for each.
    units: u32,
    may_be_stored: u32,
    time: u32,
}

impl<M: Machine> Mm<M> {
    /// Begins to move the private folio of this order at `head`, if nothing but its slots has
    /// references to it. Who calls has none: it may be gone.
    pub(crate) fn begin_to_move(&self, head: Pfn, order: Order) -> Option<Moving> {
        let frames = self.frames();
        let mut lots = self.swap.resident.lock();
        let meta = frames.get(head);
        let first = frames.pfn(meta.former_slots()?);
        // What is no private folio has anything there.
        if !frames.slots().contains(first) || !meta.is(Kind::Anon, order) {
            return None;
        }
        let slots = frames.folio(first);
        if slots.kind != Kind::Swap || Place::of(self.slot(first).word()) != Place::Here(head) {
            return None;
        }
        let time = (lots.times + 1) % TIMES;
        let mut moving = Moving {
            head,
            order,
            slots,
            first,
            units: 0,
            may_be_stored: 0,
            time,
        };
        let mut all_here = true;
        for (n, unit) in self.units_of(&moving) {
            all_here &= matches!(self.place(unit), Place::Here(_));
            moving.units += 1;
            moving.may_be_stored |= u32::from(lots.has(unit.first)) << n;
        }
        let alone = self.references(head) == moving.units.into() || mutant::on(Mutant::MoveInUse);
        if !all_here || !alone {
            return None;
        }
        lots.times = time;
        for (_, unit) in self.units_of(&moving) {
            self.set_place(unit, Place::Storing(head + (unit.first - first), time));
            lots.set(unit.first, false);
        }
        // They stay meanwhile.
        self.add_plain(slots.head, slots.order);
        Some(moving)
    }
    fn units_of(&self, moving: &Moving) -> impl Iterator<Item = (u32, Unit)> + use<'_, M> {
        (0..).zip(self.units_at(moving.slots, moving.first, moving.order.pages()))
    }

    /// Copies the folio to the frames from `new` on, which only the caller has, and makes them its
    /// own: those that it had are nobody's then. `false`: somebody uses it where it was, and those
    /// from `new` on are still the caller's.
    pub(crate) fn move_to(&self, moving: &Moving, new: Pfn) -> bool {
        let &Moving { head, order, .. } = moving;
        self.count(Event::Copied, order.pages());
        self.machine().mem().copy(head, new, order);
        let moves = self.end_move(moving, Some(new));
        if moves {
            let last = self.with_account(head, order, |account, book, meter| {
                account.sub(book, &Owner::PLAIN, moving.units, meter)
            });
            debug_assert!(last, "{head:?} has references and was moved");
        }
        self.drop_moved(moving);
        moves
    }
    /// Leaves the folio where it is.
    pub(crate) fn stay(&self, moving: &Moving) {
        self.end_move(moving, None);
        self.drop_moved(moving);
    }
    /// Its slots may go from now on.
    fn drop_moved(&self, moving: &Moving) {
        self.sub_plain(moving.slots.head, moving.slots.order);
        self.free_unnamed(&moving.slots);
    }
    /// The folio is at `new` from now on, if that is said and nobody has used it meanwhile; returns
    /// whether it is.
    fn end_move(&self, moving: &Moving, new: Option<Pfn>) -> bool {
        let mut lots = self.swap.resident.lock();
        let still = |unit: Unit| match self.place(unit) {
            Place::Storing(_, time) => time == moving.time,
            _ => false,
        };
        let unused = self.units_of(moving).all(|(_, unit)| still(unit));
        let new = new.filter(|_| unused || mutant::on(Mutant::MoveUnlooked));
        if let Some(new) = new {
            self.begin_moved(moving, new);
        }
        let at = new.unwrap_or(moving.head);
        for (n, unit) in self.units_of(moving) {
            if new.is_some() || still(unit) {
                self.set_place(unit, Place::Here(at + (unit.first - moving.first)));
                lots.set(unit.first, moving.may_be_stored >> n & 1 != 0);
            }
        }
        new.is_some()
    }
    /// Makes the frames the folio, and what they were copied from a former one.
    fn begin_moved(&self, moving: &Moving, new: Pfn) {
        let (frames, &Moving { head, order, .. }) = (self.frames(), moving);
        let index = frames.get(head).anon().index();
        if order != Order(0) {
            self.large_folio_ends(head, order);
            self.count_folios(order, Stat::NrAnon, 1);
        }
        self.account().forget_pages(&frames.book(head, order));
        let whole = Unit {
            first: moving.first,
            order,
        };
        self.begin_in_slots(new, whole);
        frames.get(new).anon().change_index(index);
        self.with_account(new, order, |account, book, meter| {
            account.add(book, &Owner::PLAIN, moving.units - 1, meter)
        });
    }
}

/// The frames of a pageblock that is to be emptied.
impl<M: Machine> Mm<M> {
    /// Takes frames for single pages, as many as are to be moved at once, of the fullest
    /// pageblocks.
    pub(crate) fn pages_to_fill(&self, zone: &Zone) -> Pages {
        let (mut pages, cpu) = (Pages::new(), self.machine().cpu().id());
        let most = pages.capacity() as u64;
        (self.allocator()).fill_up(cpu, zone, most, &mut |page| pages.push(page));
        for page in &pages {
            self.check_poison(*page, Order(0));
        }
        pages
    }
    /// Makes one of them an object's, with one reference.
    pub(crate) fn begin_page_of_object(&self, page: Pfn) {
        let cpu = self.machine().cpu().id();
        self.allocator()
            .make_other(cpu, page, Order(0), Kind::Anon, Kind::Object);
    }
    /// Takes a block of frames for a large folio.
    pub(crate) fn block_to_fill(&self, zone: &Zone, order: Order) -> Option<Pfn> {
        let cpu = self.machine().cpu().id();
        let block = self.allocator().fill_up_with(cpu, zone, order)?;
        Some(self.check_poison(block, order))
    }
    /// Gives frames back that nobody else has.
    pub(crate) fn unused_frames(&self, frames: &[Pfn]) {
        for page in frames {
            self.frames().get(*page).put_ref();
        }
        self.free(frames);
    }
    /// Whether a block of this order may come of pageblocks that are emptied: memory is not tight,
    /// and the last time was not in vain, or frames were freed since.
    pub fn may_compact(&self, order: Order) -> bool {
        let allocator = self.allocator();
        let has_room = || allocator.zones().iter().any(Zone::may_compact);
        (1..=PAGEBLOCK.0).contains(&order.0)
            && !allocator.is_tight()
            && has_room()
            && allocator.freed() >= self.compacts_at.load(Ordering::Relaxed)
    }
    /// Has memory compacted for a folio of this order that is not waited for.
    pub(crate) fn compact_later(&self, order: Order) {
        if self.may_compact(order) {
            // Relaxed: the machine comes back to it.
            self.wants_compaction.store(true, Ordering::Relaxed);
            self.machine().memory_is_tight();
        }
    }
    /// Whether memory is to be compacted; asked once for each time.
    pub fn wants_compaction(&self) -> bool {
        self.wants_compaction.load(Ordering::Relaxed)
            && self.wants_compaction.swap(false, Ordering::Relaxed)
    }
    /// Notes whether there was a block after compaction.
    pub(crate) fn note_compacted(&self, found: bool) {
        let next = match found {
            true => 0,
            false => self.allocator().freed() + DEFERRED_FOR,
        };
        if !found {
            self.allocator().zones().iter().for_each(Zone::forget_stays);
        }
        // Relaxed: a hint.
        self.compacts_at.store(next, Ordering::Relaxed);
    }
    /// Holds what is free of a pageblock, too ([`crate::frame::Allocator::hold_free`]).
    pub(crate) fn hold_free(&self, zone: &Zone, held: &mut Held) {
        self.allocator()
            .hold_free(self.machine().cpu().id(), zone, held);
    }
    /// Holds those that a folio of this kind had which was moved: nobody has a reference to them.
    pub(crate) fn hold_moved(&self, held: &mut Held, head: Pfn, kind: Kind, order: Order) {
        self.poison(&[head]);
        let cpu = self.machine().cpu().id();
        self.allocator().hold_used(cpu, held, head, kind, order);
    }
    /// Gives all of them back.
    pub(crate) fn let_go(&self, held: &Held) {
        self.allocator().let_go(self.machine().cpu().id(), held);
    }
}
