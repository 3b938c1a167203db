//! Lab 2: the tests that are held back.

use super::{MAX_ORDER, Machine, Subject, Test, frames};
use crate::Random;
use alloc::vec::Vec;

pub const TESTS: &[Test] = &[
    Test {
        asks: "20,000 steps at random: at the end memory is in one piece again",
        points: 5,
        run: at_random,
    },
    Test {
        asks: "a block of each order is split for each smaller one, and merges again",
        points: 0,
        run: each_order,
    },
    Test {
        asks: "small caches, and large ones",
        points: 0,
        run: each_cache,
    },
];

fn at_random(solution: &Subject) {
    let mut random = Random(1);
    let all = [(1 << 12, 12), (1 << 14, 8)];
    let mut machine = Machine::new(&all).with_cache(0, 64);
    let mut used = Vec::new();
    for _ in 0..20_000 {
        let single = random.below(2) == 0;
        if random.below(2) == 0 || used.is_empty() {
            let order = if single { 0 } else { random.below(8) as u8 };
            let frame = match single {
                true => machine.alloc(solution),
                false => machine.take(solution, order),
            };
            used.extend(frame.map(|frame| (frame, order, single)));
        } else {
            let at = random.below(used.len() as u64) as usize;
            give_back(solution, &mut machine, used.swap_remove(at));
        }
    }
    for block in used {
        give_back(solution, &mut machine, block);
    }
    machine.uncache(solution);
    assert_eq!(machine.free(), all);
}

fn give_back(solution: &Subject, machine: &mut Machine, (frame, order, single): (u64, u8, bool)) {
    match single {
        true => machine.free_cached(solution, frame),
        false => machine.give(solution, frame, order),
    }
}

fn each_order(solution: &Subject) {
    let start = frames(MAX_ORDER);
    for found in 0..=MAX_ORDER {
        let mut all = Vec::from([(start, found)]);
        if found < MAX_ORDER {
            all.push((4 * start, MAX_ORDER));
        }
        for order in 0..=found {
            let mut machine = Machine::new(&all);
            let taken = machine.take(solution, order);
            let inside = |frame: &u64| (start..start + frames(found)).contains(frame);
            let Some(frame) = taken.filter(inside) else {
                panic!("order {order}, where one of order {found} is free: {taken:x?}");
            };
            machine.give(solution, frame, order);
            assert_eq!(machine.free(), all, "order {order} was taken, and given");
        }
    }
    for order in 0..MAX_ORDER {
        for (free, given) in [(0, frames(order)), (frames(order), 0)] {
            let mut machine = Machine::new(&[(free, order)]);
            machine.give(solution, given, order);
            assert_eq!(machine.free(), [(0, order + 1)], "frame {given:#x} came");
        }
    }
}

fn each_cache(solution: &Subject) {
    for (order, capacity) in [(0, 8), (0, 128), (3, 64), (1, 256)] {
        let mut machine = Machine::new(&[(0, 14)]).with_cache(order, capacity);
        assert!(machine.alloc(solution).is_some(), "there is memory");
        let (kept, most) = (machine.cached().len() + 1, capacity / 2);
        assert!(
            (most / 2..=most).contains(&kept),
            "{kept} blocks are kept, {most} may be"
        );
        let mut machine = Machine::new(&[]).with_cache(order, capacity);
        // Every other one: none merges.
        for block in 0..=capacity as u64 {
            machine.free_cached(solution, (2 * block) << order);
        }
        let (drained, batch) = (machine.free().len(), capacity / 4);
        assert!(
            (batch / 2..=2 * batch).contains(&drained),
            "{drained} of {capacity} blocks were drained, a batch is {batch}"
        );
    }
}
