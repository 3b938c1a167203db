//! Lab 7: the tests that come with it.

use super::{Level, Machine, NoMemory, Subject, Test};
use alloc::vec::Vec;
use core::ops::Range;

pub(super) const KB: u64 = 1 << 10;
pub(super) const MB: u64 = 1 << 20;
pub(super) const GB: u64 = 1 << 30;

pub const TESTS: &[Test] = &[
    Test {
        asks: "a few pages move to where no table is",
        points: 5,
        run: |solution| {
            let from = 4 * KB..20 * KB;
            let mut machine = Machine::new().pages(0..40 * KB);
            moves(solution, &mut machine, from, 3 * GB + 8 * KB);
            assert_eq!(machine.frame(0), Some(0), "what lies before it stays");
            assert_eq!(machine.frame(20 * KB), Some(5), "what lies behind it stays");
            assert_eq!(machine.tables(), 6, "tables, with the root");
        },
    },
    Test {
        asks: "tables of pages move whole, behind one flush",
        points: 5,
        run: |solution| {
            let mut machine = Machine::new().pages(2 * MB..8 * MB);
            moves(solution, &mut machine, 2 * MB..8 * MB, 32 * MB);
            few(&machine, 2 * 3);
        },
    },
    Test {
        asks: "what a table is only cut of moves page by page, the rest whole",
        points: 5,
        run: |solution| {
            let from = 2 * MB - 8 * KB..6 * MB + 4 * KB;
            for to in [GB - 8 * KB, 3 * GB - 8 * KB] {
                let mut machine = Machine::new().pages(MB..7 * MB);
                moves(solution, &mut machine, from.clone(), to);
                few(&machine, 2 * (2 + 2 + 1));
            }
        },
    },
    Test {
        asks: "where the two places are not aligned alike only pages move",
        points: 5,
        run: |solution| {
            for to in [GB + 4 * KB, 3 * GB - MB] {
                let mut machine = Machine::new().pages(2 * MB..6 * MB);
                moves(solution, &mut machine, 2 * MB..6 * MB, to);
                assert_eq!(machine.flushes(), 1, "flushes");
            }
        },
    },
    Test {
        asks: "a leaf of 2 MiB stays whole where it can, and is split where it is cut",
        points: 5,
        run: leaves,
    },
    Test {
        asks: "1 GiB and 512 GiB are one entry each, unless such may not move whole",
        points: 5,
        run: giants,
    },
    Test {
        asks: "where there is no memory for tables nothing moves, and none is lost",
        points: 5,
        run: short,
    },
];

/// The pages of a range that are mapped, and their frames.
pub(super) fn frames(machine: &Machine, range: &Range<u64>) -> Vec<(u64, u64)> {
    let pages = range.clone().step_by(4096);
    pages
        .filter_map(|at| machine.frame(at).map(|frame| (at - range.start, frame)))
        .collect()
}

/// Moves a range, and looks at each page.
pub(super) fn moves(solution: &Subject, machine: &mut Machine, from: Range<u64>, to: u64) {
    let there = to..to + (from.end - from.start);
    let before = frames(machine, &from);
    let result = machine.mremap(solution, from.clone(), to);
    assert_eq!(result, Ok(()), "moving {from:#x?} to {to:#x}");
    same(&before, &frames(machine, &there), to);
    same(&[], &frames(machine, &from), from.start);
}

/// Panics with the first page that is not as it should be.
pub(super) fn same(right: &[(u64, u64)], now: &[(u64, u64)], start: u64) {
    for n in 0..right.len().max(now.len()) {
        let (right, now) = (right.get(n), now.get(n));
        if right != now {
            let at = right.or(now).map_or(0, |page| start + page.0);
            panic!(
                "near {at:#x}: {now:x?} is there, as place in the range and frame, not {right:x?}"
            );
        }
    }
}

/// Each entry that moves is written twice, and one flush is for all.
fn few(machine: &Machine, writes: u64) {
    assert_eq!(machine.writes(), writes, "entry writes");
    assert_eq!(machine.flushes(), 1, "flushes");
}

fn leaves(solution: &Subject) {
    let three = || Machine::new().large(2 * MB).large(4 * MB).large(6 * MB);
    let mut machine = three();
    moves(solution, &mut machine, 2 * MB..8 * MB, 5 * GB);
    few(&machine, 2 * 3);
    // Cut at the end, and at the start.
    let mut machine = three();
    moves(solution, &mut machine, 2 * MB..5 * MB, 5 * GB);
    few(&machine, 513 + 2 * (1 + 256));
    let mut machine = three();
    moves(solution, &mut machine, 3 * MB..8 * MB, 5 * GB + MB);
    few(&machine, 513 + 2 * (2 + 256));
    // In the middle.
    let mut machine = three();
    moves(solution, &mut machine, 5 * MB..5 * MB + 8 * KB, 5 * GB + MB);
    few(&machine, 513 + 2 * 2);
    // Not aligned alike.
    let mut machine = three();
    moves(solution, &mut machine, 4 * MB..6 * MB, 5 * GB + MB);
}

fn giants(solution: &Subject) {
    let mut machine = Machine::new().pages(GB..GB + 8 * KB).large(2 * GB - 2 * MB);
    moves(solution, &mut machine, GB..2 * GB, 7 * GB);
    few(&machine, 2);
    // One page in each half of a TiB.
    let (one, two) = (512 * GB, 1024 * GB);
    let far = || {
        Machine::new()
            .pages(one..one + 4 * KB)
            .pages(two..two + 4 * KB)
    };
    let (from, to) = (one..one + 1024 * GB, 4 * two);
    let mut machine = far();
    assert_eq!(machine.mremap(solution, from.clone(), to), Ok(()));
    few(&machine, 2 * 2);
    let mut machine = far().most(Level::Pud);
    assert_eq!(machine.mremap(solution, from.clone(), to), Ok(()));
    assert_eq!(machine.frame(to + one), Some(two / 4096), "the second page");
    assert_eq!(machine.tables(), 7, "tables, with the root");
    let mut machine = far().most(Level::Pte);
    assert_eq!(machine.mremap(solution, from, to), Ok(()));
    assert_eq!(machine.frame(to), Some(one / 4096), "the first page");
    assert_eq!(machine.tables(), 7, "tables, with the root");
}

fn short(solution: &Subject) {
    let from = 3 * MB..8 * MB;
    for memory in 0.. {
        let mut machine = Machine::new()
            .pages(2 * MB..6 * MB)
            .large(6 * MB)
            .large(8 * MB);
        machine = machine.memory(memory);
        let (before, tables) = (frames(&machine, &(0..16 * MB)), machine.tables());
        match machine.mremap(solution, from.clone(), 5 * GB - 4 * MB) {
            // Two PMD tables and three PTE tables there, and one for the leaf that is split.
            Ok(()) => return assert!(memory >= 6, "there is memory for {memory} tables only"),
            Err(NoMemory) => assert!(memory < 6, "there is memory for {memory} tables"),
        }
        same(&before, &frames(&machine, &(0..16 * MB)), 0);
        // The leaf may be split.
        let more = machine.tables() - tables;
        assert!(more <= 1, "{more} tables more than before");
    }
}
