//! Address spaces that share one folio, as loom can follow them: what they do, one verb each, in
//! the order that the rules of `own` ask for, or in a wrong one ([`Wrong`]).

use super::Sheet;
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use own::{Account, Ids, Meter, MmId, Owner, Part};
use std::sync::atomic::{AtomicI32, Ordering};

/// A rule of the caller's, broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// All are kept.
    Nothing,
    /// The account hears of a new mapping after others can see its entry.
    AddLate,
    /// The account forgets a mapping before the flush.
    SubEarly,
    /// An id goes back before the last mapping of its owner is gone.
    IdEarly,
}

/// An address space: its id in the account, and how many pages of the folio its tables map, under
/// their lock.
pub struct Space {
    /// Changes while nobody else knows the space: a lock that loom need not follow.
    owner: std::sync::Mutex<Owner>,
    mapped: Mutex<u32>,
}

/// The folio and three spaces: 0 asks, the others do what the model is about.
pub struct World<A> {
    pub scheme: A,
    pub sheet: Sheet,
    pub wrong: Wrong,
    spaces: [Space; 3],
    unique: u16,
    ids: Mutex<Ids>,
    /// Plain references. For the end only: nothing that loom need follow.
    pins: AtomicI32,
    /// What is in the folio. loom ends the model when a write is not ordered with every other
    /// access.
    page: UnsafeCell<u32>,
}

impl<A: Account> World<A> {
    /// Each space maps so many pages, and there are `pins` plain references; the first `unique`
    /// spaces have ids of their own.
    pub fn new(scheme: A, order: u8, unique: u16, (mapped, pins): ([u32; 3], u32)) -> World<A> {
        let mut ids = Ids::new();
        let spaces = mapped.map(|n| Space {
            owner: std::sync::Mutex::new(Owner::new(ids.take(unique).expect("an id"))),
            mapped: Mutex::new(n),
        });
        let world = World {
            scheme,
            sheet: Sheet::new(order),
            wrong: Wrong::Nothing,
            spaces,
            unique,
            ids: Mutex::new(ids),
            pins: AtomicI32::new(pins as i32),
            page: UnsafeCell::new(0),
        };
        world.scheme.begin(
            &world.sheet,
            &world.owner(0),
            Part::ptes(0, mapped[0]),
            &mut Meter::default(),
        );
        for space in [1, 2].into_iter().filter(|space| mapped[*space] > 0) {
            world.map(&world.owner(space), Part::ptes(0, mapped[space]));
        }
        if pins > 0 {
            world.map(&Owner::PLAIN, Part::nothing(pins));
        }
        world
    }
    pub fn wrong(self, wrong: Wrong) -> World<A> {
        World { wrong, ..self }
    }

    fn owner(&self, space: usize) -> Owner {
        *self.spaces[space].owner.lock().unwrap()
    }
    fn map(&self, who: &Owner, part: Part) {
        self.scheme
            .map(&self.sheet, who, part, &mut Meter::default());
    }
    fn pass(&self, from: &Owner, to: &Owner, n: u32) {
        self.scheme
            .pass(&self.sheet, from, to, n, &mut Meter::default());
    }
    /// Whether the folio is free now.
    fn sub(&self, who: &Owner, part: Part) -> bool {
        let last = self
            .scheme
            .unmap(&self.sheet, who, part, &mut Meter::default());
        if last {
            // The next owner writes: everybody else must have come to an end.
            self.write();
        }
        last
    }

    #[allow(unsafe_code)]
    fn write(&self) {
        // SAFETY: loom checks that nobody else looks.
        self.page.with_mut(|page| unsafe { *page += 1 });
    }
    /// A CPU with a translation, or a device with a pin, looks at the page.
    #[allow(unsafe_code)]
    pub fn look(&self) -> u32 {
        // SAFETY: loom checks that nobody writes.
        self.page.with(|page| unsafe { *page })
    }
    /// A CPU looks through the space's tables.
    pub fn read(&self, space: usize) {
        let mapped = self.spaces[space].mapped.lock().unwrap();
        if *mapped > 0 {
            self.look();
        }
    }

    /// A write fault: whether the folio was taken for the space's own and written in place.
    pub fn write_fault(&self, space: usize) -> bool {
        let mapped = self.spaces[space].mapped.lock().unwrap();
        let exclusive = *mapped > 0 && self.scheme.exclusive(&self.sheet, &self.owner(space));
        if exclusive {
            self.write();
        }
        exclusive
    }

    /// Takes the entries of the last `n` pages out; the TLB may have them until the flush.
    pub fn zap(&self, space: usize, n: u32) -> Part {
        let mut mapped = self.spaces[space].mapped.lock().unwrap();
        let n = n.min(*mapped);
        *mapped -= n;
        Part::ptes(*mapped, n)
    }

