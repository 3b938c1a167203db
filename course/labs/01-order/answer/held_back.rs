//! Lab 1: the tests that are held back.

use super::{Facts, Subject, Test, block, wrong};
use crate::Random;

pub const TESTS: &[Test] = &[Test {
    asks: "10,000 faults at random: never wrong, never smaller than it could be",
    points: 10,
    run: at_random,
}];

fn at_random(policy: &Subject) {
    let mut random = Random(1);
    let mut below = |limit: u64| random.below(limit);
    for _ in 0..10_000 {
        let page = 4096 + below(4096);
        let table = block(page, 9);
        let pmd_absent = below(2) == 0;
        let hole = match pmd_absent {
            true => table,
            false => {
                let before = below(page - table.start + 1);
                page - before..page + 1 + below(table.end - page)
            }
        };
        // Small areas as often as large ones.
        let mut reach = || {
            let digits = below(11);
            below(1 << digits)
        };
        let (before, after) = (reach(), reach());
        let facts = Facts {
            page,
            area: page - before..page + 1 + after,
            hole,
            pmd_absent,
            orders: below(256) as u32 * 4,
        };
        let answer = policy.order(&facts);
        if let Some(why) = wrong(&facts, answer) {
            panic!("{why}");
        }
        let larger = (answer + 1..10).find(|order| wrong(&facts, *order).is_none());
        if let Some(larger) = larger {
            panic!("order {answer} where order {larger} fits: {facts:?}");
        }
    }
}
