//! Lab 6: the tests that come with it.

use super::{Folio, PLAIN, Subject, Test};

pub const TESTS: &[Test] = &[
    Test {
        asks: "a folio is free when the last reference goes, whoever had them, and no sooner",
        points: 0,
        run: freed,
    },
    Test {
        asks: "who alone maps a folio may write to it, though not all of it is mapped",
        points: 5,
        run: |solution| {
            for pages in [2, 16, 512] {
                let folio = Folio::new(solution, pages);
                folio.add(7, pages);
                own(&folio, 7);
                folio.remove(7, pages - 1);
                own(&folio, 7);
            }
        },
    },
    Test {
        asks: "after a fork neither may write; who is left may, be it parent or child",
        points: 10,
        run: left_over,
    },
    Test {
        asks: "of several that have each a part of a folio none may write",
        points: 5,
        run: in_parts,
    },
    Test {
        asks: "whoever they are: each two and each three of 255",
        points: 5,
        run: each_of_255,
    },
    Test {
        asks: "a pin keeps a folio in use, and shared, unless who asks knows of it",
        points: 5,
        run: pinned,
    },
    Test {
        asks: "more references than pages, and fewer again",
        points: 5,
        run: crowded,
    },
];

fn own(folio: &Folio<'_>, mm: u8) {
    let (held, all) = (folio.held(mm), folio.references());
    assert!(
        folio.reuse(mm),
        "{mm} has {held} references, there are {all}: it is alone, and may not write"
    );
}
fn shared(folio: &Folio<'_>, mm: u8) {
    // The folio itself says what is wrong.
    assert!(!folio.reuse(mm));
}

fn freed(solution: &Subject) {
    let folio = Folio::new(solution, 16);
    for (first, last) in [(1, 2), (2, 1), (200, PLAIN), (PLAIN, 9), (3, 3)] {
        folio.add(first, 5);
        folio.add(last, 7);
        assert!(!folio.remove(first, 5));
        assert!(!folio.remove(last, 6));
        assert!(folio.remove(last, 1));
    }
}

fn left_over(solution: &Subject) {
    for pages in [4, 16, 512] {
        for left in [1, 2, 3, 4] {
            let folio = Folio::new(solution, pages);
            folio.add(1, pages);
            for child in 2..=4 {
                folio.add(child, pages);
                (1..=child).for_each(|mm| shared(&folio, mm));
            }
            for gone in (1..=4).filter(|gone| *gone != left) {
                shared(&folio, left);
                folio.remove(gone, pages);
            }
            own(&folio, left);
        }
    }
}

fn in_parts(solution: &Subject) {
    for pages in [4, 16, 512] {
        let folio = Folio::new(solution, pages);
        folio.add(3, pages / 2);
        folio.add(4, 1);
        shared(&folio, 3);
        shared(&folio, 4);
        folio.add(5, pages / 4);
        (3..=5).for_each(|mm| shared(&folio, mm));
        folio.remove(3, pages / 2);
        folio.remove(5, pages / 4);
        own(&folio, 4);
    }
}

fn each_of_255(solution: &Subject) {
    for one in 1..=u8::MAX {
        for two in 1..one {
            let folio = Folio::new(solution, 16);
            folio.add(one, 1);
            folio.add(two, 1);
            shared(&folio, one);
            shared(&folio, two);
            // A third one, between the two.
            let third = one / 2 + two / 2 + (one & two & 1);
            if third != one && third != two {
                folio.add(third, 2);
                shared(&folio, third);
                folio.remove(one, 1);
                folio.remove(two, 1);
                own(&folio, third);
            }
        }
    }
}

fn pinned(solution: &Subject) {
    for mm in [1, 2, 77, 255] {
        let folio = Folio::new(solution, 64);
        folio.add(mm, 64);
        folio.add(PLAIN, 3);
        shared(&folio, mm);
        assert!(
            folio.reuse_but(mm, 3),
            "all that is not {mm}'s are 3 pins, of which it knows"
        );
        assert!(!folio.reuse_but(mm, 2));
        let other = mm ^ 64;
        folio.add(other, 2);
        assert!(!folio.reuse_but(mm, 3));
        folio.add(PLAIN, 2);
        assert!(!folio.reuse_but(mm, 3));
        assert!(!folio.reuse_but(mm, 5));
        folio.remove(PLAIN, 2);
        folio.remove(mm, 64);
        folio.remove(other, 2);
        assert!(folio.remove(PLAIN, 3));
    }
}

fn crowded(solution: &Subject) {
    for pages in [2, 16, 512] {
        let folio = Folio::new(solution, pages);
        for mm in 1..=255 {
            folio.add(mm, pages);
            if mm > 1 {
                shared(&folio, mm);
                shared(&folio, 1);
            }
        }
        for mm in (1..=255).filter(|mm| *mm != 100) {
            shared(&folio, 100);
            folio.remove(mm, pages);
        }
        own(&folio, 100);
    }
}