    /// Zap, flush, and the account. Whether the folio is free now.
    pub fn unmap(&self, space: usize, n: u32) -> bool {
        let part = self.zap(space, n);
        self.flush(space, part)
    }
    /// The flush of pages that were zapped. Until then they count as the space's own.
    pub fn flush(&self, space: usize, part: Part) -> bool {
        if part.n == 0 {
            return false;
        }
        let early = self.wrong == Wrong::SubEarly;
        let last = early && self.sub(&self.owner(space), part);
        self.look();
        if early {
            last
        } else {
            self.sub(&self.owner(space), part)
        }
    }
    /// Zap, then plain references until the flush is over.
    pub fn unmap_by_passing(&self, space: usize) -> bool {
        let part = self.zap(space, u32::MAX);
        self.pass(&self.owner(space), &Owner::PLAIN, part.n);
        self.look();
        self.sub(&Owner::PLAIN, part)
    }

    /// The child gets what the parent maps.
    pub fn fork(&self, parent: usize, child: usize) {
        let mapped = self.spaces[parent].mapped.lock().unwrap();
        let n = *mapped;
        if n == 0 {
            return;
        }
        let owner = self.owner(child);
        if self.wrong == Wrong::AddLate {
            *self.spaces[child].mapped.lock().unwrap() = n;
            drop(mapped);
            return self.map(&owner, Part::ptes(0, n));
        }
        self.map(&owner, Part::ptes(0, n));
        *self.spaces[child].mapped.lock().unwrap() = n;
    }

    /// A plain reference, if the space maps the folio.
    pub fn pin(&self, space: usize) -> bool {
        let mapped = self.spaces[space].mapped.lock().unwrap();
        if *mapped > 0 {
            self.map(&Owner::PLAIN, Part::nothing(1));
            self.pins.fetch_add(1, Ordering::Relaxed);
        }
        *mapped > 0
    }
    /// The end of a pin.
    pub fn unpin(&self) -> bool {
        self.look();
        self.pins.fetch_sub(1, Ordering::Relaxed);
        self.sub(&Owner::PLAIN, Part::nothing(1))
    }
    /// A plain reference, through which somebody looked, becomes a mapping: first in the account,
    /// then in the tables.
    pub fn map_pinned(&self, space: usize) {
        self.look();
        self.pins.fetch_sub(1, Ordering::Relaxed);
        if self.scheme.counts_pages() {
            // The entry is a new one.
            self.map_more(space);
            self.sub(&Owner::PLAIN, Part::nothing(1));
            return;
        }
        self.pass(&Owner::PLAIN, &self.owner(space), 1);
        *self.spaces[space].mapped.lock().unwrap() += 1;
    }

    /// Who has a plain reference maps another page.
    pub fn map_more(&self, space: usize) {
        let next = *self.spaces[space].mapped.lock().unwrap();
        self.map(&self.owner(space), Part::ptes(next, 1));
        *self.spaces[space].mapped.lock().unwrap() += 1;
    }

    /// The end of a space: its mappings, its id.
    pub fn exit(&self, space: usize) {
        let part = self.zap(space, u32::MAX);
        let owner = self.owner(space);
        let id: MmId = owner.id().expect("a space's");
        let early = self.wrong == Wrong::IdEarly;
        if early {
            self.ids.lock().unwrap().give(id);
        }
        self.look();
        self.sub(&owner, part);
        if !early {
            self.ids.lock().unwrap().give(id);
        }
    }
    /// A new space takes the lowest id that is free.
    pub fn is_new(&self, space: usize) {
        let id = self.ids.lock().unwrap().take(self.unique).expect("an id");
        *self.spaces[space].owner.lock().unwrap() = Owner::new(id);
    }

    /// At rest: the words say who holds the folio, and an exact scheme knows a sole owner.
    pub fn settle(&self, exact: bool) {
        let mapped = [0, 1, 2].map(|space| *self.spaces[space].mapped.lock().unwrap());
        let mut held: Vec<_> = (0..3)
            .map(|s| (self.owner(s), u64::from(mapped[s])))
            .collect();
        let pins = self.pins.load(Ordering::Relaxed);
        held.push((Owner::PLAIN, pins as u64));
        held.retain(|(_, n)| *n > 0);
        assert!(
            self.scheme.agrees(&self.sheet, &by_owner(&held)),
            "{mapped:?} pages mapped"
        );
        for (who, n) in held.iter().filter(|(who, _)| who.id().is_some()) {
            let said = self.scheme.exclusive(&self.sheet, who);
            let truth = held.len() == 1;
            assert!(!said || truth, "wrongly exclusive at rest: {mapped:?}");
            let knows = if who.is_common() { *n == 1 } else { exact };
            assert!(
                said || !truth || !knows,
                "wrongly shared at rest: {mapped:?}"
            );
        }
        assert!(
            !held.is_empty() || self.sheet.is_zero(),
            "free, and not all zero"
        );
    }
}

/// The references of each owner: spaces may share an id.
fn by_owner(held: &[(Owner, u64)]) -> Vec<(Owner, u64)> {
    let mut all: Vec<(Owner, u64)> = Vec::new();
    for (who, n) in held {
        match all.iter_mut().find(|(other, _)| other == who) {
            Some((_, its)) => *its += n,
            None => all.push((*who, *n)),
        }
    }
    all
}
