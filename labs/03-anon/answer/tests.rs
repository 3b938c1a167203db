//! Lab 3: tests that find each broken solution.

use super::{Entry, Machine, Meanwhile, Test};

pub const TESTS: &[Test] = &[
    Test {
        asks: "each page is read, then written, with folios of each order",
        points: 0,
        run: |solution| {
            for order in 0..=3 {
                let mut machine = Machine::new(16).folios(order);
                for page in [3, 4] {
                    assert_eq!(machine.read(solution, page), Ok(()));
                    assert_eq!((machine.entry(page), machine.free()), (Entry::Zeros, 1000));
                }
                for page in 0..16 {
                    assert_eq!(machine.write(solution, page), Ok(()));
                }
                assert_eq!((machine.rss(), machine.frames().len()), (16, 16));
            }
        },
    },
    Test {
        asks: "whatever another thread does",
        points: 0,
        run: |solution| {
            let all = [
                Meanwhile::Read(5),
                Meanwhile::Write(5),
                Meanwhile::Write(4),
                Meanwhile::Read(6),
                Meanwhile::Unmap,
            ];
            for act in all {
                let mut machine = Machine::new(16).folios(2).meanwhile(&[act]);
                assert_eq!(machine.write(solution, 5), Ok(()));
                assert_eq!(machine.free() + machine.rss(), 1000);
                assert_eq!(machine.frames().len() as u64, machine.rss());
            }
        },
    },
    Test {
        asks: "little memory",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new(16).folios(3).memory(3, 1);
            assert_eq!(machine.write(solution, 5), Ok(()));
            assert_eq!(machine.write(solution, 9), Ok(()));
            assert_eq!((machine.free(), machine.rss()), (0, 3));
            assert!(machine.write(solution, 11).is_err());
        },
    },
];
