//! Which folios are in which slots ([`crate::frame::slots`]).
//!
//! ```text
//!  space A: 16 PTEs -> folio F                16 swap entries -> slots S -> folio F
//!  space B: 16 PTEs -> folio F    A parks     16 PTEs -------------------> folio F
//!  references of F: 32           -------->    of F: B's 16, and 1 of S;  of S: A's 16, and 1
//! ```
//! A folio has at most one block of slots, and each unit of slots that is in memory lies in one
//! folio. When nothing but its units has references to a folio, nobody maps it, and nobody can
//! reach it but through the lock of all slots: then its bytes may be stored ([`super::evict`]).
//! Slots are freed with their last name. Whoever has entries that name them keeps them, and
//! thereby what is in them.

use super::Mm;
use super::spaces::SpaceKey;
use super::store::{Figures, Store};
use crate::addr::{Order, Pfn, PfnRange, VirtAddr};
use crate::arch::Machine;
use crate::frame::meta::Slot;
use crate::frame::slots::{IN_PAGES, Place, Slots, TOGETHER, UNIT, is_sparse};
use crate::frame::{Block, FrameTable, Kind};
use crate::mutant::{self, Mutant};
use crate::own::{Account, Meter, Owner, Part};
use crate::switch::SwapIn;
use crate::sync::{AtomicU64, Guard, Lock, Ordering, rank};
use alloc::boxed::Box;

/// The slots, where their contents are, and the store.
pub(super) struct Swap {
    free: Slots,
    pub resident: Lock<Resident, { rank::SLOTS }>,
    pub store: Store,
    /// While swap is turned off, how many slots may be used again if that is given up; else 0.
    leaving: AtomicU64,
}

/// The units that are in memory and may be stored: a bit for the first slot of each. The lock
/// around it is that of all slots.
pub(super) struct Resident {
    slots: PfnRange,
    bits: Box<[u64]>,
    /// How many there are.
    pub count: u64,
    /// Where the search goes on.
    hand: Pfn,
    /// How often something was begun to be stored.
    pub times: u32,
    hands: Hands,
}

/// Where reclaim goes on. What is named may have gone.
#[derive(Default)]
pub(crate) struct Hands {
    /// Aging: the space, and the address.
    pub space: (SpaceKey, VirtAddr),
    /// The object by its number, and the index.
    pub object: (u64, u64),
}

/// The lock of all slots.
pub(super) type Lots<'a> = Guard<'a, Resident, { rank::SLOTS }>;

impl Resident {
    fn at(&mut self, slot: Pfn) -> (&mut u64, u64) {
        let n = slot - self.slots.start;
        (&mut self.bits[n as usize / 64], 1 << (n % 64))
    }
    pub fn has(&self, slot: Pfn) -> bool {
        let n = slot - self.slots.start;
        self.bits[n as usize / 64] >> (n % 64) & 1 != 0
    }
    pub fn set(&mut self, slot: Pfn, on: bool) {
        let (word, bit) = self.at(slot);
        let was_on = *word & bit != 0;
        *word = if on { *word | bit } else { *word & !bit };
        self.count = self.count + u64::from(on) - u64::from(was_on);
    }
    /// The next one behind the hand, which moves there.
    pub fn next(&mut self) -> Option<Pfn> {
        let from = (self.hand - self.slots.start) as usize;
        let words = self.bits.len();
        // The rest of the first word, the others, and the first once more.
        let found = (0..=words).find_map(|i| {
            let word = (from / 64 + i) % words;
            let bits = match i {
                0 => self.bits[word] & (!0 << (from % 64)),
                _ => self.bits[word],
            };
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        })?;
        let next = self.slots.start + found as u64;
        self.hand = match next + 1 {
            end if end == self.slots.end => self.slots.start,
            next => next,
        };
        Some(next)
    }
}

/// A part of a block of slots that is in one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    /// Its first slot.
    pub first: Pfn,
    /// log2 of its slots.
    pub order: Order,
}

impl Swap {
    /// So many of the table's slots are for swap.
    pub(super) fn new(table: &FrameTable, swap: u64, cpus: usize) -> Self {
        let slots = table.slots();
        let words = slots.len().div_ceil(64) as usize;
        let resident = Resident {
            slots,
            bits: alloc::vec![0; words].into(),
            count: 0,
            hand: slots.start,
            times: 0,
            hands: Hands::default(),
        };
        Swap {
            free: Slots::new(table, swap),
            resident: Lock::new(resident),
            store: Store::new(if swap == 0 { 0 } else { cpus }),
            leaving: AtomicU64::new(0),
        }
    }
}

