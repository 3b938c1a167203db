//! Compaction: pageblocks are emptied, so that there are large blocks again. What is in the one
//! with the fewest pages moves to the one that lacks the fewest ([`crate::frame`], `compact`).

use crate::addr::{Order, Pfn, PfnRange};
use crate::arch::Machine;
use crate::folio::Folio;
use crate::frame::Kind;
use crate::frame::compact::{Held, TRIES};
use crate::frame::pageblock::PAGEBLOCK;
use crate::frame::slots::Pages as Frames;
use crate::frame::zone::Zone;
use crate::manager::Mm;
use crate::object::Object;
use crate::reshape::{Folios, Move};
use crate::space::Pages;
use crate::stat::Event;

/// How many pages are moved at once at most: there are slots for two who do so
/// ([`crate::frame::slots::MOVING`]).
const PAGES: u64 = PAGEBLOCK.pages() / 2;

/// A pageblock that is being emptied.
struct Emptied<'a, M: Machine> {
    mm: &'a Mm<M>,
    zone: &'a Zone,
    held: Held,
    /// Frames for what is in it.
    pages: Frames,
    has_pages_of_objects: bool,
}

impl<M: Machine> Mm<M> {
    /// Empties pageblocks until a block of this order is free, of a pageblock at most, that user
    /// memory can have; returns whether there is one. In steps: the caller holds no lock.
    fn compact(&self, order: Order) -> bool {
        let mut tries = 0;
        for zone in self.allocator().zones().iter().rev() {
            while !zone.has_block(order) && tries < TRIES && self.compact_zone(zone) {
                tries += 1;
            }
        }
        self.allocator().has_block(order)
    }
    /// [`Self::compact`] for who lacks a folio of this order, unless it would be in vain: it was,
    /// and little was freed since.
    pub fn compact_for(&self, order: Order) -> bool {
        if !self.may_compact(order) {
            return false;
        }
        let found = self.compact(order);
        self.note_compacted(found);
        let event = match found {
            true => Event::CompactSuccess,
            false => Event::CompactFail,
        };
        self.count_all([(Event::CompactStall, 1), (event, 1)]);
        found
    }
    /// Empties all pageblocks that can be. In steps, as [`Self::compact`].
    pub fn compact_all(&self) {
        for zone in self.allocator().zones() {
            zone.forget_stays();
            while self.compact_zone(zone) {}
        }
    }
    /// Sets the size of a pool of huge pages ([`Self::resize_pool`]), and compacts memory for them.
    /// In steps, as [`Self::compact`].
    pub fn resize_hugetlb(&self, order: Order, pages: u64) {
        loop {
            self.resize_pool(order, pages);
            let is_enough = self.hugetlb(order).total >= pages;
            if is_enough || !self.compact_for(order) {
                return;
            }
        }
    }

    /// Tries to empty one more pageblock; `false`: there is none, or the thread is to end.
    fn compact_zone(&self, zone: &Zone) -> bool {
        let Some(start) = zone.emptiest().filter(|_| zone.may_compact()) else {
            return false;
        };
        let emptied = Emptied {
            mm: self,
            zone,
            held: Held::of(start),
            pages: Frames::new(),
            has_pages_of_objects: false,
        };
        if !emptied.empty() {
            zone.note_stays(start);
        }
        !self.machine().breathe()
    }
}

