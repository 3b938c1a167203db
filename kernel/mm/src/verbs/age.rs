//! Aging: private pages that a space has not used lately are parked in swap slots, those of objects
//! are unmapped, and what nobody else maps is stored.

use crate::addr::{Order, VirtAddr, VirtRange};
use crate::arch::{Machine, PteFormat};
use crate::frame::slots::{UNIT, Which};
use crate::manager::{Mm, Result};
use crate::space::{AddressSpace, Inner, Locked};
use crate::stat::Event;
use crate::switch::SwapIn;
use crate::table::{Budget, Parked, Zap};
use crate::thp::Stat;
use crate::vma::{Backing, Slot};
use core::cmp::Ordering::{Equal, Greater, Less};

/// How often all spaces are looked at for pages that are not used: those that were become cold by
/// the first look, and are parked by the second.
const LOOKS: u32 = 2;
/// And then for pages that are. Each of them parks up to twice as many as the one before, so that
/// the last ones reach all of each space; what others take back meanwhile prolongs nothing.
const LAST_LOOKS: u32 = 12;

/// In how many steps cold pages of objects are looked for before those of spaces.
const OBJECT_STEPS: u32 = 32;

impl<M: Machine> Mm<M> {
    /// Stores cold pages, `want` of them if there are as many, and if there are none, pages that
    /// are in use; returns how many were. In steps: the caller holds no lock.
    pub fn reclaim(&self, want: u64) -> u64 {
        // Who lacks memory precedes who turns swap off.
        self.end_leaving(true);
        self.reclaim_by(want, LOOKS + LAST_LOOKS)
    }
    /// [`Self::reclaim`] of none but cold ones.
    pub fn reclaim_cold(&self, want: u64) -> u64 {
        self.reclaim_by(want, LOOKS)
    }

    fn reclaim_by(&self, want: u64, looks: u32) -> u64 {
        if self.slots().total() == 0 {
            return 0;
        }
        let stored = self.store_pages(want);
        let mut round = Round {
            want,
            stored,
            ..Round::default()
        };
        for look in 0..looks {
            round.parked = 0;
            // Before there is no memory at all, what is in use goes, too; and more of each space,
            // until that of what several have is the same.
            let (which, most) = match look < LOOKS {
                true => (Which::Cold, want),
                false => (Which::All, want << (look - LOOKS)),
            };
            // First: what is not even mapped. Most of it may be stored by now, so of what is cold
            // each look is for a part.
            let mut steps = 0;
            self.for_each_object(&mut |object, rest| {
                round.store(self, object.shelve_step(rest, which, want));
                steps += 1;
                round.rest() != 0 && (which == Which::All || steps < OBJECT_STEPS)
            });
            match which {
                Which::Cold => self.age_from_hand(&mut round),
                Which::All | Which::Moved => self.empty_from_hand(most, &mut round),
            }
            round.stored += self.store_pages(round.rest());
            let is_enough = round.rest() == 0 || look + 1 >= LOOKS && round.stored > 0;
            let is_all = which == Which::All && round.parked == 0;
            if is_enough || is_all || self.machine().breathe() {
                break;
            }
        }
        self.count(Event::Reclaimed, round.stored);
        round.stored
    }

    /// Parks what is cold, from the hand on through all families, one after the other, until enough
    /// is stored: between two looks at a page all others are looked at once.
    fn age_from_hand(&self, round: &mut Round) {
        let ((first, from), end) = (self.hands(|hands| hands.space), M::Pte::USER_END);
        for again in [false, true] {
            self.for_each_living(&mut |space| {
                let rest = match (space.key().cmp(&first), again) {
                    (Equal, false) => VirtRange::new(from, end),
                    (Equal, true) => VirtRange::new(VirtAddr(0), from),
                    (Greater, false) | (Less, true) => VirtRange::new(VirtAddr(0), end),
                    (Greater, true) | (Less, false) => return,
                };
                if round.rest() != 0 && space.leads_family() {
                    space.age_family(rest, round);
                }
            });
        }
    }

    /// Parks what is used, too, up to `most` pages of each space from the same address on: what
    /// several of them have is parked in all of them, and is alone then. Else as
    /// [`Self::age_from_hand`].
    fn empty_from_hand(&self, most: u64, round: &mut Round) {
        let (first, from) = self.hands(|hands| hands.space);
        let rest = VirtRange::new(from, M::Pte::USER_END);
        for part in [rest, VirtRange::new(VirtAddr(0), from)] {
            let mut nearest: Option<VirtAddr> = None;
            self.for_each_living(&mut |space| {
                if round.rest() != 0 {
                    let (pages, reached) = space.age(part, most, Which::All);
                    nearest = nearest.into_iter().chain(reached).min();
                    round.store(self, pages);
                }
            });
            if let Some(nearest) = nearest {
                self.hands(|hands| hands.space = (first, nearest));
            }
        }
    }
}