impl<M: Machine> Mm<M> {
    /// The swap slots.
    pub fn slots(&self) -> &Slots {
        &self.swap.free
    }
    /// Reads or moves the hands.
    pub(crate) fn hands<R>(&self, f: impl FnOnce(&mut Hands) -> R) -> R {
        f(&mut self.swap.resident.lock().hands)
    }
    /// The figures of the store.
    pub fn stored(&self) -> Figures {
        self.swap.store.figures()
    }
    /// Has the highest figure of the store begin anew.
    pub fn forget_peak(&self) {
        self.swap.store.forget_peak();
    }

    /// Lets `most` slots be used, while none may be, of those that there are.
    pub fn swap_on(&self, most: u64) {
        let _lots = self.swap.resident.lock();
        self.swap.free.allow(most.min(self.swap.free.reserved()));
    }
    /// Lets no more slots be used, until [`Self::end_leaving`].
    pub(crate) fn begin_leaving(&self) {
        let _lots = self.swap.resident.lock();
        let most = self.swap.free.total();
        self.swap.leaving.store(most, Ordering::Relaxed);
        self.swap.free.allow(0);
    }
    /// The slots that are still used have been left; or if it `stays`, they may be used again.
    /// Returns `false` if that was over already.
    pub(crate) fn end_leaving(&self, stays: bool) -> bool {
        let _lots = self.swap.resident.lock();
        let most = self.swap.leaving.swap(0, Ordering::Relaxed);
        if stays && most != 0 {
            self.swap.free.allow(most);
        }
        most != 0
    }

