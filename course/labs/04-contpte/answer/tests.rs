//! Lab 4: tests that find each broken solution.

use super::{ENTRIES, Machine, Test, Used, entries};

const WRITTEN: Used = Used { accessed: true, dirty: true };

pub const TESTS: &[Test] = &[
    Test {
        asks: "where a block begins and ends",
        points: 0,
        run: |solution| {
            // Frames from 64 on: a folio of 64, or four, or sixteen.
            for (first, folio, may) in
                [(64, 64, true), (80, 16, true), (72, 64, false), (64, 8, false), (64, 4, false)]
            {
                let machine = Machine::new(entries(first), folio);
                assert_eq!(solution.may_fold(&machine), may, "{first} {folio}");
            }
        },
    },
    Test {
        asks: "one entry that is not like the others, at each place",
        points: 0,
        run: |solution| {
            for index in 0..ENTRIES {
                let mut block = entries(64);
                block[index].as_mut().unwrap().used = WRITTEN;
                assert!(solution.may_fold(&Machine::new(block, 16)), "{index}");
                assert_eq!(solution.used(&Machine::new(block, 16)), WRITTEN, "{index}");
                for other in (0..ENTRIES).filter(|other| *other != index) {
                    let mut block = block;
                    block[other].as_mut().unwrap().used.accessed = true;
                    assert_eq!(solution.used(&Machine::new(block, 16)), WRITTEN, "{other} {index}");
                }
                for bit in 0..32 {
                    block[index].as_mut().unwrap().rights = 3 ^ 1 << bit;
                    assert!(!solution.may_fold(&Machine::new(block, 16)), "{index} {bit}");
                }
            }
        },
    },
    Test {
        asks: "nothing is lost, and nothing held twice, while another CPU works",
        points: 0,
        run: |solution| {
            for seed in 0..200 {
                let mut machine = Machine::new(entries(64), 16).busy(seed);
                (0..ENTRIES).for_each(|page| assert!(machine.read(page)));
                solution.fold(&mut machine);
                (0..ENTRIES).for_each(|page| assert!(machine.read(page)));
                solution.unfold(&mut machine);
                (0..ENTRIES).for_each(|page| assert!(machine.read(page)));
            }
        },
    },
    Test {
        asks: "a written page keeps the whole block dirty",
        points: 0,
        run: |solution| {
            for before in [true, false] {
                let mut machine = Machine::new(entries(64), 16);
                assert!(!before || machine.write(5));
                solution.fold(&mut machine);
                assert!(before || machine.write(5));
                assert_eq!(solution.used(&machine), WRITTEN);
                solution.unfold(&mut machine);
                machine.now().iter().for_each(|entry| assert_eq!(entry.unwrap().used, WRITTEN));
            }
        },
    },
    Test {
        asks: "two pages are used, both before a fold or both after it",
        points: 0,
        run: |solution| {
            let all = (0..ENTRIES).flat_map(|one| (0..ENTRIES).map(move |other| (one, other)));
            for ((one, other), written) in all.flat_map(|two| [(two, false), (two, true)]) {
                for before in [true, false] {
                    let mut machine = Machine::new(entries(64), 16);
                    let access = |machine: &Machine| {
                        assert!(machine.read(one));
                        assert!(if written { machine.write(other) } else { machine.read(other) });
                    };
                    if before {
                        access(&machine);
                    }
                    solution.fold(&mut machine);
                    if !before {
                        access(&machine);
                    }
                    let truth = machine.truth_of_all();
                    assert_eq!(solution.used(&machine), truth, "{one} {other}");
                    solution.unfold(&mut machine);
                    machine.now().iter().for_each(|entry| assert_eq!(entry.unwrap().used, truth));
                    (0..ENTRIES).for_each(|page| assert!(machine.read(page)));
                }
            }
        },
    },
    Test {
        asks: "several pages are written before the fold",
        points: 0,
        run: |solution| {
            for pages in 1..=ENTRIES {
                let mut machine = Machine::new(entries(64), 16);
                (0..pages).for_each(|page| assert!(machine.write(page)));
                solution.fold(&mut machine);
                assert_eq!(solution.used(&machine), WRITTEN, "{pages}");
            }
        },
    },
];
