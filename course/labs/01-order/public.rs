//! Lab 1: the tests that come with it.

use super::{Facts, Subject, Test, wrong};

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
