//! Lab 4: the tests that are held back.

use super::public::{changed, fold, read_all, uses};
use super::{ENTRIES, Entry, Machine, Subject, Test, Used, entries};
use crate::Random;

pub const TESTS: &[Test] = &[
    Test {
        asks: "1,000 blocks at random, which another CPU reads and writes meanwhile",
        points: 5,
        run: at_random,
    },
    Test {
        asks: "two pages are used, each before the fold or after it",
        points: 0,
        run: two_used,
    },
    Test {
        asks: "rights may differ in any bit",
        points: 0,
        run: any_bit,
    },
];

fn at_random(solution: &Subject) {
    let mut random = Random(1);
    for seed in 0..1000 {
        let first = 16 * random.below(64);
        let mut block = entries(first);
        for entry in block.iter_mut().flatten() {
            entry.used = [Used::default(), uses()[0], uses()[1]][random.below(3) as usize];
        }
        let mut machine = Machine::new(block, 16 << random.below(4)).busy(seed);
        fold(solution, &mut machine);
        changed(&machine, block, true);
        read_all(&machine);
        let known = machine.truth_of_all();
        let answer = solution.used(&machine);
        let before = machine.truth_of_all();
        assert!(
            answer.or(before) == before && answer.or(known) == answer,
            "{answer:?}, though programs did {known:?}, and then {before:?}"
        );
        solution.unfold(&mut machine);
        changed(&machine, block, false);
        read_all(&machine);
        for (page, (entry, truth)) in machine.now().iter().zip(machine.truth()).enumerate() {
            let says = entry.map(|entry| entry.used).unwrap_or_default();
            assert!(
                says.or(truth).or(before) == says,
                "page {page} is {truth:?}, its entry {says:?}"
            );
        }
    }
}

fn any_bit(solution: &Subject) {
    for index in 0..ENTRIES {
        for bit in 0..u32::BITS {
            let mut block = entries(32);
            if let Some(entry) = &mut block[index] {
                entry.rights ^= 1 << bit;
            }
            let may = solution.may_fold(&Machine::new(block, 16));
            assert!(!may, "entry {index} differs in bit {bit}");
        }
    }
}

fn two_used(solution: &Subject) {
    for pages in 0..ENTRIES * ENTRIES {
        for how in 0..16 {
            // Page, whether it is written, and whether that is before the fold.
            let two = [
                (pages / ENTRIES, how & 1 != 0, how & 2 != 0),
                (pages % ENTRIES, how & 4 != 0, how & 8 != 0),
            ];
            let mut machine = Machine::new(entries(32), 16);
            run(&machine, two, true);
            fold(solution, &mut machine);
            run(&machine, two, false);
            let (truth, answer) = (machine.truth_of_all(), solution.used(&machine));
            assert!(answer == truth, "{two:?} is {truth:?}, not {answer:?}");
            solution.unfold(&mut machine);
            for (index, entry) in machine.now().into_iter().enumerate() {
                let says = entry.map(|entry| entry.used);
                assert!(
                    says == Some(truth),
                    "{two:?} is {truth:?}, entry {index} says {says:?} after unfold"
                );
            }
            read_all(&machine);
        }
        // The hardware marks any entry of a folded block.
        let mut block = entries(32);
        for (index, used) in [pages / ENTRIES, pages % ENTRIES].into_iter().zip(uses()) {
            if let Some(entry) = &mut block[index] {
                entry.used = used;
            }
        }
        let folded = block.map(|entry| {
            entry.map(|entry| Entry {
                contiguous: true,
                ..entry
            })
        });
        let answer = solution.used(&Machine::new(folded, 16));
        assert!(
            answer == uses()[1],
            "the answer is {answer:?} for {folded:?}"
        );
    }
}

fn run(machine: &Machine, two: [(usize, bool, bool); 2], early: bool) {
    for (page, write, _) in two.into_iter().filter(|used| used.2 == early) {
        let done = match write {
            true => machine.write(page),
            false => machine.read(page),
        };
        assert!(done, "page {page} faults");
    }
}