    pub(super) fn slot(&self, slot: Pfn) -> Slot<'_> {
        self.frames().get(slot).slot()
    }
    pub(crate) fn place(&self, unit: Unit) -> Place {
        Place::of(self.slot(unit.first).word())
    }
    pub(super) fn set_place(&self, unit: Unit, place: Place) {
        self.slot(unit.first).set_word(place.word());
    }
    /// The unit that a slot of this block is in.
    pub(super) fn unit(&self, slots: &Block, slot: Pfn) -> Unit {
        let whole = self.whole_unit(slots, slot);
        let in_pages = whole.order != Order(0) && self.slot(whole.first).used() & IN_PAGES != 0;
        match in_pages {
            true => Unit {
                first: slot,
                order: Order(0),
            },
            false => whole,
        }
    }
    /// The same, also if it is in pages.
    pub(super) fn whole_unit(&self, slots: &Block, slot: Pfn) -> Unit {
        let order = slots.order.min(UNIT);
        let first = slots.head + (slot - slots.head) / order.pages() * order.pages();
        Unit { first, order }
    }
    /// Notes of the units of 2^order slots from the first of one on which pages were used.
    pub(super) fn set_used(&self, first: Pfn, order: Order, used: u32) {
        for n in (0..order.pages()).step_by(UNIT.pages() as usize) {
            self.slot(first + n).set_used(used);
        }
    }
    /// Whether some pages of a unit were used since it was parked or came back, and too few.
    pub(super) fn was_sparse(&self, unit: Unit) -> bool {
        let used = self.slot(unit.first).used();
        used != 0 && is_sparse(used, unit.order)
    }
    /// All units of a block, in order.
    pub(crate) fn units(&self, slots: Block) -> impl Iterator<Item = Unit> {
        self.units_at(slots, slots.head, slots.order.pages())
    }
    /// Those of `n` of its slots, the first of which begins one.
    pub(super) fn units_at(&self, slots: Block, first: Pfn, n: u64) -> impl Iterator<Item = Unit> {
        let mut next = first;
        core::iter::from_fn(move || {
            let unit = (next < first + n).then(|| self.unit(&slots, next))?;
            next += unit.order.pages();
            Some(unit)
        })
    }

    /// Whether `pages` come back at once where one of them is asked for: while an eighth of memory
    /// is free besides, unless the switch says what to do.
    pub(crate) fn comes_whole(&self, pages: u64) -> bool {
        match self.switches.swap_in() {
            SwapIn::Page => false,
            SwapIn::Adaptive => {
                let frames = 1 + pages + self.allocator.total / 8;
                let frames = frames.saturating_sub(self.idle_zeros());
                self.allocator.has_free_frames(frames)
            }
            SwapIn::Whole => true,
        }
    }

    /// The slots of a private folio that the caller maps, which has them from now on, with names of
    /// `owner` for a part: it is about to write the entries. The folio is to be stored, or `moves`.
    /// Returns the slot of its first page. `None`: there are no slots.
    pub(crate) fn name_slots(
        &self,
        folio: &Block,
        part: Part,
        owner: &Owner,
        moves: bool,
    ) -> Option<Pfn> {
        let frames = self.frames();
        let meta = frames.get(folio.head).anon();
        let mut lots = self.swap.resident.lock();
        if !moves && self.swap.free.total() == 0 {
            return None;
        }
        if let Some(first) = meta.slots().map(|slots| frames.pfn(slots)) {
            // The folio may be one unit of a larger block.
            let slots = frames.folio(first);
            if moves {
                // The caller may have locked it. It can be stored again once it is mapped again.
                let units = self.units_at(slots, first, folio.order.pages());
                units.for_each(|unit| lots.set(unit.first, false));
            }
            let part = Part {
                first: part.first + (first - slots.head) as u32,
                ..part
            };
            self.with_account(slots.head, slots.order, |account, book, meter| {
                account.map(book, owner, part, meter)
            });
            return Some(first);
        }
        let head = self.swap.free.take(frames, folio.order, moves)?;
        self.with_account(head, folio.order, |account, book, meter| {
            account.begin(book, owner, part, meter);
            account.add(book, &Owner::PLAIN, 1, meter);
        });
        let slots = frames.folio(head);
        let mut units = 0;
        for unit in self.units(slots) {
            self.set_place(unit, Place::Here(folio.head + (unit.first - head)));
            lots.set(unit.first, !moves);
            units += 1;
        }
        if !mutant::on(Mutant::SlotsHoldNothing) {
            self.with_account(folio.head, folio.order, |account, book, meter| {
                account.add(book, &Owner::PLAIN, units, meter)
            });
        }
        meta.set_slots(Some(frames.index(head)));
        Some(head)
    }

    /// Slots side by side for the single pages of a unit, which the caller maps; they are to be
    /// stored together, and to come back as one folio. As [`Self::name_slots`]; `None` also if one
    /// of them has a slot.
    pub(crate) fn name_together(&self, pages: &[Pfn], owner: &Owner) -> Option<Pfn> {
        let (frames, n) = (self.frames(), pages.len() as u32);
        let mut lots = self.swap.resident.lock();
        let have_none = || {
            let mut metas = pages.iter().map(|page| frames.get(*page).anon());
            metas.all(|meta| meta.slots().is_none())
        };
        if self.swap.free.total() == 0 || !have_none() {
            return None;
        }
        let head = self.swap.free.take(frames, UNIT, false)?;
        self.set_used(head, UNIT, IN_PAGES | TOGETHER);
        self.with_account(head, UNIT, |account, book, meter| {
            account.begin(book, owner, Part::ptes(0, n), meter);
            account.add(book, &Owner::PLAIN, 1, meter);
        });
        for (unit, page) in self.units(frames.folio(head)).zip(pages) {
            self.set_place(unit, Place::Here(*page));
            lots.set(unit.first, true);
            self.add_plain(*page, Order(0));
            let meta = frames.get(*page).anon();
            meta.set_slots(Some(frames.index(unit.first)));
        }
        Some(head)
    }

    /// The frame of the page in a slot that an entry of the caller names, unless it is stored.
    pub(crate) fn parked(&self, slot: Pfn) -> Option<Pfn> {
        let _lots = self.swap.resident.lock();
        let unit = self.unit(&self.frames().folio(slot), slot);
        Some(self.place(unit).frame()? + (slot - unit.first))
    }

    /// The frame of the page in a slot that an entry of the caller names, and how many of the `n`
    /// slots from there on lie side by side in its folio; with references of `owner` for them: it
    /// is about to write the entries. `None`: the page is not in memory.
    pub(crate) fn map_slots(&self, slot: Pfn, n: u64, owner: &Owner) -> Option<(Pfn, u64)> {
        let frames = self.frames();
        let mut lots = self.swap.resident.lock();
        let unit = self.unit(&frames.folio(slot), slot);
        let at = self.place(unit).frame()?;
        self.set_place(unit, Place::Here(at));
        lots.set(unit.first, true);
        let pfn = at + (slot - unit.first);
        let folio = frames.folio(pfn);
        let n = n.min(folio.pages_from(pfn) as u64);
        if unit.order != Order(0) {
            let (noted, first) = (self.slot(unit.first), slot - unit.first);
            let pages = n.min(unit.order.pages() - first);
            noted.set_used(noted.used() | ((1 << pages) - 1) << first);
        }
        let part = Part::ptes((pfn - folio.head) as u32, n as u32);
        self.with_account(folio.head, folio.order, |account, book, meter| {
            account.map(book, owner, part, meter)
        });
        Some((pfn, n))
    }

    /// Makes blocks of their units of a block of slots, so that each is free when nothing names it.
    /// The caller has all names of it: of the slots that `named` is true for. Nothing is done if
    /// there are others, or if what is in it is on its way.
    pub(crate) fn cut_slots(&self, head: Pfn, named: &dyn Fn(Pfn) -> bool, owner: &Owner) {
        let frames = self.frames();
        let mut lots = self.swap.resident.lock();
        let slots = frames.folio(head);
        if slots.kind != Kind::Swap {
            return;
        }
        let to = match slots.order > UNIT {
            true => UNIT,
            false => self.unit(&slots, head).order,
        };
        let book = frames.book(head, slots.order);
        if to == slots.order || !self.account().exclusive_but(&book, owner, 1) {
            return;
        }
        let names = |first: Pfn, order: Order| {
            let slots = (0..order.pages()).map(move |n| first + n);
            slots.filter(|slot| named(*slot))
        };
        let known = 1 + names(head, slots.order).count() as u64;
        let mut folios = self
            .units(slots)
            .filter_map(|unit| self.place(unit).frame());
        let of_one_folio = folios.any(|pfn| frames.folio(pfn).order > to);
        if of_one_folio || self.references(head) != known {
            return;
        }
        self.account().forget_pages(&book);
        frames.split(head, slots.order, to);
        for part in (0..slots.order.pages()).step_by(to.pages() as usize) {
            let part = head + part;
            self.with_account(part, to, |account, book, meter| {
                account.begin(book, &Owner::PLAIN, Part::nothing(1), meter);
                let all = names(part, to).filter(|_| !mutant::on(Mutant::CutForgetsNames));
                for slot in all {
                    let page = Part::ptes((slot - part) as u32, 1);
                    account.map(book, owner, page, meter);
                }
            });
            if names(part, to).next().is_none() {
                self.free_block(&frames.folio(part), &mut lots);
            }
        }
    }

    /// Ends names of `n` slots from `first` on, whose entries are gone.
    pub(crate) fn unname_slots(&self, first: Pfn, n: u64, owner: &Owner, meter: &mut Meter) {
        let slots = self.frames().folio(first);
        let book = self.frames().book(slots.head, slots.order);
        let part = Part::ptes((first - slots.head) as u32, n as u32);
        // Never the last: that is the block's own.
        self.account().unmap(&book, owner, part, meter);
        self.free_unnamed(&slots);
    }
    /// Frees a block of slots if nothing names it any more.
    pub(super) fn free_unnamed(&self, slots: &Block) {
        if self.references(slots.head) == 1 {
            self.free_slots(slots.head);
        }
    }

    /// Frees slots that nothing names any more. Several may find that, and one frees them: none can
    /// be named again without the lock, as only what is named is copied or moved.
    #[cold]
    #[inline(never)]
    fn free_slots(&self, head: Pfn) {
        let frames = self.frames();
        let mut lots = self.swap.resident.lock();
        let slots = frames.folio(head);
        if slots.kind == Kind::Swap && slots.head == head && self.references(head) == 1 {
            self.free_block(&slots, &mut lots);
        }
    }
    fn free_block(&self, slots: &Block, lots: &mut Resident) {
        let (frames, Block { head, order, .. }) = (self.frames(), *slots);
        for unit in self.units(*slots) {
            match self.place(unit) {
                Place::Here(pfn) | Place::Storing(pfn, _) => {
                    lots.set(unit.first, false);
                    self.drop_unit(pfn);
                }
                Place::Stored(kept) => self.drop_kept(unit, kept),
                Place::Empty => {}
                Place::Loading(_) => unreachable!("who loads {slots:?} has a reference"),
            }
        }
        self.set_used(head, order, 0);
        let last = self.sub_plain(head, order);
        debug_assert!(last, "slots {slots:?} are named while they are freed");
        self.swap.free.give(frames, head, order);
    }

    /// Drops the reference of a unit of slots to the folio at `pfn`, which has no slots then.
    fn drop_unit(&self, pfn: Pfn) {
        let folio = self.frames().folio(pfn);
        self.frames().get(folio.head).anon().set_slots(None);
        match self.sub_plain(folio.head, folio.order) {
            true => self.free(&[folio.head]),
            false if folio.order != Order(0) => self.defer_split(folio.head),
            false => {}
        }
    }
}
