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
        asks: "the smallest",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new(&[(64, 3), (128, 5)]);
            assert!(machine.take(solution, 2).is_some_and(|frame| frame < 72));
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
            let mut machine = Machine::new(&[(0, 10)]).with_cache(0, 64);
            for _ in 0..100 {
                assert!(machine.alloc(solution).is_some());
            }
            assert!(machine.locks() <= 6);
            let mut machine = Machine::new(&[]).with_cache(0, 64);
            for frame in 0..65 {
                machine.free_cached(solution, 2 * frame);
            }
            assert!((32..=60).contains(&machine.cached().len()));
        },
    },
];
