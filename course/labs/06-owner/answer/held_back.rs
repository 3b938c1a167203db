//! Lab 6: the tests that are held back.

use super::{Folio, PLAIN, Subject, Test};
use crate::Random;

pub const TESTS: &[Test] = &[Test {
    asks: "4,000 folios at random, which other CPUs map and unmap meanwhile",
    points: 5,
    run: at_random,
}];

fn at_random(solution: &Subject) {
    let mut random = Random(1);
    for seed in 0..4000 {
        let pages = 2 << random.below(9);
        let folio = Folio::new(solution, pages).busy(seed);
        folio.add(1, pages);
        // One pin, a few, or many.
        let pins = [1, 8, 1000][random.below(3) as usize];
        for _ in 0..20 {
            let mm = 1 + random.below(8) as u8;
            let (held, n) = (folio.held(mm), 1 + random.below(pages));
            let pinned = folio.held(PLAIN);
            match random.below(8) {
                0 if held + n <= pages => folio.add(mm, n),
                1 if held > 0 => {
                    folio.remove(mm, n.min(held));
                }
                2 if held > 0 => {
                    folio.remove(mm, held);
                }
                3 if pinned == 0 => folio.add(PLAIN, 1 + random.below(pins)),
                4 if pinned > 0 => {
                    folio.remove(PLAIN, 1 + random.below(pinned));
                }
                _ if held > 0 => {
                    let known = [0, pinned / 2, pinned][random.below(3) as usize];
                    let alone = known == pinned && held + pinned == folio.references();
                    let answer = folio.reuse_but(mm, known);
                    // Nobody else is there who could do anything.
                    assert!(
                        answer || !alone,
                        "{mm} is alone, but for {pinned} pins that it knows, and may not write"
                    );
                }
                _ => {}
            }
            if folio.references() == 0 {
                break;
            }
        }
    }
}
