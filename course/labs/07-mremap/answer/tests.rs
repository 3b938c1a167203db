//! Lab 7: tests that find each broken solution.

use super::{Level, Machine, NoMemory, Subject, Test};
use core::ops::Range;

const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;

/// Moves what is mapped page by page, and looks at each page.
fn moves(solution: &Subject, machine: &mut Machine, from: Range<u64>, to: u64) {
    let first = from.start / 4096;
    assert_eq!(machine.mremap(solution, from.clone(), to), Ok(()));
    for at in from.clone().step_by(4096) {
        let there = to + (at - from.start);
        assert_eq!(machine.frame(there), Some(at / 4096), "{there:#x} has page {first:#x}");
        assert_eq!(machine.frame(at), None, "{at:#x}");
    }
}

pub const TESTS: &[Test] = &[
    Test {
        asks: "three tables are three entries, with one flush",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new().pages(2 * MB..8 * MB);
            moves(solution, &mut machine, 2 * MB..8 * MB, 6 * GB);
            assert_eq!((machine.writes(), machine.flushes()), (6, 1));
        },
    },
    Test {
        asks: "head, body and tail",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new().pages(0..9 * MB);
            moves(solution, &mut machine, MB..7 * MB, 6 * GB + MB);
            assert_eq!(machine.frame(7 * MB), Some(7 * MB / 4096));
            assert_eq!(machine.writes(), 2 * (256 + 2 + 256));
        },
    },
    Test {
        asks: "another alignment: every page, and no table is left",
        points: 0,
        run: |solution| {
            for (from, to) in [(2 * MB, 6 * GB + MB), (6 * GB, 3 * MB)] {
                let mut machine = Machine::new().pages(from..from + 4 * MB);
                moves(solution, &mut machine, from..from + 4 * MB, to);
                // The root, and a PUD, a PMD and three PTE tables.
                assert_eq!(machine.tables(), 6);
            }
        },
    },
    Test {
        asks: "a single page that is alone, up and down",
        points: 0,
        run: |solution| {
            for (from, to) in [(2 * MB, 6 * GB), (5 * GB - 4096, 4096)] {
                let mut machine = Machine::new().pages(from..from + 4096);
                moves(solution, &mut machine, from..from + 4096, to);
                assert_eq!(machine.tables(), 4);
            }
        },
    },
    Test {
        asks: "whatever may move whole: a leaf, and more than 1 GiB with pages at both ends",
        points: 0,
        run: |solution| {
            for most in [Level::Pte, Level::Pmd, Level::Pud, Level::Pgd] {
                let mut machine = Machine::new().large(2 * MB).most(most);
                moves(solution, &mut machine, 2 * MB..4 * MB, 6 * GB);
                for apart in [0, 4096, 2 * MB] {
                    let (from, to) = (GB - 2 * MB..2 * GB + 2 * MB, 5 * GB - 2 * MB + apart);
                    let pages = [from.start, GB, 2 * GB - 4096, 2 * GB, from.end - 4096];
                    let mut machine = Machine::new().most(most);
                    for at in pages {
                        machine = machine.pages(at..at + 4096);
                    }
                    assert_eq!(machine.mremap(solution, from.clone(), to), Ok(()));
                    for at in pages {
                        assert_eq!(machine.frame(to + (at - from.start)), Some(at / 4096));
                    }
                }
            }
        },
    },
    Test {
        asks: "a leaf that the end cuts",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new().large(2 * MB);
            moves(solution, &mut machine, 2 * MB..3 * MB, 6 * GB);
            assert_eq!(machine.frame(3 * MB), Some(3 * MB / 4096));
        },
    },
    Test {
        asks: "no memory for the last table",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new().pages(2 * MB..6 * MB).memory(3);
            let (from, to) = (2 * MB..6 * MB, 6 * GB + MB);
            assert_eq!(machine.mremap(solution, from, to), Err(NoMemory));
            assert_eq!(machine.frame(2 * MB), Some(512));
            assert_eq!(machine.tables(), 5);
        },
    },
];
