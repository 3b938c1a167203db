//! Lab 6: tests that find each broken solution.

use super::{Folio, PLAIN, Test};

pub const TESTS: &[Test] = &[
    Test {
        asks: "each of three that is left may write, and only then",
        points: 0,
        run: |solution| {
            for pages in [16, 512] {
                for left in [1, 2, 3] {
                    let folio = Folio::new(solution, pages);
                    (1..=3).for_each(|mm| folio.add(mm, pages));
                    for mm in (1..=3).filter(|mm| *mm != left) {
                        assert!(!folio.reuse(left));
                        folio.remove(mm, pages / 2);
                        folio.remove(mm, pages / 2);
                    }
                    assert!(folio.reuse(left));
                    assert!(folio.remove(left, pages));
                }
            }
        },
    },
    Test {
        asks: "owners whose numbers differ in one bit, or have another for their mean",
        points: 0,
        run: |solution| {
            for (mm, others) in [(2, [1, 3]), (64, [63, 65])] {
                let folio = Folio::new(solution, 16);
                folio.add(mm, 2);
                others.iter().for_each(|other| folio.add(*other, 1));
                assert!(!folio.reuse(mm));
            }
            for bit in 0..8 {
                for pages in [2, 4, 8, 16, 32, 64, 128, 256, 512] {
                    let folio = Folio::new(solution, pages);
                    folio.add(255, pages / 2);
                    folio.add(255 ^ 1 << bit, pages / 2);
                    assert!(!folio.reuse(255), "{bit}");
                }
            }
        },
    },
    Test {
        asks: "pins count, but for those that are known",
        points: 0,
        run: |solution| {
            for pages in [2, 16, 512] {
                for pins in [1, 2, 15, 16, 17, 255, 256, 4000] {
                    let folio = Folio::new(solution, pages);
                    folio.add(1, pages);
                    folio.add(PLAIN, pins);
                    assert!(!folio.reuse(1) && folio.reuse_but(1, pins), "{pins}");
                    assert!(!folio.reuse_but(1, pins - 1), "{pins}");
                    folio.add(2, 1);
                    assert!(!folio.reuse_but(1, pins), "{pins}");
                }
            }
        },
    },
    Test {
        asks: "the last one of two that go at the same time frees",
        points: 0,
        run: |solution| {
            for seed in 0..500 {
                let folio = Folio::new(solution, 16).busy(seed);
                folio.add(1, 16);
                folio.add(9, 16);
                for mm in 1..=9 {
                    if folio.held(mm) > 0 {
                        folio.remove(mm, folio.held(mm));
                    }
                }
            }
        },
    },
];
