//! Lab 1: the tests that come with it.

use super::{Facts, Subject, Test, block, wrong};

pub const TESTS: &[Test] = &[
    Test {
        asks: "a single page where no large order is allowed",
        points: 0,
        run: |policy| expect(policy, &with(0b0, 100), 0),
    },
    Test {
        asks: "64 kB in the middle of a large area",
        points: 5,
        run: |policy| expect(policy, &with(0b1_0000, 100), 4),
    },
    Test {
        asks: "the largest of several orders",
        points: 5,
        run: |policy| expect(policy, &with(0b1_1100, 100), 4),
    },
    Test {
        asks: "the area's end: what does not fit gives way to the next smaller order",
        points: 5,
        run: |policy| {
            let mut facts = with(0b1_1100, 97);
            // Around page 97, order 4 is 96 to 112, order 3 is 96 to 104, order 2 is 96 to 100.
            facts.area.end = 104;
            expect(policy, &facts, 3);
            facts.area.end = 103;
            expect(policy, &facts, 2);
        },
    },
    Test {
        asks: "the area's start",
        points: 5,
        run: |policy| {
            let mut facts = with(0b1_1100, 100);
            facts.area.start = 97;
            expect(policy, &facts, 2);
        },
    },
    Test {
        asks: "pages that are mapped stay",
        points: 5,
        run: |policy| {
            let mut facts = with(0b1_1100, 100);
            (facts.pmd_absent, facts.hole) = (false, 98..512);
            expect(policy, &facts, 2);
        },
    },
    Test {
        asks: "a PMD leaf only where there is no page table",
        points: 5,
        run: |policy| {
            let mut facts = with(0b10_0001_0000, 100);
            expect(policy, &facts, 9);
            facts.pmd_absent = false;
            expect(policy, &facts, 4);
        },
    },
    Test {
        asks: "10,000 faults at random: never wrong, never smaller than it could be",
        points: 10,
        run: at_random,
    },
];

/// A fault in an area of 2 MiB of which nothing is mapped.
fn with(orders: u32, page: u64) -> Facts {
    Facts {
        page,
        area: 0..512,
        hole: 0..512,
        pmd_absent: true,
        orders,
    }
}

fn expect(policy: &Subject, facts: &Facts, order: u8) {
    let answer = policy.order(facts);
    if let Some(why) = wrong(facts, answer) {
        panic!("{why}");
    }
    assert!(
        answer == order,
        "order {answer} where order {order} fits: {facts:?}"
    );
}

/// Steps of a linear congruential generator (Knuth, TAOCP 3.3.4): the same faults in every run.
fn at_random(policy: &Subject) {
    let mut state = 1u64;
    let mut below = |limit: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % limit
    };
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