impl<M: Machine> Emptied<'_, M> {
    /// Moves what is in the pageblock, unless some of it cannot be moved; returns whether all of it
    /// is free then.
    fn empty(mut self) -> bool {
        let (mut next, mut goes) = (0, self.may_all_move());
        if !goes {
            return false;
        }
        self.mm.hold_free(self.zone, &mut self.held);
        while goes && next < PAGEBLOCK.pages() {
            let mut folios = Folios::new();
            next = self.next_folios(next, &mut folios);
            goes = self.mm.move_folios(&mut folios, &mut self);
            goes &= !self.mm.machine().breathe();
        }
        if goes && self.has_pages_of_objects {
            self.move_pages_of_objects();
        }
        // What was freed meanwhile.
        self.mm.hold_free(self.zone, &mut self.held);
        self.mm.let_go(&self.held);
        self.mm.unused_frames(&self.pages);
        self.held.is_whole()
    }

    /// Whether nothing is known in it that cannot be moved.
    fn may_all_move(&mut self) -> bool {
        let (frames, start, mut n) = (self.mm.frames(), self.held.start(), 0);
        while n < PAGEBLOCK.pages() {
            let head = start + n;
            let (kind, order, hugetlb) = frames.get(head).kind_order_hugetlb();
            let goes = match kind {
                Kind::Anon | Kind::Free => !hugetlb && order < PAGEBLOCK,
                Kind::Object => !hugetlb && order == Order(0),
                _ => false,
            };
            self.has_pages_of_objects |= kind == Kind::Object;
            let fails = |page| frames.get(head + page).is_hwpoison();
            if !goes || kind != Kind::Free && (0..order.pages()).any(fails) {
                return false;
            }
            n += order.pages();
        }
        true
    }

    /// Some folios from the `n`-th frame on, and where the rest begins.
    fn next_folios(&self, n: u64, folios: &mut Folios) -> u64 {
        let (mm, held) = (self.mm, &self.held);
        let (mut n, mut pages) = (held.next_other(n), 0);
        while n < PAGEBLOCK.pages() && !folios.is_full() {
            let head = held.start() + n;
            let (kind, order) = mm.frames().get(head).kind_and_order();
            // What is used otherwise by now ends the attempt later.
            if kind == Kind::Anon && order < PAGEBLOCK {
                if pages + order.pages() > PAGES {
                    break;
                }
                pages += order.pages();
                folios.push(mm.folio_to_move(head, order));
            }
            n = held.next_other(n + order.pages());
        }
        mm.count(Event::CompactScanned, pages);
        n
    }
}

impl<M: Machine> Move for Emptied<'_, M> {
    fn frames(&mut self, order: Order) -> Option<Pfn> {
        if order != Order(0) {
            return self.mm.block_to_fill(self.zone, order);
        }
        if self.pages.is_empty() {
            self.pages = self.mm.pages_to_fill(self.zone);
        }
        self.pages.pop()
    }
    fn left(&mut self, head: Pfn, order: Order) {
        self.mm.hold_moved(&mut self.held, head, Kind::Anon, order);
    }
}

impl<M: Machine> Emptied<'_, M> {
    /// Moves pages of objects, whoever maps them: all objects are looked through for them.
    fn move_pages_of_objects(&mut self) {
        let start = self.held.start();
        let block = PfnRange::new(start, start + PAGEBLOCK.pages());
        let mut goes = true;
        self.mm.for_each_object(&mut |object, rest| {
            match object.next_in(&block, rest) {
                _ if !goes => rest.start = rest.end,
                Some((index, frame)) => goes = self.move_page(object, index, frame),
                None => {}
            }
            true
        });
    }
    /// Moves a page of an object, which nobody maps then; `false`: it is pinned, or no frame is
    /// left.
    fn move_page(&mut self, object: &Object<M>, index: u64, frame: Pfn) -> bool {
        let (Some(object), Some(to)) = (object.to_keep(), self.frames(Order(0))) else {
            return false;
        };
        let gone = Pages::around(&object, index);
        object.for_each_mapper(&mut |space| space.zap(&gone));
        self.mm.begin_page_of_object(to);
        let moved = object.migrate_to(index, frame, Folio::from_pfn(to));
        let (event, goes) = match moved {
            Ok(old) => {
                self.mm.frames().get(old.into_pfn()).put_ref();
                self.mm
                    .hold_moved(&mut self.held, frame, Kind::Object, Order(0));
                (Event::Migrated, true)
            }
            Err(unused) => {
                unused.free(self.mm);
                (Event::MigrateFailed, false)
            }
        };
        self.mm.count(event, 1);
        goes
    }
}
