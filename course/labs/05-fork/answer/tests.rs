//! Lab 5: tests that find each broken solution.

use super::{Machine, NoMemory, Test};

pub const TESTS: &[Test] = &[
    Test {
        asks: "a table of folios that lie side by side",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new();
            for index in (0..512).step_by(16) {
                machine.folio(512 + index as u64, 16);
                machine.map(index, 512 + index as u64, 16);
            }
            assert_eq!(machine.fork(solution, 0..512), Ok(()));
            assert_eq!(machine.updates(), 32);
        },
    },
    Test {
        asks: "a part of a table",
        points: 0,
        run: |solution| {
            for pinned in [false, true] {
                let mut machine = Machine::new();
                machine.folio(64, 64);
                machine.map(0, 64, 64);
                if pinned {
                    machine.pin(64);
                }
                assert_eq!(machine.fork(solution, 10..20), Ok(()));
                assert!(machine.child(9).is_none() && machine.child(20).is_none());
                assert!(machine.child(10).is_some() && machine.child(19).is_some());
            }
        },
    },
    Test {
        asks: "a pinned page between others, with memory for it and without",
        points: 0,
        run: |solution| {
            for (memory, result) in [(1, Ok(())), (0, Err(NoMemory))] {
                let mut machine = Machine::new();
                (0..3).for_each(|index| machine.map(index, 70 + 2 * index as u64, 1));
                machine.pin(72);
                machine.memory(memory);
                assert_eq!(machine.fork(solution, 0..512), result);
                assert!(machine.parent(1).unwrap().writable);
            }
        },
    },
    Test {
        asks: "one page at each place, shared, copied, and without memory for that",
        points: 0,
        run: |solution| {
            for index in 0..512 {
                for (pinned, memory, result) in
                    [(false, 0, Ok(())), (true, 1, Ok(())), (true, 0, Err(NoMemory))]
                {
                    let mut machine = Machine::new();
                    machine.map(index, 70, 1);
                    if pinned {
                        machine.pin(70);
                    }
                    machine.memory(memory);
                    assert_eq!(machine.fork(solution, 0..512), result, "{index}");
                }
            }
        },
    },
    Test {
        asks: "single pages that follow each other in memory are no folio",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new();
            machine.map(8, 64, 32);
            assert_eq!(machine.fork(solution, 0..512), Ok(()));
            assert_eq!(machine.updates(), 32);
        },
    },
    Test {
        asks: "some pages of a run are read-only, from each place to each",
        points: 0,
        run: |solution| {
            for first in 0..8 {
                for n in 1..=8 - first {
                    let mut machine = Machine::new();
                    machine.folio(64, 8);
                    machine.map(8, 64, 8);
                    machine.read_only(8 + first, n);
                    assert_eq!(machine.fork(solution, 0..512), Ok(()));
                    assert_eq!(machine.updates(), 1);
                }
            }
        },
    },
    Test {
        asks: "of a pinned folio each part is copied",
        points: 0,
        run: |solution| {
            for first in 0..8 {
                for n in 1..=8 - first {
                    let mut machine = Machine::new();
                    machine.folio(64, 8);
                    machine.map(8, 64 + first, n as usize);
                    machine.pin(64);
                    assert_eq!(machine.fork(solution, 0..512), Ok(()));
                    assert_eq!(machine.copies(), n);
                }
            }
        },
    },
];
