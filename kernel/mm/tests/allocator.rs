//! The page allocator (zones, pageblocks, per-CPU lists) against a plain model, and its promises
//! one by one.

use mm::addr::{Order, Pfn, PfnRange};
use mm::frame::meta::MAX_ORDER;
use mm::frame::zone::Reserve;
use mm::frame::{AllocRequest, Allocator, FrameMeta, FrameTable, Kind, Mobility};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeMap;

/// The last 16 MiB of zone DMA32 and the first of zone Normal.
const FIRST: Pfn = Pfn((1 << 20) - 4096);
const FRAMES: u64 = 8192;
/// Every frame but for three holes.
const FREE: [PfnRange; 3] = [range(3, 2111), range(2222, 5000), range(5001, 8190)];
const CPUS: usize = 2;

const fn range(start: u64, end: u64) -> PfnRange {
    PfnRange::new(Pfn(FIRST.0 + start), Pfn(FIRST.0 + end))
}

/// An allocator.
struct World {
    frames: Allocator,
}

impl World {
    fn of(first: Pfn, len: u64, free: &[PfnRange], cpus: usize) -> World {
        let metas: Vec<FrameMeta> = (0..len).map(|_| FrameMeta::default()).collect();
        let table = FrameTable::new(first, Box::leak(metas.into_boxed_slice()));
        let frames = Allocator::new(table, free, cpus);
        World { frames }
    }
    fn new() -> World {
        World::of(FIRST, FRAMES, &FREE, CPUS)
    }
    /// One zone, all of it free.
    fn plain(len: u64) -> World {
        let first = Pfn(1 << 18);
        World::of(first, len, &[PfnRange::new(first, first + len)], 1)
    }
    fn alloc(&self, cpu: usize, order: Order, kind: Kind, reserve: Reserve) -> Option<Pfn> {
        let request = AllocRequest {
            cpu,
            order,
            kind,
            reserve,
        };
        self.frames.alloc(request)
    }
    fn take(&self, order: u8, kind: Kind) -> Option<Pfn> {
        self.alloc(0, Order(order), kind, Reserve::Kernel)
    }
    fn user(&self, order: u8) -> Option<Pfn> {
        self.alloc(0, Order(order), Kind::Anon, Reserve::User)
    }
    fn give(&self, pfn: Pfn, order: u8) {
        let kind = self.frames.table().get(pfn).kind();
        self.frames.free_owned(0, pfn, Order(order), kind);
    }
    fn drain(&self) {
        (0..CPUS.min(self.cpus())).for_each(|cpu| {
            self.frames.drain(cpu);
        });
    }
    fn cpus(&self) -> usize {
        self.frames
            .lists()
            .map(|(cpu, _)| cpu + 1)
            .max()
            .unwrap_or(0)
    }
    fn check(&self) {
        self.frames.validate();
    }
    /// Free blocks of all zones and mobilities, by order.
    fn blocks(&self) -> Vec<u64> {
        let mut sum = vec![0; MAX_ORDER.0 as usize + 1];
        for zone in self.frames.zones() {
            for blocks in zone.look(|b| b.blocks()) {
                sum.iter_mut().zip(blocks).for_each(|(s, n)| *s += n);
            }
        }
        sum
    }
    fn unmovable_pageblocks(&self) -> u64 {
        let of = |z: &mm::frame::zone::Zone| z.look(|b| b.pageblocks().counts());
        let zones = self.frames.zones().iter();
        zones.map(|z| of(z)[Mobility::Unmovable as usize]).sum()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(usize, u8, Kind, Reserve),
    Free(usize, usize),
    Drain(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let order = prop_oneof![6 => Just(0u8), 3 => Just(4), 2 => Just(9), 3 => 0..=11u8];
    let kind = prop_oneof![
        3 => Just(Kind::Anon),
        1 => Just(Kind::Object),
        2 => Just(Kind::Table),
        1 => Just(Kind::Kernel)
    ];
    let who = prop_oneof![4 => Just(Reserve::User), 1 => Just(Reserve::Kernel)];
    prop_oneof![
        12 => (0..CPUS, order, kind, who).prop_map(|(c, o, k, w)| Step::Alloc(c, o, k, w)),
        8 => (0..CPUS, any::<usize>()).prop_map(|(c, n)| Step::Free(c, n)),
        1 => (0..CPUS).prop_map(Step::Drain)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, rng_seed: RngSeed::Fixed(0x52), ..ProptestConfig::default() })]

