//! Lab 4: the tests that come with it.

use super::{Block, ENTRIES, Entry, Machine, Subject, Test, Used, entries};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub const TESTS: &[Test] = &[
    Test {
        asks: "16 pages of one folio fold: all 16 entries get the contiguous bit, and stay the same",
        points: 5,
        run: |solution| {
            let mut machine = Machine::new(entries(32), 16);
            fold(solution, &mut machine);
            changed(&machine, entries(32), true);
        },
    },
    Test {
        asks: "only a complete block of one folio folds, aligned in memory",
        points: 5,
        run: only_complete,
    },
    Test {
        asks: "accessed and dirty may differ in a block; nothing else may",
        points: 5,
        run: only_alike,
    },
    Test {
        asks: "unfold gives each page an entry of its own again",
        points: 5,
        run: |solution| {
            let mut machine = Machine::new(entries(32), 16);
            fold(solution, &mut machine);
            solution.unfold(&mut machine);
            changed(&machine, entries(32), false);
        },
    },
    Test {
        asks: "what the TLB held before is gone after",
        points: 5,
        run: |solution| {
            let mut machine = Machine::new(entries(32), 16);
            read_all(&machine);
            fold(solution, &mut machine);
            read_all(&machine);
            solution.unfold(&mut machine);
            read_all(&machine);
        },
    },
    Test {
        asks: "used: what any one of the 16 entries says",
        points: 5,
        run: any_one,
    },
    Test {
        asks: "a page that was written stays dirty through fold and unfold",
        points: 5,
        run: stays_dirty,
    },
];

/// Folds what may be.
pub(super) fn fold(solution: &Subject, machine: &mut Machine) {
    let may = solution.may_fold(machine);
    assert!(
        may,
        "may_fold is false for a block that may: {}",
        shown(machine)
    );
    solution.fold(machine);
}

/// First frame and length of a folio, and what is unlike the rest.
fn shown(machine: &Machine) -> String {
    let all: Vec<Entry> = machine.now().into_iter().flatten().collect();
    let first = all.first().map_or(0, |entry| entry.frame);
    let folio = machine.folio(first);
    format!(
        "{} entries, the first maps frame {first} of the folio {folio:?}",
        all.len()
    )
}

/// Each entry maps what it did, and has the bit or not.
pub(super) fn changed(machine: &Machine, old: [Option<Entry>; ENTRIES], contiguous: bool) {
    for (index, (old, new)) in old.into_iter().zip(machine.now()).enumerate() {
        let (Some(old), Some(new)) = (old, new) else {
            panic!("entry {index} is absent");
        };
        let kept = (new.frame, new.rights) == (old.frame, old.rights);
        assert!(kept, "entry {index} said {old:x?}, and says {new:x?}");
        let bit = new.contiguous;
        assert!(
            bit == contiguous,
            "the contiguous bit of entry {index} is {bit}"
        );
    }
}

pub(super) fn read_all(machine: &Machine) {
    for page in 0..ENTRIES {
        assert!(machine.read(page), "page {page} faults");
    }
}

fn only_complete(solution: &Subject) {
    let may = |entries, folio| solution.may_fold(&Machine::new(entries, folio));
    for (first, folio) in [(32, 16), (32, 32), (48, 32), (1024, 512)] {
        assert!(
            may(entries(first), folio),
            "frame {first}, folios of {folio} pages"
        );
    }
    for index in 0..ENTRIES {
        let mut block = entries(32);
        block[index] = None;
        assert!(!may(block, 16), "entry {index} is absent");
        block[index] = entries(512)[index];
        assert!(!may(block, 16), "entry {index} maps another folio");
    }
    for first in [33, 40, 47] {
        assert!(
            !may(entries(first), 64),
            "the first frame is {first}, no multiple of 16"
        );
    }
    for folio in [1, 4, 8] {
        assert!(!may(entries(32), folio), "a folio has {folio} pages");
    }
}

fn only_alike(solution: &Subject) {
    let may = |entries| solution.may_fold(&Machine::new(entries, 16));
    for index in 0..ENTRIES {
        let with = |used, rights| {
            let mut block = entries(32);
            if let Some(entry) = &mut block[index] {
                (entry.used, entry.rights) = (used, entry.rights ^ rights);
            }
            block
        };
        for used in uses() {
            assert!(may(with(used, 0)), "entry {index} alone is {used:?}");
            assert!(
                !may(with(used, 2)),
                "the others may be written to, entry {index} not"
            );
        }
    }
}

/// Accessed, or dirty too.
pub(super) fn uses() -> [Used; 2] {
    [false, true].map(|dirty| Used {
        accessed: true,
        dirty,
    })
}

fn any_one(solution: &Subject) {
    for used in uses() {
        for index in 0..ENTRIES {
            let folded = |entry: Entry| Entry {
                contiguous: true,
                ..entry
            };
            let mut block = entries(32).map(|entry| entry.map(folded));
            if let Some(entry) = &mut block[index] {
                entry.used = used;
            }
            let answer = solution.used(&Machine::new(block, 16));
            assert!(
                answer == used,
                "entry {index} says {used:?}, the answer is {answer:?}"
            );
        }
    }
}

fn stays_dirty(solution: &Subject) {
    for page in 0..ENTRIES {
        for before in [true, false] {
            let mut machine = Machine::new(entries(32), 16);
            let write = |machine: &Machine| assert!(machine.write(page), "page {page} faults");
            if before {
                write(&machine);
            }
            fold(solution, &mut machine);
            if !before {
                write(&machine);
            }
            let (truth, answer) = (machine.truth_of_all(), solution.used(&machine));
            assert!(
                answer == truth,
                "page {page} was written, the answer is {answer:?}"
            );
            solution.unfold(&mut machine);
            for (index, entry) in machine.now().into_iter().enumerate() {
                let says = entry.map(|entry| entry.used);
                assert!(
                    says == Some(truth),
                    "a page of the block was written, entry {index} says {says:?} after unfold"
                );
            }
        }
    }
}
