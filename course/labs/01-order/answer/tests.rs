//! Lab 1: tests that find each broken solution.

use super::{Facts, Test};

/// Nothing is mapped in a large area; orders 2, 4 and 9 are allowed.
fn facts(page: u64) -> Facts {
    let table = super::block(page, 9);
    Facts {
        page,
        area: 0..4096,
        hole: table,
        pmd_absent: true,
        orders: 0b10_0001_0100,
    }
}

pub const TESTS: &[Test] = &[
    Test {
        asks: "the area's end, to the page",
        points: 0,
        run: |policy| {
            // Page 1002 lies in 512 to 1024, in 992 to 1008 and in 1000 to 1004.
            for (end, order) in [(1024, 9), (1023, 4), (1008, 4), (1007, 2), (1004, 2), (1003, 0)] {
                let mut facts = facts(1002);
                facts.area.end = end;
                assert_eq!(policy.order(&facts), order, "{end}");
            }
        },
    },
    Test {
        asks: "the area's start, to the page",
        points: 0,
        run: |policy| {
            for (start, order) in [(512, 9), (513, 4), (592, 4), (593, 2), (600, 2), (601, 0)] {
                let mut facts = facts(602);
                facts.area.start = start;
                assert_eq!(policy.order(&facts), order, "{start}");
            }
        },
    },
    Test {
        asks: "what is mapped, on both sides",
        points: 0,
        run: |policy| {
            let mut facts = facts(602);
            facts.pmd_absent = false;
            assert_eq!(policy.order(&facts), 4);
            facts.hole = 593..1024;
            assert_eq!(policy.order(&facts), 2);
            facts.hole = 512..603;
            assert_eq!(policy.order(&facts), 0);
        },
    },
    Test {
        asks: "only what is allowed",
        points: 0,
        run: |policy| {
            for order in [0, 2, 3, 4, 5, 6, 7, 8, 9] {
                let facts = Facts { orders: (1 << order) & !1, ..facts(602) };
                assert_eq!(policy.order(&facts), order);
            }
        },
    },
    Test {
        asks: "every page of a block is like the others",
        points: 0,
        run: |policy| {
            for page in 512..1024 {
                assert_eq!(policy.order(&facts(page)), 9, "{page}");
            }
        },
    },
    Test {
        asks: "the largest of all orders",
        points: 0,
        run: |policy| {
            for (end, order) in [(1024, 9), (768, 8), (640, 7), (639, 5), (607, 2), (603, 0)] {
                let facts = Facts { orders: 0b11_1111_1100, area: 0..end, ..facts(602) };
                assert_eq!(policy.order(&facts), order, "{end}");
            }
        },
    },
];