    #[test]
    fn every_frame_has_one_place(steps in prop::collection::vec(step(), 1..300)) {
        let w = World::new();
        let (total, fresh) = (w.frames.counts().free, w.blocks());
        let mut taken = BTreeMap::<Pfn, (Order, Kind)>::new();
        for step in steps {
            match step {
                Step::Alloc(cpu, order, kind, who) => {
                    let order = Order(order);
                    let free = w.frames.counts().free;
                    let Some(pfn) = w.alloc(cpu, order, kind, who) else {
                        prop_assert_eq!(w.frames.counts().free, free, "a failure takes nothing");
                        continue;
                    };
                    let block = PfnRange::new(pfn, pfn + order.pages());
                    prop_assert!(pfn.0.is_multiple_of(order.pages()));
                    prop_assert!(FREE.iter().any(|r| r.covers(&block)), "{block:?} is not all ours");
                    let below = taken.range(..block.end).next_back();
                    prop_assert!(below.is_none_or(|(p, (o, _))| *p + o.pages() <= pfn), "{block:?} is taken");
                    let meta = w.frames.table().get(pfn);
                    prop_assert!(meta.kind() == kind && meta.order() == order && meta.refs() == 1);
                    taken.insert(pfn, (order, kind));
                }
                Step::Free(cpu, which) if !taken.is_empty() => {
                    let pfn = *taken.keys().nth(which % taken.len()).expect("below the length");
                    let (order, kind) = taken.remove(&pfn).expect("it was there");
                    w.frames.free_owned(cpu, pfn, order, kind);
                }
                Step::Free(..) => {}
                Step::Drain(cpu) => { w.frames.drain(cpu); }
            }
            w.check();
            let in_use: u64 = taken.values().map(|(o, _)| o.pages()).sum();
            prop_assert_eq!(w.frames.counts().free + in_use, total);
        }
        for (pfn, (order, kind)) in taken {
            w.frames.free_owned(1, pfn, order, kind);
        }
        w.drain();
        w.check();
        prop_assert_eq!(w.blocks(), fresh, "all of it merges again");
        // The six with a hole or an end of the memory in them are never free as a whole.
        prop_assert!(w.unmovable_pageblocks() <= 6);
    }
}

#[test]
fn high_memory_goes_first_and_the_kernel_gets_every_frame() {
    let w = World::new();
    let names: Vec<_> = w.frames.zones().iter().map(|z| z.name).collect();
    assert_eq!(names, ["DMA32", "Normal"]);
    let managed: u64 = FREE.iter().map(PfnRange::len).sum();
    assert_eq!(w.frames.counts().total, managed);
    let all: Vec<Pfn> = std::iter::from_fn(|| w.take(0, Kind::Kernel)).collect();
    assert_eq!(all.len() as u64, managed, "to the last frame");
    let normal = w.frames.zones()[1].managed as usize;
    assert!(all[..normal].iter().all(|pfn| pfn.0 >= 1 << 20));
    all.iter().for_each(|pfn| w.give(*pfn, 0));
    w.check();
}

#[test]
fn users_leave_the_reserve_and_cannot_take_what_is_given_back_to_it() {
    let w = World::plain(16384);
    let marks = w.frames.zones()[0].marks();
    assert!(marks.min == 256 && marks.min < marks.low && marks.low < marks.high);
    let mut held: Vec<Pfn> = std::iter::from_fn(|| w.user(0)).collect();
    assert_eq!(w.frames.counts().free, marks.min, "users stop at the mark");
    assert!(w.frames.is_tight());
    // The kernel takes some of the reserve; what it gives back is the reserve's.
    let some: Vec<Pfn> = (0..40).filter_map(|_| w.take(0, Kind::Table)).collect();
    assert_eq!((some.len(), w.user(0)), (40, None));
    some.iter().for_each(|pfn| w.give(*pfn, 0));
    assert_eq!(w.user(0), None, "freed kernel frames do not go to users");
    w.check();
    // Once users give enough back they get memory again.
    let back = (marks.high - marks.min) as usize + 1;
    held.drain(..back).for_each(|pfn| w.give(pfn, 0));
    assert!(!w.frames.is_tight());
    assert!(w.user(0).is_some());
}

#[test]
fn a_user_gets_frames_that_lie_in_other_lists() {
    let w = World::plain(16384);
    let all: Vec<Pfn> = std::iter::from_fn(|| w.user(0)).collect();
    // 100 blocks of movable memory in this CPU's list, and the zone at its mark.
    let rest: Vec<Pfn> = all[100..].to_vec();
    all[..100].iter().for_each(|pfn| w.give(*pfn, 0));
    let table = w.alloc(0, Order(0), Kind::Table, Reserve::User);
    assert!(table.is_some(), "page tables come from the same memory");
    w.check();
    rest.iter().for_each(|pfn| w.give(*pfn, 0));
    w.check();
}

