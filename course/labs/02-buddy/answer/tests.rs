//! Lab 2: tests that find each broken solution.

use super::{MAX_ORDER, Machine, Test, frames};

pub const TESTS: &[Test] = &[
    Test {
        asks: "one frame of each block leaves a half of each order",
        points: 0,
        run: |solution| {
            for found in 1..=MAX_ORDER {
                let mut machine = Machine::new(&[(frames(MAX_ORDER), found)]);
                assert!(machine.take(solution, 0).is_some());
                assert_eq!(machine.free().len(), usize::from(found));
            }
        },
    },
    Test {
        asks: "the smallest is split, for each order, and nothing is lost",
        points: 0,
        run: |solution| {
            let gib = frames(MAX_ORDER);
            for order in 0..MAX_ORDER - 1 {
                let mut machine = Machine::new(&[(0, order + 1), (gib, MAX_ORDER)]);
                let frame = machine.take(solution, order).expect("there is memory");
                assert_eq!(machine.free(), [(frames(order) - frame, order), (gib, MAX_ORDER)]);
            }
        },
    },
    Test {
        asks: "a buddy before, and one behind, of each order",
        points: 0,
        run: |solution| {
            for order in 0..MAX_ORDER {
                for first in [0, frames(order)] {
                    let mut machine = Machine::new(&[(first, order)]);
                    machine.give(solution, frames(order) - first, order);
                    assert_eq!(machine.free(), [(0, order + 1)]);
                }
            }
        },
    },
    Test {
        asks: "no buddies",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new(&[(0, MAX_ORDER), (frames(MAX_ORDER) + 4, 1)]);
            machine.give(solution, frames(MAX_ORDER), 2);
            assert_eq!(machine.free().len(), 3);
            let mut machine = Machine::new(&[(0, MAX_ORDER)]);
            machine.give(solution, frames(MAX_ORDER), MAX_ORDER);
            assert_eq!(machine.free().len(), 2);
        },
    },
    Test {
        asks: "the lock is needed once for many allocations or frees",
        points: 0,
        run: |solution| {
            for capacity in [8, 64, 256] {
                let mut machine = Machine::new(&[(0, 10)]).with_cache(0, capacity);
                for _ in 0..2 * capacity {
                    assert!(machine.alloc(solution).is_some());
                }
                assert!(machine.locks() <= 8);
                let mut machine = Machine::new(&[]).with_cache(0, capacity);
                for frame in 0..=capacity as u64 {
                    machine.free_cached(solution, 2 * frame);
                }
                let cached = machine.cached().len();
                assert!((capacity / 2..=capacity * 15 / 16).contains(&cached));
            }
        },
    },
];
