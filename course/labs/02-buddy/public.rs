//! Lab 2: the tests that come with it.

use super::{MAX_ORDER, Machine, Subject, Test, frames};
use alloc::vec;
use alloc::vec::Vec;

pub const TESTS: &[Test] = &[
    Test {
        asks: "take: a block that has the order already, and nothing where there is none",
        points: 5,
        run: |solution| {
            let mut machine = Machine::new(&[(32, 5), (128, 3), (256, 4)]);
            assert_eq!(machine.take(solution, 3), Some(128));
            assert_eq!(machine.take(solution, 6), None);
            assert_eq!(machine.free(), [(32, 5), (256, 4)]);
        },
    },
    Test {
        asks: "take: the smallest block that is large enough is split, the rest goes back in halves",
        points: 5,
        run: split,
    },
    Test {
        asks: "give: a block whose buddy is in use goes into the list of its order",
        points: 5,
        run: |solution| {
            let mut machine = Machine::new(&[(64, 4)]);
            machine.give(solution, 88, 2);
            machine.give(solution, 128, 0);
            assert_eq!(machine.free(), [(64, 4), (88, 2), (128, 0)]);
        },
    },
    Test {
        asks: "give: buddies merge, on both sides and again and again",
        points: 5,
        run: merge,
    },
    Test {
        asks: "give: a buddy is free as a whole or not at all, and order 18 is the largest",
        points: 5,
        run: borders,
    },
    Test {
        asks: "refill: at least half of what may be kept, in one go",
        points: 5,
        run: refill,
    },
    Test {
        asks: "drain: about a batch, the oldest blocks",
        points: 5,
        run: drain,
    },
];

fn split(solution: &Subject) {
    for (order, found) in [(0, 1), (3, 4), (0, 8), (5, 18), (17, 18)] {
        let start = frames(MAX_ORDER);
        // What is smaller or larger stays.
        let mut blocks = vec![(start, found)];
        if found < MAX_ORDER {
            blocks.push((4 * start, MAX_ORDER));
        }
        if order > 0 {
            blocks.push((8 * start, order - 1));
        }
        let mut machine = Machine::new(&blocks);
        let Some(frame) = machine.take(solution, order) else {
            panic!("no block of order {order}, though one of order {found} is free");
        };
        assert!(
            (start..start + frames(found)).contains(&frame),
            "a block of order {order} was taken out of frame {frame:#x}, not out of {start:#x}, \
             where one of order {found} was free, the smallest that is enough"
        );
        let free = machine.free();
        let halves: Vec<u8> = free.iter().map(|block| block.1).collect();
        for half in order..found {
            assert!(
                halves.contains(&half),
                "no half of order {half} is left: {free:x?}"
            );
        }
        assert!(
            free.len() == blocks.len() - 1 + usize::from(found - order),
            "{free:x?}"
        );
    }
}

fn merge(solution: &Subject) {
    let mut machine = Machine::new(&[(64, 4), (84, 2), (88, 3)]);
    // 80 to 83 is free now: with 84 it is 80 to 87, with 88 80 to 95, with 64 64 to 95.
    machine.give(solution, 80, 2);
    assert_eq!(machine.free(), [(64, 5)]);
    // Each page of 1024, in an order in which each has its buddy before or behind it.
    for step in [1, 3, 511, 1023] {
        let mut machine = Machine::new(&[]);
        for page in 0..1024 {
            machine.give(solution, 4096 + page * step % 1024, 0);
        }
        assert_eq!(machine.free(), [(4096, 10)], "step {step}");
    }
}

fn borders(solution: &Subject) {
    // The first frame of the buddy is free, the second in use.
    let mut machine = Machine::new(&[(66, 0), (80, 3)]);
    machine.give(solution, 64, 1);
    assert_eq!(machine.free(), [(64, 1), (66, 0), (80, 3)]);
    machine.give(solution, 88, 0);
    machine.give(solution, 96, 4);
    assert_eq!(
        machine.free(),
        [(64, 1), (66, 0), (80, 3), (88, 0), (96, 4)]
    );
    // Two neighbours of one order that are no buddies.
    let mut machine = Machine::new(&[(8, 3)]);
    machine.give(solution, 16, 3);
    assert_eq!(machine.free(), [(8, 3), (16, 3)]);
    // Two of the largest.
    let gib = frames(MAX_ORDER);
    let mut machine = Machine::new(&[(0, MAX_ORDER), (gib, MAX_ORDER - 1)]);
    machine.give(solution, gib + gib / 2, MAX_ORDER - 1);
    assert_eq!(machine.free(), [(0, MAX_ORDER), (gib, MAX_ORDER)]);
}

fn refill(solution: &Subject) {
    for order in [0, 2, 4] {
        for blocks in [
            vec![(0, 12)],
            (0..64).map(|n| ((2 * n) << order, order)).collect(),
        ] {
            let mut machine = Machine::new(&blocks).with_cache(order, 32);
            assert!(
                machine.alloc(solution).is_some(),
                "nothing, though there is memory"
            );
            let kept = machine.cached().len() + 1;
            assert!(
                (8..=16).contains(&kept),
                "{kept} blocks of order {order}, 16 may be kept"
            );
        }
    }
    // All that there is, where it is less.
    let mut machine = Machine::new(&[(0, 0), (4, 1)]).with_cache(0, 32);
    let all: Vec<u64> = (0..3).filter_map(|_| machine.alloc(solution)).collect();
    assert!(
        all.len() == 3 && machine.free().is_empty(),
        "of 3 frames: {all:?}"
    );
    assert_eq!(machine.alloc(solution), None);
}

fn drain(solution: &Subject) {
    for order in [0, 4] {
        let mut machine = Machine::new(&[]).with_cache(order, 32);
        // Every other one: none merges.
        for block in 0..33 {
            machine.free_cached(solution, (2 * block) << order);
        }
        let (cached, free) = (machine.cached(), machine.free());
        assert!(
            (4..=16).contains(&free.len()),
            "{} of 32 blocks were drained, a batch is 8",
            free.len()
        );
        let oldest = (0..free.len() as u64).map(|block| ((2 * block) << order, order));
        assert!(
            free.iter().copied().eq(oldest),
            "not the oldest, but {free:?} are drained"
        );
        assert!(
            cached.len() + free.len() == 33,
            "{cached:?} are cached, {free:?} free"
        );
    }
    // Side by side: they merge.
    let mut machine = Machine::new(&[]).with_cache(0, 32);
    (0..33).for_each(|frame| machine.free_cached(solution, 64 + frame));
    assert!(
        machine.free().len() <= 2,
        "{:?} were not merged",
        machine.free()
    );
}