#[test]
fn unmovable_memory_does_not_scatter() {
    let w = World::plain(32768);
    let mut movable = Vec::new();
    let mut tables = Vec::new();
    for _ in 0..1000 {
        movable.extend((0..16).map(|_| w.take(0, Kind::Anon).expect("half of the memory")));
        tables.push(w.take(0, Kind::Table).expect("there is more"));
    }
    w.check();
    // 1000 frames need two pageblocks.
    assert_eq!(w.unmovable_pageblocks(), 2);
    movable.iter().for_each(|pfn| w.give(*pfn, 0));
    w.drain();
    let whole: u64 = w
        .blocks()
        .iter()
        .enumerate()
        .skip(9)
        .map(|(o, n)| n << (o - 9))
        .sum();
    assert_eq!(whole, 32768 / 512 - 2);
    tables.iter().for_each(|pfn| w.give(*pfn, 0));
    w.drain();
    assert_eq!(
        w.unmovable_pageblocks(),
        0,
        "what is free as a whole is movable"
    );
    w.check();
}

#[test]
fn a_mostly_free_pageblock_is_claimed_and_a_full_one_is_not() {
    let w = World::plain(2048);
    // Users fill all four pageblocks, then most of the second goes and eight frames of the third.
    let all: Vec<Pfn> = std::iter::from_fn(|| w.take(0, Kind::Anon)).collect();
    let in_block = |pfn: &Pfn, n: u64| (pfn.0 >> 9) & 3 == n;
    let second: Vec<Pfn> = all.iter().copied().filter(|p| in_block(p, 1)).collect();
    second.iter().skip(100).for_each(|pfn| w.give(*pfn, 0));
    let third: Vec<Pfn> = all.iter().copied().filter(|p| in_block(p, 2)).collect();
    third.iter().take(8).for_each(|pfn| w.give(*pfn, 0));
    w.drain();
    let tables: Vec<Pfn> = (0..412)
        .map(|_| w.take(0, Kind::Table).expect("412 are free"))
        .collect();
    assert!(
        tables.iter().all(|pfn| in_block(pfn, 1)),
        "all of them in the claimed one"
    );
    assert_eq!(w.unmovable_pageblocks(), 1);
    let more: Vec<Pfn> = (0..8)
        .map(|_| w.take(0, Kind::Table).expect("8 are free"))
        .collect();
    assert!(
        more.iter().all(|pfn| in_block(pfn, 2)),
        "then the gaps of the full one"
    );
    assert_eq!(w.unmovable_pageblocks(), 1, "which stays movable");
    assert_eq!(w.take(0, Kind::Table), None);
    w.check();
}

#[test]
fn lists_stay_within_their_bounds() {
    let w = World::plain(32768);
    let blocks: Vec<Pfn> = (0..2000).filter_map(|_| w.take(0, Kind::Anon)).collect();
    for pfn in blocks {
        w.give(pfn, 0);
        for (_, list) in w.frames.lists() {
            assert!(list.len() <= list.capacity(), "{list:?}");
        }
    }
    let of = |order| {
        w.frames
            .lists()
            .map(|(_, list)| list)
            .find(|l| l.order == Order(order) && l.mobility == Mobility::Movable)
    };
    let singles = of(0).expect("order 0 has a list");
    assert!(
        singles.capacity() == 256 && singles.len() > singles.capacity() / 2,
        "{singles:?}"
    );
    assert!(of(4).is_some_and(|l| l.capacity() == 32) && of(9).is_some_and(|l| l.capacity() == 1));
    w.check();
}

#[test]
fn other_cpus_drain_when_asked() {
    let w = World::new();
    let pfn = w
        .alloc(1, Order(0), Kind::Anon, Reserve::User)
        .expect("a frame");
    let cached = |cpu| {
        w.frames
            .lists()
            .filter(|(of, _)| *of == cpu)
            .map(|(_, list)| list.len())
            .sum::<usize>()
    };
    assert!(cached(1) > 1);
    assert_eq!(w.frames.drain(0), 0, "CPU 0 has nothing");
    assert!(cached(1) > 1, "it does not touch the other's lists");
    // The next time that CPU 1 comes to a zone, it gives back all it has.
    let large = w
        .alloc(1, Order(6), Kind::Anon, Reserve::User)
        .expect("a block");
    assert_eq!(cached(1), 0);
    w.frames.free_owned(1, large, Order(6), Kind::Anon);
    w.frames.free_owned(1, pfn, Order(0), Kind::Anon);
    w.check();
}

#[test]
fn allocations_fail_on_purpose() {
    let w = World::plain(4096);
    w.frames.fail_after(Some(2));
    let got: Vec<bool> = (0..4).map(|_| w.user(0).is_some()).collect();
    assert_eq!(got, [true, true, false, false]);
    w.frames.fail_after(None);
    assert!(w.user(0).is_some());
    w.check();
}

