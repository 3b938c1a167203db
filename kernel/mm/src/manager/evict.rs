//! What is alone in its slots goes to the store, and comes back.
//!
//! ```text
//!         nobody maps it               compressed              an entry is used: frames
//!  Here --------------------> Storing ------------> Stored ----------------------------> Loading
//!   ^                            |  an entry is used                                         |
//!   +----------------------------+<----------------------- decompressed ---------------------+
//! ```
//! Compression and decompression are done outside of every lock. Storing only reads, so that a
//! fault takes the folio back at once and what was made of it is thrown away; who finds that a unit
//! is loading waits. A folio of several units is cut into them before the first is stored, so that
//! each gives its frames back before the next is compressed. Single pages that have the slots of a
//! unit are stored as one while all of them are alone, and come back side by side if they can.

use super::Mm;
use super::store::{Bench, Pieces};
use super::swap::{Lots, Resident, Unit};
use crate::addr::{Order, PAGE_SIZE, Pfn, PhysAddr, Vpn};
use crate::arch::{Machine, PhysMem};
use crate::frame::slots::{IN_PAGES, Kept, Pages, Place, TIMES, TOGETHER, UNIT};
use crate::frame::{Block, Kind};
use crate::mutant::{self, Mutant};
use crate::own::{Account, Meter, Owner, Part};
use crate::stat::Event;
use crate::switch::SwapIn;
use crate::thp::Stat;

impl<M: Machine> Mm<M> {
    /// Stores what is alone in its slots, until `want` pages are or no more is found; returns how
    /// many were. In steps: the caller holds no lock.
    pub fn store_pages(&self, want: u64) -> u64 {
        let mut stored = 0;
        // Each is looked at once.
        let mut left = self.resident_units();
        while stored < want && left > 0 {
            let done = self.swap.store.at_bench(self, |bench| {
                let found = self.begin_to_store(&mut left);
                found.map_or(0, |found| self.store_unit(&found, bench))
            });
            stored += done.unwrap_or(0);
            if done.is_none() || self.machine().breathe() {
                break;
            }
        }
        stored
    }

    /// How many units are in memory and may be stored once they are alone.
    pub(crate) fn resident_units(&self) -> u64 {
        self.swap.resident.lock().count
    }

    /// A unit that is alone, which is being stored from now on; `None`: there is none among the
    /// next [`LOOKED_AT`], or as many as are `left`.
    fn begin_to_store(&self, left: &mut u64) -> Option<Storing> {
        let mut lots = self.swap.resident.lock();
        let largest = match self.switches.swap_in() {
            SwapIn::Page => Order(0),
            SwapIn::Adaptive | SwapIn::Whole => UNIT,
        };
        if self.slots().total() == 0 {
            *left = 0;
        }
        for _ in 0..LOOKED_AT.min(*left) {
            *left -= 1;
            let Some(slot) = lots.next() else {
                *left = 0;
                break;
            };
            let slots = self.frames().folio(slot);
            let mut unit = self.unit(&slots, slot);
            let Place::Here(pfn) = self.place(unit) else {
                unreachable!("the bit of {unit:?} is set");
            };
            let folio = self.frames().folio(pfn);
            let alone = folio.order.pages() / unit.order.pages();
            if self.references(folio.head) != alone && !mutant::on(Mutant::StoreInUse) {
                continue;
            }
            if folio.order > largest {
                self.count_folios(folio.order, Stat::SwpOut, 1);
                let first = Pfn(unit.first.0 - (pfn - folio.head));
                self.cut(&folio, &slots, first, largest, &mut lots);
                unit = self.unit(&slots, slot);
            }
            if self.switches.swap_in() == SwapIn::Adaptive && self.was_sparse(unit) {
                let folio = self.frames().folio(pfn);
                self.cut(&folio, &slots, unit.first, Order(0), &mut lots);
                unit = self.unit(&slots, slot);
            }
            lots.times = (lots.times + 1) % TIMES;
            let (unit, parts) = match self.together(&slots, unit, &lots) {
                Some(whole) => (whole, whole.order.pages()),
                None => (unit, 1),
            };
            for slot in (0..parts).map(|n| unit.first + n) {
                let pfn = Place::of(self.slot(slot).word()).frame();
                let place = Place::Storing(pfn.expect("it is in memory"), lots.times);
                self.slot(slot).set_word(place.word());
                lots.set(slot, false);
            }
            // They stay meanwhile.
            self.add_plain(slots.head, slots.order);
            return Some(Storing {
                unit,
                parts,
                time: lots.times,
            });
        }
        None
    }

