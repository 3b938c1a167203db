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
            let mut machine = Machine::new();
            machine.folio(64, 64);
            machine.map(0, 64, 64);
            assert_eq!(machine.fork(solution, 10..20), Ok(()));
            assert!(machine.child(9).is_none() && machine.child(20).is_none());
            assert!(machine.child(10).is_some() && machine.child(19).is_some());
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
];