#[test]
fn cpus_do_not_meet_in_their_lists() {
    let first = Pfn(1 << 18);
    let w = World::of(first, 65536, &[PfnRange::new(first, first + 65536)], 4);
    std::thread::scope(|scope| {
        for cpu in 0..4 {
            let w = &w;
            scope.spawn(move || {
                let mut held: Vec<(Pfn, Order, Kind)> = Vec::new();
                let mut seed = cpu as u64 + 1;
                for n in 0..20_000u64 {
                    seed = seed
                        .wrapping_mul(6364136223846793005)
                        .wrapping_add(1442695040888963407);
                    let order = Order([0, 0, 0, 2, 4, 9][(seed >> 40) as usize % 6]);
                    let kind = if seed >> 63 == 0 {
                        Kind::Anon
                    } else {
                        Kind::Table
                    };
                    if held.len() < 40 && (seed >> 50) & 1 == 0 {
                        if let Some(pfn) = w.alloc(cpu, order, kind, Reserve::User) {
                            held.push((pfn, order, kind));
                        }
                    } else if !held.is_empty() {
                        let (pfn, order, kind) =
                            held.swap_remove((seed >> 20) as usize % held.len());
                        w.frames.free_owned(cpu, pfn, order, kind);
                    }
                    if n % 1000 == 0 {
                        w.frames.drain(cpu);
                    }
                }
                held.iter()
                    .for_each(|(pfn, order, kind)| w.frames.free_owned(cpu, *pfn, *order, *kind));
            });
        }
    });
    w.check();
    (0..4).for_each(|cpu| {
        w.frames.drain(cpu);
    });
    w.check();
    assert_eq!(w.blocks()[16], 1, "all of it merged again");
}

/// What a panic says when `f` is run on a world with a block of order 4.
fn complaint(f: fn(&World, Pfn)) -> String {
    let w = World::plain(4096);
    let pfn = w.user(4).expect("a block");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&w, pfn)));
    let payload = caught.expect_err("it must be noticed");
    payload.downcast_ref::<String>().expect("a message").clone()
}

#[test]
fn mistakes_are_named_with_the_frames_state() {
    let twice = complaint(|w, pfn| {
        w.give(pfn, 4);
        w.give(pfn, 4);
    });
    assert!(
        twice.contains("is free already: Cached, order 4, 0 references"),
        "{twice}"
    );
    let twice_to_the_zone = complaint(|w, pfn| {
        w.give(pfn, 4);
        w.drain();
        w.give(pfn, 4);
    });
    assert!(twice_to_the_zone.contains("free"), "{twice_to_the_zone}");
    let wrong = complaint(|w, pfn| w.give(pfn, 3));
    assert!(
        wrong.contains("freed as Anon of order 3, has another order: Anon, order 4, account 0x1"),
        "{wrong}"
    );
    let tail = complaint(|w, pfn| w.give(pfn + 1, 0));
    assert!(
        tail.contains("is not the first frame of a block: Reserved"),
        "{tail}"
    );
    let shared = complaint(|w, pfn| w.frames.free(0, &[pfn]));
    assert!(
        shared.contains("has other references than the one that is dropped: Anon"),
        "{shared}"
    );
}

/// Free blocks of the zones that are smaller than what a list takes or gives at once.
fn crumbs(w: &World) -> u64 {
    w.blocks()[..6].iter().sum()
}

#[test]
fn refills_come_in_whole_pieces() {
    let w = World::plain(1 << 14);
    let odd = w.user(0).expect("all is free");
    w.drain();
    assert_eq!(crumbs(&w), 6, "the rest of its 64 pages");
    let pages: Vec<Pfn> = (0..200)
        .map(|_| w.user(0).expect("there are more"))
        .collect();
    assert_eq!(
        crumbs(&w),
        0,
        "no refill breaks up a larger piece for what is left over"
    );
    w.check();
    pages.into_iter().for_each(|pfn| w.give(pfn, 0));
    w.give(odd, 0);
    w.drain();
    w.check();
}

#[test]
fn full_lists_give_whole_pieces_back() {
    let w = World::plain(1 << 14);
    let [high, batch] = w
        .frames
        .lists()
        .find(|(_, l)| l.order == Order(0))
        .map(|(_, l)| [l.capacity(), l.batch()])
        .expect("a list of pages");
    let mut pages: Vec<Pfn> = (0..2 * high)
        .map(|_| w.user(0).expect("all is free"))
        .collect();
    w.drain();
    pages.sort();
    // One that lies elsewhere is the oldest in the list.
    w.give(pages.pop().expect("there are many"), 0);
    let start = pages
        .iter()
        .position(|pfn| pfn.0.is_multiple_of(batch as u64))
        .expect("a piece begins");
    pages[start..][..high]
        .iter()
        .for_each(|&pfn| w.give(pfn, 0));
    assert!(
        crumbs(&w) <= 1,
        "what is aligned went in one piece: {:?}",
        w.blocks()
    );
    w.check();
}
