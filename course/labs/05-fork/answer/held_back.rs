//! Lab 5: the tests that are held back.

use super::public::updates;
use super::{ENTRIES, Machine, NoMemory, Subject, Test};
use crate::Random;

pub const TESTS: &[Test] = &[
    Test {
        asks: "1,000 tables at random",
        points: 5,
        run: at_random,
    },
    Test {
        asks: "a single page at each place of a table, pinned or not, with memory and without",
        points: 0,
        run: alone,
    },
];

fn at_random(solution: &Subject) {
    let mut random = Random(1);
    for _ in 0..1000 {
        let mut machine = Machine::new();
        // The whole table, or a part of it.
        let mut cut = || random.below(2) as usize * random.below(200) as usize;
        let range = cut()..ENTRIES - cut();
        let (mut index, mut frame, mut runs, mut pins) = (0, 512, 0, 0);
        while index < ENTRIES {
            let pages = 1 << random.below(7);
            let pinned = random.below(8) == 0;
            let skipped = random.below(2) * random.below(pages);
            let n = (pages - skipped).min((ENTRIES - index) as u64);
            machine.folio(frame, pages);
            machine.map(index, frame + skipped, n as usize);
            if random.below(4) == 0 {
                machine.read_only(index, 1 + random.below(n) as usize);
            }
            let end = index + n as usize;
            let told = (index.max(range.start)..end.min(range.end)).len();
            if pinned {
                machine.pin(frame);
                pins += told as u64;
            } else {
                runs += usize::from(told > 0);
            }
            frame += pages;
            index = end + random.below(2) as usize;
        }
        if random.below(4) == 0 && pins > 0 {
            pins = random.below(pins);
            machine.memory(pins);
            let result = machine.fork(solution, range);
            assert_eq!(result, Err(NoMemory), "there is memory for {pins} copies");
        } else {
            assert_eq!(machine.fork(solution, range), Ok(()));
            updates(&machine, runs);
        }
        let copies = machine.copies();
        assert!(
            copies == pins,
            "{copies} pages were copied, {pins} were to be"
        );
    }
}

fn alone(solution: &Subject) {
    for index in 0..ENTRIES {
        for (pinned, memory) in [(false, 0), (true, 1), (true, 0)] {
            let mut machine = Machine::new();
            machine.map(index, 700, 1);
            machine.memory(memory);
            if pinned {
                machine.pin(700);
            }
            let result = machine.fork(solution, 0..ENTRIES);
            let enough = !pinned || memory > 0;
            assert_eq!(result.is_ok(), enough, "entry {index}, pinned: {pinned}");
        }
    }
}
