//! Lab 8: tests that find each broken solution.

use super::{Machine, Test};

pub const TESTS: &[Test] = &[
    Test {
        asks: "four CPUs, a few pages: one flush, on each, of these",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new(4);
            machine.map(0..10);
            for cpu in 0..4 {
                machine.run(cpu);
                (0..10).for_each(|page| assert!(machine.read(cpu, page)));
            }
            machine.unmap(solution, 1..4);
            machine.unmap(solution, 6..7);
            machine.finish(solution);
            assert_eq!(machine.flushes(), 1);
            (0..4).for_each(|cpu| assert_eq!(machine.cached(cpu), 4));
        },
    },
    Test {
        asks: "only a right goes",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new(1);
            machine.map(0..2);
            assert!(machine.read(0, 0) && machine.read(0, 1));
            machine.protect(solution, 0..2);
            machine.finish(solution);
        },
    },
    Test {
        asks: "more memory than there is room for",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new(1);
            machine.map(0..100);
            (0..100).for_each(|page| assert!(machine.read(0, page)));
            machine.unmap(solution, 0..100);
            machine.finish(solution);
        },
    },
    Test {
        asks: "one CPU has left, another one comes late",
        points: 0,
        run: |solution| {
            let mut machine = Machine::new(3);
            machine.map(0..3);
            machine.run(1);
            assert!(machine.read(1, 1));
            machine.leave(1);
            machine.unmap(solution, 0..1);
            machine.run(2);
            assert!(machine.read(2, 1));
            machine.unmap(solution, 1..2);
            machine.finish(solution);
        },
    },
    Test {
        asks: "up and down: two changes with a gap between them, or side by side",
        points: 0,
        run: |solution| {
            for (first, second) in [(3, 4), (4, 3), (3, 6), (6, 3)] {
                let mut machine = Machine::new(1);
                machine.map(0..10);
                (0..10).for_each(|page| assert!(machine.read(0, page)));
                machine.unmap(solution, first..first + 1);
                machine.protect(solution, second..second + 1);
                machine.finish(solution);
                assert_eq!(machine.flushes(), 1);
                assert!(machine.cached(0) >= 6, "what was not changed may stay");
            }
        },
    },
    Test {
        asks: "only a right goes, on few pages: the others stay",
        points: 0,
        run: |solution| {
            for cpus in [1, 2] {
                let mut machine = Machine::new(cpus);
                machine.map(0..100);
                (1..cpus).for_each(|cpu| machine.run(cpu));
                for cpu in 0..cpus {
                    (0..100).for_each(|page| assert!(machine.read(cpu, page)));
                }
                machine.protect(solution, 10..12);
                machine.finish(solution);
                (0..cpus).for_each(|cpu| assert_eq!(machine.cached(cpu), 98));
            }
        },
    },
    Test {
        asks: "64 CPUs, one page and hundreds; all but CPU 0 have left",
        points: 0,
        run: |solution| {
            for pages in [1, 500] {
                let mut machine = Machine::new(64);
                machine.map(0..500);
                for cpu in 0..64 {
                    machine.run(cpu);
                    (0..500).step_by(100).for_each(|page| assert!(machine.read(cpu, page)));
                    if cpu > 0 {
                        machine.leave(cpu);
                    }
                }
                machine.protect(solution, 0..pages);
                machine.finish(solution);
            }
        },
    },
];
