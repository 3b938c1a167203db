//! The address spaces that CPUs play with, and what each byte of a page may be.
//!
//! | byte | written by | may be |
//! |---|---|---|
//! | `0..SPACES` | a space, to the byte of its place: the number of its life | 0, or what the spaces that it descends from wrote |
//! | [`TAG`] | every writer | 0, or the tag of the page |
//! | from [`THREAD`] on | a thread, to the byte of its CPU | in pages that nothing takes away: what it wrote last |

use crate::common::{RW, Space, map, of_object, page};
use crate::meeting::Meeting;
use crate::steps::Player;
use arch_sim::{Sim, World};
use mm::Handle;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::object::Object;
use mm::vma::VmaFlags;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Address spaces.
pub const SPACES: usize = 6;
/// The byte of the page's tag.
pub const TAG: u64 = 8;
/// The byte of CPU 0.
pub const THREAD: u64 = 64;
/// Pages of an area: a PMD entry's.
pub const AREA: u64 = 512;
/// Pages of the object.
pub const OBJECT: u64 = 32;

/// What an address is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area {
    /// Private memory that is never unmapped.
    Kept,
    /// Private memory that comes and goes, and moves from one of these places to another.
    Moving(u64),
    /// The object's pages.
    Object,
}

impl Area {
    pub const PLACES: u64 = 3;

    /// The address of page `n` of the area.
    pub fn page(self, n: u64) -> VirtAddr {
        let first = match self {
            Area::Kept => 0,
            Area::Moving(place) => AREA * (1 + place),
            Area::Object => AREA * (1 + Self::PLACES),
        };
        page(first + n)
    }
    /// The tag of page `n`.
    pub fn tag(self, n: u64) -> u8 {
        match self {
            Area::Kept => 1 + (n % 85) as u8,
            Area::Moving(_) => 86 + (n % 85) as u8,
            Area::Object => 171 + (n % 85) as u8,
        }
    }
}

/// Values of a byte.
type Values = [bool; 256];

/// A life of an address space.
pub struct Life<F: PteFormat> {
    pub space: Handle<Sim<F>>,
    /// Its place among the spaces, and number of the byte that it writes.
    pub place: usize,
    /// No other life has the number.
    pub number: u32,
    /// What it may find in the bytes of the spaces.
    may: Box<[Values; SPACES]>,
}

impl<F: PteFormat> Life<F> {
    fn new(space: Handle<Sim<F>>, place: usize, number: u32, parent: Option<&Life<F>>) -> Self {
        let mut may = parent.map_or_else(|| Box::new([[false; 256]; SPACES]), |p| p.may.clone());
        may.iter_mut().for_each(|values| values[0] = true);
        let mut life = Life {
            space,
            place,
            number,
            may,
        };
        life.may[place][life.value() as usize] = true;
        life
    }
    /// What it writes.
    pub fn value(&self) -> u8 {
        1 + (self.number % 255) as u8
    }
    pub fn may_find(&self, place: usize, value: u8) -> bool {
        self.may[place][value as usize]
    }
}

/// The state that the CPUs share.
pub struct Bench<F: PteFormat> {
    pub world: World<F>,
    pub object: Arc<Object<Sim<F>>>,
    pub meeting: Meeting,
    lives: Vec<Mutex<Option<Arc<Life<F>>>>>,
    number: AtomicU32,
}

impl<F: PteFormat> Bench<F> {
    pub fn new(world: World<F>) -> Self {
        let object = Object::new(&world.mm);
        object.set_len(OBJECT * PAGE_SIZE);
        let bench = Bench {
            object,
            meeting: Meeting::new(world.sim.options().cpus),
            lives: (0..SPACES).map(|_| Mutex::new(None)).collect(),
            number: AtomicU32::new(0),
            world,
        };
        (0..SPACES).for_each(|place| bench.begin(place, None));
        bench
    }
    pub fn player(&self, cpu: usize, seed: u64) -> Player<'_, F> {
        Player::new(self, cpu, seed)
    }

    /// A user of the space in a place.
    pub fn life(&self, place: usize) -> Option<Arc<Life<F>>> {
        let life = self.lives[place].lock();
        life.unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Puts a space into a place: a fork of `parent`, or a new one. What was there ends with its
    /// last user.
    pub fn begin(&self, place: usize, parent: Option<&Life<F>>) {
        let space = match parent {
            Some(parent) => parent.space.fork(),
            None => Handle::new(&self.world.mm),
        };
        let Ok(space) = space else { return };
        if parent.is_none() {
            self.map_all(&space);
        }
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        // In the others a fault waits for those of other CPUs.
        if !number.is_multiple_of(4) && space.share().is_err() {
            return;
        }
        let life = Arc::new(Life::new(space, place, number, parent));
        let old = self.lives[place]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(life);
        old.into_iter().for_each(drop);
    }
    fn map_all(&self, space: &Space<F>) {
        map(space, Area::Kept.page(0), AREA, RW);
        for place in 0..Area::PLACES - 1 {
            map(space, Area::Moving(place).page(0), AREA, RW);
        }
        let at = Area::Object.page(0);
        let request = of_object(&self.object, 0, at, OBJECT, RW, VmaFlags::SHARED);
        assert_eq!(space.map(request), Ok(at));
    }

    /// Meets all other CPUs; everything is checked.
    pub fn meet(&self, _cpu: usize) {
        self.meeting.join(&self.world, || self.check());
    }
    fn check(&self) {
        let lives: Vec<_> = (0..SPACES).filter_map(|place| self.life(place)).collect();
        let spaces: Vec<_> = lives.iter().map(|life| &*life.space).collect();
        // Reclaim clears them.
        spaces
            .iter()
            .for_each(|space| self.world.forget_accesses(space));
        self.world.check(&spaces, &[&self.object]);
        lives.into_iter().for_each(drop);
    }
    /// Ends all spaces.
    pub fn end(self) {
        for place in self.lives {
            let life = place.into_inner().unwrap_or_else(PoisonError::into_inner);
            life.into_iter().for_each(drop);
        }
    }
}
