//! Lab 8: the tests that are held back.

use super::public::all_read;
use super::{Machine, Subject, Test};
use crate::Random;
use alloc::vec::Vec;

pub const TESTS: &[Test] = &[
    Test {
        asks: "2,000 batches at random, while other CPUs come, read and go",
        points: 5,
        run: at_random,
    },
    Test {
        asks: "64 CPUs, all of which have read what is changed",
        points: 0,
        run: |solution| {
            let mut machine = all_read(64, 0..100);
            machine.unmap(solution, 10..12);
            machine.finish(solution);
            machine.protect(solution, 12..100);
            machine.finish(solution);
        },
    },
];

fn at_random(solution: &Subject) {
    let mut random = Random(1);
    for seed in 0..2000 {
        let cpus = 1 + random.below(4) as usize;
        let pages = 1 + random.below(100);
        let mut machine = Machine::new(cpus).busy(seed);
        machine.map(0..pages);
        // One that is never changed.
        machine.map(1000..1001);
        (0..pages).chain([1000]).for_each(|page| {
            machine.read(0, page);
        });
        let (mut parts, mut page) = (Vec::new(), 0);
        while page < pages {
            let end = (page + 1 + random.below(4)).min(pages);
            parts.push(page..end);
            page = end;
        }
        if random.below(2) == 0 {
            parts.reverse();
        }
        let (mut changes, mut changed) = (0, pages..0);
        for part in parts {
            match random.below(3) {
                0 => machine.unmap(solution, part.clone()),
                1 => machine.protect(solution, part.clone()),
                _ => continue,
            }
            changes += 1;
            changed = changed.start.min(part.start)..changed.end.max(part.end);
        }
        machine.finish(solution);
        let flushes = machine.flushes();
        assert!(
            flushes <= 2 && (flushes > 0) == (changes > 0),
            "{changes} changes of {pages} pages, {flushes} flushes"
        );
        assert!(
            changed.end.saturating_sub(changed.start) > 32 || machine.cached(0) > 0,
            "CPU 0 has dropped page 1000; pages in {changed:?} were changed"
        );
    }
}