/// What a call is to do and has done, in pages.
#[derive(Default)]
struct Round {
    want: u64,
    stored: u64,
    /// By the last look.
    parked: u64,
    /// Since units were last looked for that can be stored.
    fresh: u64,
}

impl Round {
    /// What is still wanted.
    fn rest(&self) -> u64 {
        self.want.saturating_sub(self.stored)
    }
    /// So many more were parked: stores what it can. Units that others map, too, may be most of
    /// those that are looked at, so first they must be as few as four for each page.
    fn store<M: Machine>(&mut self, mm: &Mm<M>, parked: u64) {
        self.parked += parked;
        self.fresh += parked;
        if self.fresh != 0 && self.fresh * 4 >= mm.resident_units() {
            self.fresh = 0;
            self.stored += mm.store_pages(self.rest());
        }
    }
}

impl<M: Machine> AddressSpace<M> {
    /// Whether it is the first of its family, but for those that end.
    fn leads_family(&self) -> bool {
        let mut leads = true;
        self.for_each_living_relative(&mut |relative| leads &= relative.key() >= self.key());
        leads
    }
    /// Parks what is cold in `rest` of all of the family, by parts in which one has enough: what
    /// several of them have is parked in all of them, and is alone then, before the copies of
    /// tables that this takes are as many as there is memory for.
    fn age_family(&self, mut rest: VirtRange, round: &mut Round) {
        while round.rest() != 0 && !rest.is_empty() {
            let mut part = rest;
            self.for_each_living_relative(&mut |space| {
                if round.rest() != 0 {
                    let (pages, reached) = space.age(part, round.rest(), Which::Cold);
                    part.end = reached.unwrap_or(part.end);
                    round.store(&self.mm, pages);
                }
            });
            rest.start = part.end;
            self.mm
                .hands(|hands| hands.space = (self.key(), rest.start));
        }
    }

    /// Parks private pages in `part`, and unmaps those of objects, until `want` are or all were
    /// looked at. Returns how many, and where it found enough. In steps: the caller holds no lock.
    fn age(&self, part: VirtRange, want: u64, which: Which) -> (u64, Option<VirtAddr>) {
        let (mut parked, mut reached) = (Parked::default(), None);
        // Only an early end of the thread, or no memory for a table, stops it.
        let _ = self.area_by_area(part, |inner, slot, area, budget| {
            let vma = inner.vmas.get(slot);
            // A monitor of shared memory has its marks in the entries.
            let stays = vma.flags.is_locked()
                || vma.flags.is_hugetlb()
                || vma.shared() && vma.flags.has_monitor();
            let has_none = !vma.has_anon && !matches!(vma.backing, Backing::Object { .. });
            if stays || has_none || parked.all() >= want {
                return Ok(None);
            }
            let rest = inner.park(slot, area, budget, which, &mut parked)?;
            if parked.all() >= want {
                reached = Some(rest.unwrap_or(area.end));
            }
            Ok(rest)
        });
        // Else what is hot enough to stay in a TLB would look cold next time.
        if which == Which::Cold {
            self.mm.flush_space(&self.id);
        }
        self.mm.count(Event::Scanned, parked.scanned);
        (parked.all(), reached)
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Parks pages of a part of a VMA within the budget ([`crate::table::Edit::park_some`]) and
    /// adds them to `parked`; returns where the rest begins. A folio for which there are no slots
    /// side by side becomes single pages, for the next look.
    pub(super) fn park(
        &mut self,
        slot: Slot,
        part: VirtRange,
        budget: &mut Budget,
        which: Which,
        parked: &mut Parked,
    ) -> Result<Option<VirtAddr>> {
        let (before, unmapped) = (parked.pages, parked.unmapped);
        let controls = &self.mm().thp().controls;
        let orders = self
            .vmas
            .get(slot)
            .orders(controls, self.space.thp_permit());
        parked.together = orders.contains(UNIT) && self.mm().switches().swap_in() != SwapIn::Page;
        let stopped = self.edit(|edit| edit.park_some(part, budget, which, parked));
        self.rss.swapped += parked.pages - before;
        let zap = Zap {
            object: parked.unmapped - unmapped,
            ..Zap::default()
        };
        let Inner { vmas, rss, .. } = &mut **self;
        rss.sub(vmas.get(slot), &zap);
        if zap.object != 0 && vmas.get(slot).shared() {
            // The entries go that say what was written.
            vmas.get_mut(slot).flags.count_as_written();
        }
        if let Some(leaf) = parked.unplaced.take().and_then(|va| self.root().lookup(va)) {
            let order = self.mm().frames().folio(leaf.pfn).order;
            if order != Order(0) && self.split_around(&leaf) {
                self.mm().count_folios(order, Stat::SwpOutFallback, 1);
            }
        }
        stopped
    }
}
