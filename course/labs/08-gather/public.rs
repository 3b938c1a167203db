//! Lab 8: the tests that come with it.

use super::{CAPACITY, Machine, Subject, Test};
use core::ops::Range;

pub const TESTS: &[Test] = &[
    Test {
        asks: "memory is given back when no TLB holds it any more, on one CPU and on four",
        points: 0,
        run: |solution| {
            for cpus in [1, 4] {
                for pages in [7..8, 7..20, 0..600] {
                    let mut machine = all_read(cpus, pages.clone());
                    machine.unmap(solution, pages);
                    machine.finish(solution);
                }
            }
        },
    },
    Test {
        asks: "a right that is taken away is flushed, too, though no memory is given back",
        points: 0,
        run: |solution| {
            for pages in [7..8, 7..20, 0..600] {
                let mut machine = all_read(2, pages.clone());
                machine.protect(solution, pages);
                machine.finish(solution);
            }
        },
    },
    Test {
        asks: "a few pages are flushed together, and nothing else is",
        points: 10,
        run: together,
    },
    Test {
        asks: "there is room for 64 pieces of memory: one flush for so many",
        points: 5,
        run: full,
    },
    Test {
        asks: "of many pages all goes at once",
        points: 5,
        run: many,
    },
    Test {
        asks: "no CPU is interrupted that has nothing of the space",
        points: 5,
        run: strangers,
    },
    Test {
        asks: "one that has left the space may hold what it has read there; one that comes late, too",
        points: 10,
        run: left_and_late,
    },
];

/// All CPUs have read all pages, which are mapped, and page 1000.
pub(super) fn all_read(cpus: usize, pages: Range<u64>) -> Machine {
    let mut machine = Machine::new(cpus);
    machine.map(pages.clone());
    machine.map(1000..1001);
    for cpu in 0..cpus {
        machine.run(cpu);
        pages.clone().chain([1000]).for_each(|page| {
            machine.read(cpu, page);
        });
    }
    machine
}

fn flushes(machine: &Machine, wanted: usize) {
    let flushes = machine.flushes();
    assert!(
        flushes == wanted,
        "CPUs were told to drop something {flushes} times, {wanted} would do"
    );
}

fn together(solution: &Subject) {
    for pages in [7..8, 7..15, 7..39] {
        let mut machine = all_read(2, pages.clone());
        machine.unmap(solution, pages.start..pages.end - 1);
        machine.protect(solution, pages.end - 1..pages.end);
        machine.finish(solution);
        flushes(&machine, 1);
        for cpu in 0..2 {
            assert!(
                machine.cached(cpu) > 0,
                "for {pages:?} CPU {cpu} has dropped page 1000, which was not changed"
            );
        }
        // The next batch owes nothing of this one.
        let before = machine.singly();
        machine.unmap(solution, 1000..1001);
        machine.finish(solution);
        let singly = machine.singly() - before;
        assert!(
            singly == 2,
            "{singly} pages were dropped one by one on two CPUs, of one that was unmapped"
        );
    }
    let mut machine = all_read(2, 7..8);
    machine.finish(solution);
    flushes(&machine, 0);
}

fn full(solution: &Subject) {
    let end = 4 * CAPACITY as u64;
    let mut machine = all_read(1, 0..end);
    machine.unmap(solution, 0..end);
    machine.finish(solution);
    let flushes = machine.flushes();
    assert!(
        flushes <= 5,
        "{end} pages were unmapped with {flushes} flushes"
    );
}

fn many(solution: &Subject) {
    let mut machine = all_read(2, 0..600);
    machine.protect(solution, 0..300);
    machine.protect(solution, 300..600);
    machine.finish(solution);
    flushes(&machine, 1);
    let singly = machine.singly();
    assert!(singly == 0, "{singly} pages were dropped one by one");
    // Two pages that lie far from each other are few, or many: as you like it. But not a million.
    let mut machine = all_read(2, 7..8);
    machine.map(1 << 20..(1 << 20) + 1);
    machine.unmap(solution, 7..8);
    machine.unmap(solution, 1 << 20..(1 << 20) + 1);
    machine.finish(solution);
    let singly = machine.singly();
    assert!(singly <= 4, "{singly} pages were dropped one by one");
}

fn strangers(solution: &Subject) {
    let mut machine = Machine::new(8);
    machine.map(0..40);
    machine.run(5);
    machine.read(5, 3);
    machine.unmap(solution, 3..4);
    machine.finish(solution);
    let interrupts = machine.interrupts();
    assert!(
        interrupts == 1,
        "CPU 5 is in the space, and {interrupts} were interrupted"
    );
    // All that CPU 5 has of the space goes when it has left; then it is left alone.
    machine.leave(5);
    machine.protect(solution, 4..40);
    machine.finish(solution);
    machine.protect(solution, 4..5);
    machine.finish(solution);
    let interrupts = machine.interrupts();
    assert!(
        interrupts == 2,
        "CPU 5 dropped all of the space when it had left, and there were {interrupts} interrupts"
    );
}

fn left_and_late(solution: &Subject) {
    let mut machine = Machine::new(3);
    machine.map(0..4);
    machine.run(1);
    (0..4).for_each(|page| {
        machine.read(1, page);
    });
    machine.leave(1);
    machine.unmap(solution, 0..1);
    // CPU 2 comes when the batch has begun.
    machine.run(2);
    (1..4).for_each(|page| {
        machine.read(2, page);
    });
    machine.unmap(solution, 1..2);
    machine.protect(solution, 2..3);
    machine.finish(solution);
    // CPU 1 comes back, and has what it had.
    machine.run(1);
    assert!(!machine.read(1, 0) && !machine.read(1, 1) && machine.read(1, 3));
    flushes(&machine, 1);
}
