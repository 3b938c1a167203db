//! Lab 7: the tests that are held back.

use super::public::{GB, KB, MB, frames, moves, same};
use super::{Level, Machine, Subject, Test};
use crate::Random;
use alloc::vec::Vec;

pub const TESTS: &[Test] = &[
    Test {
        asks: "100 moves at random",
        points: 5,
        run: at_random,
    },
    Test {
        asks: "100 moves of some GiB with few pages",
        points: 0,
        run: far_apart,
    },
];

/// Where a range moves to: up or down, aligned alike by pages, by 2 MiB or by 1 GiB.
fn target(random: &mut Random, from: u64) -> u64 {
    let apart = [4 * KB, 2 * MB, GB][random.below(3) as usize];
    let far = 1024 * GB + apart * random.below(1024);
    match from < 2048 * GB {
        true => from + far,
        false => from - far,
    }
}

fn at_random(solution: &Subject) {
    let mut random = Random(1);
    for _ in 0..100 {
        let base = [0, GB - 4 * MB, 512 * GB - 4 * MB][random.below(3) as usize];
        let base = base + 2048 * GB * random.below(2);
        let mut machine = Machine::new();
        let kinds: Vec<u64> = (0..4).map(|_| random.below(4)).collect();
        for (n, kind) in kinds.iter().enumerate() {
            let at = base + 2 * MB * n as u64;
            let page = at + 4 * KB * random.below(512);
            machine = match kind {
                0 => machine,
                1 => machine.large(at),
                2 => machine.pages(page..page + 4 * KB),
                _ => machine.pages(at..page),
            };
        }
        let first = 4 * KB * random.below(1024);
        let pages = match random.below(8) {
            0 => 1,
            _ => 1 + random.below(2048 - first / (4 * KB)),
        };
        let from = base + first..base + first + 4 * KB * pages;
        let to = target(&mut random, from.start);
        let most = [Level::Pte, Level::Pmd, Level::Pgd][random.below(3) as usize];
        machine = machine.most(most);
        let whole = base..base + 8 * MB;
        let kept = |machine: &Machine| {
            let mut all = frames(machine, &whole);
            all.retain(|page| !from.contains(&(base + page.0)));
            all
        };
        let before = kept(&machine);
        moves(solution, &mut machine, from.clone(), to);
        same(&before, &kept(&machine), base);
    }
}

fn far_apart(solution: &Subject) {
    let mut random = Random(1);
    for _ in 0..100 {
        let mut place = || 2 * MB * random.below(1024) + 4 * KB * random.below(2);
        let (start, more) = (GB + place(), GB + place());
        let start = start + 2048 * GB * random.below(2);
        let end = start + more;
        let to = target(&mut random, start);
        let mut pages: Vec<u64> = (0..4)
            .map(|_| start + 4 * KB * random.below(more / (4 * KB)))
            .collect();
        pages.extend([start - 4 * KB, start, end - 4 * KB, end]);
        let mut machine = Machine::new();
        for &at in &pages {
            machine = machine.pages(at..at + 4 * KB);
        }
        let result = machine.mremap(solution, start..end, to);
        assert_eq!(result, Ok(()), "moving {start:#x} to {end:#x} to {to:#x}");
        for at in pages {
            let there = match (start..end).contains(&at) {
                true => to + (at - start),
                false => at,
            };
            let frame = machine.frame(there);
            assert_eq!(
                frame,
                Some(at / (4 * KB)),
                "the page of {at:#x}, at {there:#x}"
            );
        }
    }
}
