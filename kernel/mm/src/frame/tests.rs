//! What needs the crate's own view: references of blocks.

use super::zone::For;
use super::{Allocator, FrameMeta, FrameTable, Kind};
use crate::addr::{Order, Pfn, PfnRange};
use alloc::boxed::Box;

const FIRST: Pfn = Pfn(0x40000);

fn table(frames: usize) -> FrameTable {
    let metas = (0..frames).map(|_| FrameMeta::default()).collect();
    FrameTable::new(FIRST, Box::leak::<'static>(metas))
}

#[test]
fn a_block_in_use_is_split_and_freed_in_parts() {
    let table = table(4096);
    let frames = Allocator::new(&table, &[PfnRange::new(FIRST, FIRST + 4096)], 1);
    let before = frames.counts();
    let block = frames
        .alloc(&table, 0, Order(9), Kind::Anon, For::User)
        .expect("an empty zone");
    let used = frames.counts();
    for to in [Order(9), Order(4), Order(2)] {
        let from = table.get(block).order();
        (0..512)
            .step_by(from.pages() as usize)
            .for_each(|i| table.split(block + i, from, to));
        frames.validate(&table);
        assert_eq!(frames.counts(), used, "splitting takes and gives nothing");
    }
    for part in (0..512).step_by(4).map(|i| block + i) {
        let meta = table.get(part);
        assert_eq!((meta.kind(), meta.order()), (Kind::Anon, Order(2)));
        assert_eq!(meta.refs(), u64::from(part == block));
        meta.set_refs(0);
        assert_eq!(table.head(part + 3), part);
        frames.free(&table, 0, &[part]);
        frames.validate(&table);
    }
    let after = frames.counts();
    assert_eq!((after.free, after.used), (before.free, before.used));
    let blocks = frames.zones()[0].look(|b| b.blocks());
    assert_eq!(blocks[0][12], 1, "all of it was merged again");
}

#[test]
#[should_panic(expected = "cannot be split from order 9 to 2")]
fn a_free_block_is_not_split() {
    let table = table(512);
    Allocator::new(&table, &[PfnRange::new(FIRST, FIRST + 512)], 1);
    table.split(FIRST, Order(9), Order(2));
}
