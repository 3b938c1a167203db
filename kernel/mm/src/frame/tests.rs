//! What needs the crate's own view: references of blocks.

use super::compact::Held;
use super::pageblock::{Mobility, PAGEBLOCK};
use super::pcp::add;
use super::slots::Slots;
use super::table::{self, parts};
use super::zone::Reserve;
use super::{AllocRequest, Allocator, FrameMeta, FrameTable, Kind};
use crate::addr::{Order, Pfn, PfnRange};
use crate::own::{Account, Unified};
use alloc::boxed::Box;

const FIRST: Pfn = Pfn(0x40000);

fn table(frames: usize) -> FrameTable {
    let metas = (0..frames).map(|_| FrameMeta::default()).collect();
    FrameTable::new(FIRST, Box::leak::<'static>(metas))
}

fn anon(order: Order, reserve: Reserve) -> AllocRequest {
    AllocRequest {
        cpu: 0,
        order,
        kind: Kind::Anon,
        reserve,
    }
}

#[test]
fn a_block_in_use_is_split_and_freed_in_parts() {
    let frames = Allocator::new(table(4096), &[PfnRange::new(FIRST, FIRST + 4096)], 1);
    let table = frames.table();
    let before = frames.counts();
    let block = frames
        .alloc(anon(Order(9), Reserve::User))
        .expect("an empty zone");
    let used = frames.counts();
    for to in [Order(9), Order(4), Order(2)] {
        let from = table.get(block).order();
        (0..512)
            .step_by(from.pages() as usize)
            .for_each(|i| table.split(block + i, from, to));
        frames.validate();
        assert_eq!(frames.counts(), used, "splitting takes and gives nothing");
    }
    for part in (0..512).step_by(4).map(|i| block + i) {
        let meta = table.get(part);
        assert_eq!((meta.kind(), meta.order()), (Kind::Anon, Order(2)));
        assert_eq!(meta.refs(), u64::from(part == block));
        meta.set_refs(0);
        assert_eq!(table.head(part + 3), part);
        frames.free(0, &[part]);
        frames.validate();
    }
    let after = frames.counts();
    assert_eq!((after.free, after.used), (before.free, before.used));
    // Some are in the CPU's list.
    frames.drain(0);
    let blocks = frames.zones()[0].look(|b| b.blocks());
    assert_eq!(blocks[0][12], 1, "all of it was merged again");
}

/// CPU 0 allocates a page after it was looked at, and CPU 1 frees it before.
#[test]
fn no_count_is_below_zero() {
    let frames = Allocator::new(table(512), &[PfnRange::new(FIRST, FIRST + 512)], 2);
    add(&frames.cpus[1].freed[Kind::Anon as usize], 1);
    assert_eq!(frames.counts().used[Kind::Anon as usize], 0);
}

/// A CPU that has dropped its reference to a folio may ask for its place in the queue of deferred
/// splits when the frames have another use: the mark that this sets must not be lost.
#[test]
fn a_block_is_marked_for_its_use_by_one_store() {
    let frames = Allocator::new(table(512), &[PfnRange::new(FIRST, FIRST + 512)], 1);
    // An order without a list: the block comes from the zone.
    let request = anon(Order(5), Reserve::User);
    let block = frames.zones[0].alloc(frames.table(), request);
    let meta = frames.table().get(block.expect("an empty zone"));
    assert!(!meta.defer(Order(5)), "it is to be marked once more");
}

/// Nor may it complain of what it finds.
#[test]
fn the_account_of_a_former_folio_is_read() {
    let frames = Allocator::new(table(512), &[PfnRange::new(FIRST, FIRST + 512)], 1);
    let folio = frames
        .alloc(anon(Order(5), Reserve::User))
        .expect("an empty zone");
    frames.table().get(folio).set_refs(0);
    frames.free(0, &[folio]);
    let former = frames.table().former_book(folio, Order(5));
    assert_eq!(Unified.references(&former), 0);
}

#[test]
fn a_part_of_a_folio_that_is_split_joins_no_queue() {
    let frames = Allocator::new(table(512), &[PfnRange::new(FIRST, FIRST + 512)], 1);
    let table = frames.table();
    let folio = frames
        .alloc(anon(Order(9), Reserve::Kernel))
        .expect("an empty zone");
    let head = table.get(folio);
    assert!(!head.end(Order(9)));
    table.split(folio, Order(9), Order(8));
    assert!(!head.defer(Order(8)), "it may be split once more");
    table.split(folio, Order(8), Order(4));
    assert!(!head.defer(Order(4)) && !table.get(folio + 16).defer(Order(4)));
    head.set(Kind::Anon, Order(4));
    assert!(head.defer(Order(4)), "it is a folio");
}

#[test]
#[should_panic(expected = "cannot be split from order 9 to 2")]
fn a_free_block_is_not_split() {
    let frames = Allocator::new(table(512), &[PfnRange::new(FIRST, FIRST + 512)], 1);
    frames.table().split(FIRST, Order(9), Order(2));
}

#[test]
fn the_table_describes_whole_largest_blocks() {
    let gib = 1 << 18;
    let range = |start, end| PfnRange::new(Pfn(start), Pfn(end));
    let span = range(1, 7 * gib);
    let free = [
        range(4 * gib + 5, 7 * gib),
        range(9, 9),
        range(7, 300),
        range(gib + 1, gib + 2),
    ];
    assert_eq!(
        parts(span, &free),
        [range(1, 2 * gib), range(4 * gib, 7 * gib)]
    );
    assert_eq!(parts(span, &[]), []);
}

#[test]
fn nobody_looks_at_the_table_of_a_hole() {
    let gib = 1 << 18;
    let start = Pfn(3 * gib - 512);
    let garbage = |i: u64| {
        let meta = FrameMeta::default();
        if (512..512 + gib).contains(&i) {
            meta.set(Kind::Free, Order(i as u8 % 19));
        }
        meta
    };
    let metas = (0..gib + 1024).map(garbage).collect();
    let free = [
        PfnRange::new(start + 8, start + 512),
        PfnRange::new(start + 512 + gib, start + 1024 + gib),
    ];
    let memory = PfnRange::new(start, start + gib + 1024);
    let table = FrameTable::around(memory, Box::leak::<'static>(metas), &[], &free);
    let frames = Allocator::new(table, &free, 1);
    let table = frames.table();
    frames.validate();
    let take = || frames.alloc(anon(Order(0), Reserve::Kernel));
    let taken: alloc::vec::Vec<Pfn> = core::iter::from_fn(take).collect();
    assert_eq!(taken.len(), 504 + 512);
    for page in taken {
        table.get(page).set_refs(0);
        frames.free(0, &[page]);
    }
    frames.validate();
    assert_eq!(table.iter().count(), 1024);
    assert!(table.try_get(start + 511).is_some() && table.try_get(start + 512).is_none());
}

#[test]
fn slots_are_no_memory() {
    let memory = PfnRange::new(FIRST, FIRST + 512);
    let metas = (0..table::metas(memory, 512)).map(|_| FrameMeta::default());
    let metas = metas.collect::<alloc::vec::Vec<_>>().leak();
    let table = FrameTable::around(memory, metas, &[], &[memory]);
    let (slots, frames) = (Slots::new(&table, 512), Allocator::new(table, &[memory], 1));
    let table = frames.table();
    assert_eq!((frames.total, slots.total()), (512, 512));
    // All of both are free, and side by side but for the fence: they do not become one block.
    let large = slots.take(table, Order(9), false).expect("all are free");
    assert_eq!(slots.take(table, Order(0), false), None);
    slots.give(table, large, Order(9));
    assert!(frames.alloc(anon(Order(9), Reserve::Kernel)).is_some());
    assert_eq!(frames.alloc(anon(Order(0), Reserve::Kernel)), None);
    let small = slots.take(table, Order(2), false).expect("all are free");
    assert!(table.get(small).is(Kind::Swap, Order(2)) && table.slots().contains(small));
    assert_eq!(slots.free(), 508);
    slots.give(table, small, Order(2));
}

/// What is free of each pageblock is counted as the metadata say, whatever is taken, freed and
/// held.
#[test]
fn free_frames_of_pageblocks_are_counted() {
    let frames = Allocator::new(table(4096), &[PfnRange::new(FIRST, FIRST + 4096)], 1);
    let table = frames.table();
    let check = || {
        frames.zones()[0].look(|buddy| {
            let mut free = [0; 4096 / 512];
            let small = |meta: &FrameMeta| meta.is_free() && meta.order() < PAGEBLOCK;
            for (pfn, meta) in table.iter().filter(|(_, meta)| small(meta)) {
                free[(pfn - FIRST) as usize / 512] += meta.order().pages();
            }
            let counted = buddy.pageblocks().partly_free();
            let counted: alloc::vec::Vec<_> = counted.map(|(_, n, _)| u64::from(n)).collect();
            let movable = |n: &usize| buddy.pageblocks().of(FIRST + *n as u64 * 512);
            let movable = |n: &usize| movable(n) == Mobility::Movable && free[*n] != 0;
            let found: alloc::vec::Vec<_> = (0..8).filter(movable).map(|n| free[n]).collect();
            assert_eq!(counted, found);
        });
        frames.validate();
    };
    let kinds = [Kind::Anon, Kind::Table, Kind::Object];
    let (mut taken, mut random) = (alloc::vec::Vec::new(), 1_u64);
    for _ in 0..2_000 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let (what, n) = (random >> 33, random >> 40);
        if what.is_multiple_of(3) && !taken.is_empty() {
            let pfn = taken.swap_remove(n as usize % taken.len());
            table.get(pfn).set_refs(0);
            frames.free(0, &[pfn]);
        } else {
            let order = Order([0, 0, 0, 1, 3, 4, 9, 10][n as usize % 8]);
            let request = AllocRequest {
                kind: kinds[n as usize % 3],
                ..anon(order, Reserve::User)
            };
            taken.extend(frames.alloc(request));
        }
        if what.is_multiple_of(50) {
            frames.drain(0);
            let zone = &frames.zones()[0];
            if let Some(start) = zone.emptiest() {
                let mut held = Held::of(start);
                frames.hold_free(0, zone, &mut held);
                frames.validate();
                assert!(!held.is_whole() && held.start() == start);
                frames.let_go(0, &held);
            }
            check();
        }
    }
    for pfn in taken {
        table.get(pfn).set_refs(0);
        frames.free(0, &[pfn]);
    }
    frames.drain(0);
    check();
}