    /// The unit of which this page is one, if all of them are stored together. Else none of it is
    /// from now on.
    fn together(&self, slots: &Block, page: Unit, lots: &Lots<'_>) -> Option<Unit> {
        let unit = self.whole_unit(slots, page.first);
        if page.order == unit.order || self.slot(unit.first).used() & TOGETHER == 0 {
            return None;
        }
        let is_alone = |slot| match Place::of(self.slot(slot).word()) {
            Place::Here(pfn) => lots.has(slot) && self.references(pfn) == 1,
            _ => false,
        };
        let all = (0..unit.order.pages()).all(|n| is_alone(unit.first + n));
        if !all {
            self.slot(unit.first).forget(TOGETHER);
        }
        all.then_some(unit)
    }

    /// Makes single pages of a unit that is in memory and whose folio the caller alone maps, the
    /// pages of `mapped` by a bit for each: what is not used of it can be stored then. Returns
    /// its first slot. `None`: others have the folio, too, or it is in no slots.
    pub(crate) fn cut_sparse(&self, folio: &Block, mapped: u32, owner: &Owner) -> Option<Pfn> {
        let frames = self.frames();
        let mut lots = self.swap.resident.lock();
        let first = frames.get(folio.head).anon().slots()?;
        let slots = frames.folio(frames.pfn(first));
        let unit = self.unit(&slots, frames.pfn(first));
        let known = 1 + u64::from(mapped.count_ones());
        if unit.order != folio.order || self.references(folio.head) != known {
            return None;
        }
        self.cut(folio, &slots, unit.first, Order(0), &mut lots);
        for page in (0..u64::from(u32::BITS)).filter(|page| mapped >> page & 1 != 0) {
            self.with_account(folio.head + page, Order(0), |account, book, meter| {
                account.map(book, owner, Part::ptes(0, 1), meter)
            });
        }
        Some(unit.first)
    }

    /// Makes folios of at most order `to`, and their units, of a folio that only its slots from
    /// `first` on have. Of mapped pages the caller enters the mappings anew.
    fn cut(&self, folio: &Block, slots: &Block, first: Pfn, to: Order, lots: &mut Resident) {
        let (frames, Block { head, order, .. }) = (self.frames(), *folio);
        self.large_folio_ends(head, order);
        self.account().forget_pages(&frames.book(head, order));
        self.count_folios(order, Stat::Split, 1);
        frames.split(head, order, to);
        if to == Order(0) {
            self.set_used(first, order, IN_PAGES);
        }
        for unit in self.units_at(*slots, first, order.pages()) {
            let pfn = head + (unit.first - first);
            self.begin_in_slots(pfn, unit);
            self.set_place(unit, Place::Here(pfn));
            lots.set(unit.first, true);
            if unit.order != Order(0) {
                self.count_folios(unit.order, Stat::NrAnon, 1);
            }
        }
    }
    /// Makes a folio, which only the caller can reach, that of a unit.
    pub(super) fn begin_in_slots(&self, head: Pfn, unit: Unit) {
        let (frames, mut meter) = (self.frames(), Meter::default());
        frames.get(head).set(Kind::Anon, unit.order);
        let meta = frames.get(head).anon();
        meta.set_index(Vpn(0));
        meta.set_slots(Some(frames.index(unit.first)));
        let book = frames.book(head, unit.order);
        self.account()
            .begin(&book, &Owner::PLAIN, Part::nothing(1), &mut meter);
        self.metered(meter);
    }

