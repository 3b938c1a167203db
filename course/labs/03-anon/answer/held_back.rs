//! Lab 3: the tests that are held back.

use super::{Entry, MAX_ORDER, Machine, Meanwhile, Subject, Test};
use crate::Random;
use alloc::vec::Vec;

pub const TESTS: &[Test] = &[
    Test {
        asks: "10,000 faults at random, with a thread that disturbs them",
        points: 5,
        run: at_random,
    },
    Test {
        asks: "folios of each order, and where there is none, of the largest that there is",
        points: 0,
        run: each_order,
    },
];

fn at_random(solution: &Subject) {
    let mut random = Random(1);
    for _ in 0..500 {
        let act = |random: &mut Random| {
            let page = random.below(16);
            match random.below(16) {
                0..6 => Meanwhile::Nothing,
                6..9 => Meanwhile::Read(page),
                9..12 => Meanwhile::Write(page),
                12..15 => Meanwhile::Discard(page),
                _ => Meanwhile::Unmap,
            }
        };
        let script: Vec<Meanwhile> = (0..20).map(|_| act(&mut random)).collect();
        let memory = 8 + random.below(40);
        let mut machine = Machine::new(16)
            .folios(random.below(4) as u8)
            .memory(memory, random.below(4) as u8)
            .meanwhile(&script);
        for _ in 0..20 {
            let page = random.below(16);
            // There may be no memory.
            let _ = match random.below(2) {
                0 => machine.read(solution, page),
                _ => machine.write(solution, page),
            };
            let own = machine.frames().len() as u64;
            assert_eq!(machine.rss(), own, "RSS, and pages that are mapped");
            assert_eq!(
                machine.free() + own,
                memory,
                "pages that are free or mapped"
            );
        }
    }
}

fn each_order(solution: &Subject) {
    for order in 0..=MAX_ORDER {
        for largest in 0..=order {
            let mut machine = Machine::new(1024).folios(order).memory(1024, largest);
            let result = machine.write(solution, 700);
            assert_eq!(result, Ok(()), "there are folios of order {largest}");
            assert_eq!(machine.entry(700), Entry::Own);
            let mapped = machine.frames().len() as u64;
            assert_eq!(mapped, 1 << largest, "pages that are mapped");
            assert_eq!(
                (machine.free(), machine.rss()),
                (1024 - mapped, mapped),
                "free pages, and RSS"
            );
        }
    }
}
