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
        asks: "whatever two threads do, one after the other, with folios of each order",
        points: 0,
        run: |solution| {
            let acts = |page| [Meanwhile::Read(page), Meanwhile::Write(page)];
            let pages = (0..16).flat_map(acts);
            for first in pages.clone().chain([Meanwhile::Discard(5), Meanwhile::Unmap]) {
                for second in pages.clone().chain([Meanwhile::Discard(5), Meanwhile::Unmap]) {
                    for order in 0..=4 {
                        let script = [first, second];
                        let mut machine = Machine::new(16).folios(order).meanwhile(&script);
                        assert_eq!(machine.write(solution, 5), Ok(()));
                        assert!([Entry::Own, Entry::Gone].contains(&machine.entry(5)));
                        assert_eq!(machine.free() + machine.rss(), 1000);
                        assert_eq!(machine.frames().len() as u64, machine.rss());
                    }
                }
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
    Test {
        asks: "folios of each order, and the largest that there is",
        points: 0,
        run: |solution| {
            for order in 0..=9 {
                for largest in [0, order / 2, order] {
                    let pages = 1 << largest;
                    let mut machine = Machine::new(512).folios(order).memory(512, largest);
                    assert_eq!(machine.write(solution, 333), Ok(()));
                    assert_eq!((machine.rss(), machine.free()), (pages, 512 - pages));
                }
            }
        },
    },
];