    /// Stores the unit, unless a fault takes some of it back; returns how many pages were.
    fn store_unit(&self, storing: &Storing, bench: &mut Bench) -> u64 {
        let Storing { unit, parts, .. } = *storing;
        let bytes = unit.order.bytes();
        // What was used meanwhile may be missing.
        for (n, part) in (0..).zip(bench.plain(bytes).chunks_mut((bytes / parts) as usize)) {
            if let Some(pfn) = self.still(storing, n) {
                self.machine().mem().read(pfn.start(), part);
            }
        }
        let packed = bench.pack(bytes);
        // Else not again until it was used.
        let is_worth_it = packed.is_some();
        let kept = packed.and_then(|packed| self.swap.store.put(self, &packed, bytes));
        let mut lots = self.swap.resident.lock();
        let mut frames = Pages::new();
        frames.extend((0..parts).filter_map(|n| self.still(storing, n)));
        let all = frames.len() as u64 == parts || mutant::on(Mutant::StoreUnlooked);
        let stored = match kept {
            Some((kept, pieces)) if all => {
                self.keep(unit, kept, &pieces);
                true
            }
            kept => {
                for n in 0..parts {
                    if let Some(pfn) = self.still(storing, n) {
                        let slot = unit.first + n;
                        self.slot(slot).set_word(Place::Here(pfn).word());
                        lots.set(slot, is_worth_it || parts > 1);
                    }
                }
                if !is_worth_it {
                    // Some pages may be, by themselves.
                    self.slot(unit.first).forget(TOGETHER);
                }
                if let Some((kept, pieces)) = kept {
                    self.swap.store.drop(self, &pieces, kept.len, bytes);
                }
                false
            }
        };
        drop(lots);
        if stored {
            for pfn in &frames {
                let last = self.sub_plain(*pfn, self.frames().folio(*pfn).order);
                debug_assert!(last, "{pfn:?} has references and was stored");
            }
            self.free(&frames);
            self.count(Event::SwapOut, unit.order.pages());
            if parts == 1 && unit.order == self.frames().folio(unit.first).order {
                self.count_folios(unit.order, Stat::SwpOut, 1);
            }
        }
        let slots = self.frames().folio(unit.first);
        self.sub_plain(slots.head, slots.order);
        self.free_unnamed(&slots);
        if stored { unit.order.pages() } else { 0 }
    }

    /// The frame of the `n`-th part of what is being stored, unless somebody has used it.
    fn still(&self, storing: &Storing, n: u64) -> Option<Pfn> {
        match Place::of(self.slot(storing.unit.first + n).word()) {
            Place::Storing(pfn, time) if time == storing.time => Some(pfn),
            _ => None,
        }
    }
    fn keep(&self, unit: Unit, kept: Kept, pieces: &Pieces) {
        if unit.order != Order(0) {
            self.slot(unit.first).forget(IN_PAGES | TOGETHER);
        }
        self.set_place(unit, Place::Stored(kept));
        for (i, at) in (0..).zip(pieces).skip(1) {
            self.slot(unit.first + i).set_word(at.0);
        }
    }
    /// The pieces of a unit that is stored.
    pub(super) fn pieces(&self, unit: Unit, kept: Kept) -> Pieces {
        let n = kept.len.div_ceil(PAGE_SIZE as usize) as u64;
        let mut pieces = Pieces::new();
        for i in 0..n {
            pieces.push(match i {
                0 => kept.first,
                i => PhysAddr(self.slot(unit.first + i).word()),
            });
        }
        pieces
    }
    /// Drops what is stored of a unit.
    pub(super) fn drop_kept(&self, unit: Unit, kept: Kept) {
        let pieces = self.pieces(unit, kept);
        self.swap
            .store
            .drop(self, &pieces, kept.len, unit.order.bytes());
    }
}

/// How many units are looked at under the lock of all slots.
const LOOKED_AT: u64 = 64;

/// What is being stored: a unit, in one part or by the page, and at what time it was begun.
struct Storing {
    unit: Unit,
    parts: u64,
    time: u32,
}
