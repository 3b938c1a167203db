//! The buddy allocator against a plain model: a map of who has which frame.

use mm::addr::{Order, Pfn, PfnRange};
use mm::frame::buddy::Buddy;
use mm::frame::meta::MAX_ORDER;
use mm::frame::{FrameMeta, FrameTable, Kind};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeMap;

const FIRST: Pfn = Pfn(0x1234);
const FRAMES: u64 = 5000;

const SPAN: PfnRange = PfnRange::new(FIRST, Pfn(FIRST.0 + FRAMES));

fn table() -> FrameTable {
    let metas: Vec<FrameMeta> = (0..FRAMES).map(|_| FrameMeta::default()).collect();
    FrameTable::new(FIRST, Box::leak(metas.into_boxed_slice()))
}

/// Two ranges with a hole, none of them aligned.
fn ranges() -> [PfnRange; 2] {
    [
        PfnRange::new(FIRST + 3, FIRST + 2111),
        PfnRange::new(FIRST + 2222, FIRST + 4999),
    ]
}

fn buddy(table: &FrameTable) -> Buddy {
    let mut buddy = Buddy::new(SPAN);
    ranges().iter().for_each(|r| buddy.add_range(table, *r));
    buddy
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(u8, Kind),
    Free(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let order = prop_oneof![4 => 0..4u8, 2 => 4..=10u8, 1 => 11..=MAX_ORDER.0];
    let kind = prop_oneof![Just(Kind::Anon), Just(Kind::Table)];
    prop_oneof![3 => (order, kind).prop_map(|(o, k)| Step::Alloc(o, k)), 2 => any::<usize>().prop_map(Step::Free)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, rng_seed: RngSeed::Fixed(0x52), ..ProptestConfig::default() })]

    #[test]
    fn blocks_never_overlap_and_nothing_is_lost(steps in prop::collection::vec(step(), 1..200)) {
        let table = table();
        let mut buddy = buddy(&table);
        let total = buddy.free_frames();
        let mut taken = BTreeMap::<Pfn, Order>::new();
        for step in steps {
            match step {
                Step::Alloc(order, kind) => {
                    let order = Order(order);
                    let Some(pfn) = buddy.alloc(&table, order, kind) else { continue };
                    let block = PfnRange::new(pfn, pfn + order.pages());
                    prop_assert!(pfn.0 % order.pages() == 0);
                    prop_assert!(ranges().iter().any(|r| r.covers(&block)));
                    prop_assert!(taken.iter().all(|(p, o)| !PfnRange::new(*p, *p + o.pages()).overlaps(&block)));
                    prop_assert!(table.get(pfn).is_cached(order));
                    taken.insert(pfn, order);
                }
                Step::Free(which) if !taken.is_empty() => {
                    let (&pfn, &order) = taken.iter().nth(which % taken.len()).expect("below the length");
                    taken.remove(&pfn);
                    buddy.free(&table, pfn, order);
                }
                Step::Free(_) => {}
            }
            buddy.validate(&table, SPAN);
            let in_use: u64 = taken.values().map(|o| o.pages()).sum();
            prop_assert_eq!(buddy.free_frames() + in_use, total);
        }
    }
}

#[test]
fn the_smallest_block_that_fits_is_split() {
    let table = table();
    let mut buddy = buddy(&table);
    let total: u64 = ranges().iter().map(|r| r.len()).sum();
    assert_eq!(buddy.free_frames(), total);
    let mut taken = Vec::new();
    while let Some(pfn) = buddy.alloc(&table, Order(0), Kind::Kernel) {
        taken.push(pfn);
    }
    assert_eq!(taken.len() as u64, total);
    let mut largest = Vec::new();
    taken
        .into_iter()
        .for_each(|pfn| buddy.free(&table, pfn, Order(0)));
    buddy.validate(&table, SPAN);
    while let Some(pfn) = buddy.alloc(&table, MAX_ORDER, Kind::Kernel) {
        largest.push(pfn);
    }
    assert_eq!(largest.len(), 0, "5000 frames hold no block of 1 GiB");
    while let Some(pfn) = buddy.alloc(&table, Order(10), Kind::Kernel) {
        largest.push(pfn);
    }
    let whole = |r: &PfnRange| r.end.0 / 1024 - r.start.0.div_ceil(1024);
    assert_eq!(
        largest.len() as u64,
        ranges().iter().map(whole).sum::<u64>(),
        "everything was merged again"
    );
}

#[test]
fn the_largest_block_is_one_gib() {
    let frames = MAX_ORDER.pages() + 2 * 512;
    let metas: Vec<FrameMeta> = (0..frames).map(|_| FrameMeta::default()).collect();
    let first = Pfn(MAX_ORDER.pages() - 512);
    let table = FrameTable::new(first, Box::leak(metas.into_boxed_slice()));
    let span = PfnRange::new(first, first + frames);
    let mut buddy = Buddy::new(span);
    buddy.add_range(&table, span);
    let block = buddy
        .alloc(&table, MAX_ORDER, Kind::Anon)
        .expect("one is there");
    assert_eq!(block, Pfn(MAX_ORDER.pages()));
    assert_eq!(table.head(block + 123_456), block);
    assert!(buddy.alloc(&table, Order(10), Kind::Anon).is_none());
    buddy.free(&table, block, MAX_ORDER);
    buddy.validate(&table, span);
    // Taken and given back in pieces, it becomes one again.
    let pieces: Vec<Pfn> = (0..514)
        .map_while(|_| buddy.alloc(&table, Order(9), Kind::Anon))
        .collect();
    assert_eq!(pieces.len(), 514);
    pieces.iter().for_each(|p| buddy.free(&table, *p, Order(9)));
    buddy.validate(&table, span);
    assert_eq!(buddy.blocks()[0][MAX_ORDER.0 as usize], 1);
}

#[test]
fn twice_is_once_too_often() {
    let again = std::panic::catch_unwind(|| {
        let table = table();
        let mut buddy = buddy(&table);
        buddy.add_range(&table, ranges()[0]);
    });
    assert!(again.is_err(), "a range was handed in twice");
}
