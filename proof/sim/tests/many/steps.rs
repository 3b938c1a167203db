//! What one CPU does.

use crate::bench::{AREA, Area, Bench, Life, OBJECT, SPACES, TAG, THREAD};
use crate::common::{FIXED, RW, anon, sizes};
use arch_sim::Sim;
use mm::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::fault::{Access, Pin, Resolution};
use mm::thp::CollapseLimits;
use mm::vma::Prot;
use mm::{Advice, Error, Place};
use std::collections::HashMap;

/// Pins of pipes that a CPU holds at a time.
const PINS: usize = 4;

/// A page that is never unmapped: of a life, or of the object in all.
type Kept = (Option<u32>, u64);

/// A CPU, and what it knows.
pub struct Player<'b, F: PteFormat> {
    bench: &'b Bench<F>,
    cpu: usize,
    random: u64,
    /// What it wrote last to its byte of a page.
    wrote: HashMap<Kept, u8>,
    pins: Vec<Pin<Sim<F>>>,
}

impl<'b, F: PteFormat> Player<'b, F> {
    pub fn new(bench: &'b Bench<F>, cpu: usize, seed: u64) -> Self {
        let random = (seed << 8 | cpu as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Player {
            bench,
            cpu,
            random,
            wrote: HashMap::new(),
            pins: Vec::new(),
        }
    }

    /// A number below `n` (xorshift64*).
    fn below(&mut self, n: u64) -> u64 {
        let mut x = self.random;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
    /// A page of an area of so many, mostly one that others use, too.
    fn page(&mut self, pages: u64) -> u64 {
        match self.below(4) {
            0 => self.below(pages),
            1 => 12 + self.below(8),
            _ => self.below(4),
        }
    }
    /// A run of pages.
    fn run(&mut self) -> (u64, u64) {
        let first = self.page(AREA);
        let pages = match self.below(4) {
            0 => 1,
            1 => 1 + self.below(40),
            2 => AREA,
            _ => 16,
        };
        match pages {
            AREA => (0, AREA),
            _ => (first, pages.min(AREA - first)),
        }
    }
    fn moving(&mut self) -> Area {
        Area::Moving(self.below(Area::PLACES))
    }
    fn private(&mut self) -> Area {
        match self.below(2) {
            0 => Area::Kept,
            _ => self.moving(),
        }
    }

    /// One step in some space.
    pub fn step(&mut self) {
        self.bench.world.mm.answer();
        let place = self.below(SPACES as u64) as usize;
        let Some(life) = self.bench.life(place) else {
            return;
        };
        match self.below(100) {
            0..20 => self.write(&life),
            20..36 => self.read(&life),
            36..38 => self.page_out(&life),
            38..39 => self.bench.world.mm.reclaim(32),
            39..40 => self.compact(),
            40..48 => self.write_kept(&life),
            48..56 => self.read_kept(&life),
            56..60 => self.fork(&life),
            60..61 => self.exit(&life),
            61..67 => self.unmap(&life),
            67..72 => self.map(&life),
            72..78 => self.protect(&life),
            78..82 => self.remap(&life),
            82..86 => self.dont_need(&life),
            86..89 => self.collapse(&life),
            89..92 => self.split(&life),
            92..95 => self.pin(&life),
            95..97 => self.populate(&life),
            97..98 => self.bench.world.mm.drain_pcp(),
            98..99 => self.sizes(),
            _ => self.look(&life),
        };
        drop(life);
    }

    /// Other folios from now on, for all.
    fn sizes(&mut self) -> u64 {
        let orders: [&[u8]; 5] = [&[], &[2, 4], &[9], &[2, 3, 4], &[4, 9]];
        sizes(&self.bench.world, orders[self.below(5) as usize]);
        0
    }

    fn store(&self, life: &Life<F>, at: VirtAddr, value: u8) -> bool {
        let result = match value & 3 {
            // By the kernel, as read(2) does.
            0 => (life.space.write(at, &[value], false) == 1)
                .then_some(())
                .ok_or(Resolution::NoMem),
            _ => self.bench.world.store(self.cpu, &life.space, at, value),
        };
        result.is_ok()
    }
    fn load(&self, life: &Life<F>, at: VirtAddr) -> Option<u8> {
        self.bench.world.load(self.cpu, &life.space, at).ok()
    }

    /// Marks a page as the space's.
    fn write(&mut self, life: &Life<F>) -> u64 {
        let (area, n) = (self.private(), self.page(AREA));
        let at = area.page(n);
        self.store(life, at + TAG, area.tag(n));
        self.store(life, at + life.place as u64, life.value());
        0
    }
    /// Looks for what no space may have written there.
    fn read(&mut self, life: &Life<F>) -> u64 {
        let (area, n) = (self.private(), self.page(AREA));
        let at = area.page(n);
        if let Some(tag) = self.load(life, at + TAG) {
            assert!(
                tag == 0 || tag == area.tag(n),
                "page {n} of {area:?} has tag {tag}, not {}",
                area.tag(n)
            );
        }
        let place = self.below(SPACES as u64) as usize;
        if let Some(value) = self.load(life, at + place as u64) {
            assert!(
                life.may_find(place, value),
                "page {n} of {area:?} of life {} has {value}, written by a space in place {place}",
                life.number
            );
        }
        0
    }

    /// A page that is never unmapped, and the address of this CPU's byte.
    fn kept(&mut self, life: &Life<F>) -> (Kept, VirtAddr) {
        let (area, of, n) = match self.below(3) {
            0 => (Area::Object, None, self.below(OBJECT)),
            _ => (Area::Kept, Some(life.number), self.page(AREA)),
        };
        ((of, n), area.page(n) + THREAD + self.cpu as u64)
    }
    fn write_kept(&mut self, life: &Life<F>) -> u64 {
        let (kept, at) = self.kept(life);
        let value = 1 + self.below(255) as u8;
        if self.store(life, at, value) {
            self.wrote.insert(kept, value);
        }
        0
    }
    fn read_kept(&mut self, life: &Life<F>) -> u64 {
        let (kept, at) = self.kept(life);
        if let (Some(wrote), Some(value)) = (self.wrote.get(&kept), self.load(life, at)) {
            assert_eq!(value, *wrote, "a write to {at:?} of {kept:?} is lost");
        }
        0
    }

    fn fork(&mut self, life: &Life<F>) -> u64 {
        let place = self.below(SPACES as u64) as usize;
        if place != life.place {
            self.bench.begin(place, Some(life));
        }
        0
    }
    fn exit(&mut self, life: &Life<F>) -> u64 {
        self.bench.begin(life.place, None);
        0
    }

    /// Empties pageblocks.
    fn compact(&self) -> u64 {
        self.bench.world.mm.compact_all();
        0
    }
    fn page_out(&mut self, life: &Life<F>) -> u64 {
        let (area, (first, pages)) = (self.private(), self.run());
        may_fail(
            life.space
                .advise(area.page(first), pages * PAGE_SIZE, Advice::PageOut),
        );
        0
    }

    fn unmap(&mut self, life: &Life<F>) -> u64 {
        let (area, (first, pages)) = (self.moving(), self.run());
        may_fail(life.space.unmap(area.page(first), pages * PAGE_SIZE));
        0
    }
    fn map(&mut self, life: &Life<F>) -> u64 {
        let (area, (first, pages)) = (self.moving(), self.run());
        may_fail(
            life.space
                .map(anon(Place::Fixed(area.page(first)), pages, RW)),
        );
        0
    }
    fn protect(&mut self, life: &Life<F>) -> u64 {
        let (area, (first, pages)) = (self.private(), self.run());
        let prot = match self.below(5) {
            0 => Prot::empty(),
            1 => Prot::READ,
            _ => RW,
        };
        may_fail(
            life.space
                .protect(area.page(first), pages * PAGE_SIZE, prot),
        );
        0
    }
    /// To the same pages of another place.
    fn remap(&mut self, life: &Life<F>) -> u64 {
        let (from, to, (first, pages)) = (self.moving(), self.moving(), self.run());
        let len = pages * PAGE_SIZE;
        if from != to {
            let to = to.page(first);
            may_fail(life.space.remap(
                from.page(first),
                len,
                len,
                FIXED,
                to,
                &mut Default::default(),
            ));
        }
        0
    }
    fn dont_need(&mut self, life: &Life<F>) -> u64 {
        let (area, (first, pages)) = (self.moving(), self.run());
        let (at, len) = (area.page(first), pages * PAGE_SIZE);
        may_fail(life.space.advise(at, len, Advice::DontNeed));
        0
    }
    fn collapse(&mut self, life: &Life<F>) -> u64 {
        let area = self.private();
        match self.below(2) {
            0 => may_fail(
                life.space
                    .advise(area.page(0), AREA * PAGE_SIZE, Advice::Collapse),
            ),
            _ => drop(life.space.collapse(area.page(0), CollapseLimits::ANY)),
        }
        0
    }
    fn split(&mut self, life: &Life<F>) -> u64 {
        let area = self.private();
        match self.below(2) {
            0 => life.space.split_deferred(),
            _ => {
                let range = VirtRange::new(area.page(0), area.page(AREA));
                let largest = Order(self.below(5) as u8);
                life.space.split_range(range, largest).0
            }
        }
    }
    /// A pin of a pipe that is held for a while, or one of a device, which writes.
    fn pin(&mut self, life: &Life<F>) -> u64 {
        if self.below(2) == 0 {
            let area = self.private();
            let n = self.page(AREA);
            self.pins.extend(life.space.pin(area.page(n)));
            if self.pins.len() > PINS {
                drop(self.pins.remove(0));
            }
            return 0;
        }
        let (n, value) = (self.page(AREA), 1 + self.below(255) as u8);
        let at = Area::Kept.page(n);
        if let Ok(pin) = life.space.pin_long_term(at, Access::Write) {
            let byte = THREAD + self.cpu as u64;
            pin.write(byte as usize, &[value]);
            self.wrote.insert((Some(life.number), n), value);
            if let Some(found) = self.load(life, at + byte) {
                assert_eq!(found, value, "the device wrote it to {at:?}");
            }
        }
        0
    }
    fn populate(&mut self, life: &Life<F>) -> u64 {
        let (area, (first, pages)) = (self.private(), self.run());
        let advice = match self.below(2) {
            0 => Advice::PopulateRead,
            _ => Advice::PopulateWrite,
        };
        let (at, len) = (area.page(first), pages * PAGE_SIZE);
        may_fail(life.space.advise(at, len, advice));
        0
    }
    /// Reads what /proc shows.
    fn look(&mut self, life: &Life<F>) -> u64 {
        let area = self.private();
        let n = self.page(AREA);
        let (space, mm) = (&life.space, &self.bench.world.mm);
        let info = space.page_info(area.page(n));
        space.usage();
        space.smaps(area.page(0));
        let frames = mm.frames().span();
        let any = frames.start + self.below(frames.end - frames.start);
        for pfn in [Pfn(info.pfn).clamp(frames.start, any), any] {
            mm.frame_info(pfn);
            mm.owner(mm.frame_info(pfn).map_or(pfn, |info| info.block.head));
            space.address_of(pfn);
        }
        mm.counts().free
    }
}

/// A verb may fail for lack of memory, or because another CPU has unmapped its range.
fn may_fail<T>(result: Result<T, Error>) {
    let why = result.err();
    assert_ne!(why, Some(Error::Interrupted), "nothing ends the thread");
}
