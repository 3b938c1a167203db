//! Lab 5: the tests that come with it.

use super::{ENTRIES, Machine, NoMemory, Subject, Test};

pub const TESTS: &[Test] = &[
    Test {
        asks: "the child gets each page of the range, and nothing else",
        points: 0,
        run: complete,
    },
    Test {
        asks: "single pages are shared: nothing is copied, and neither may write",
        points: 10,
        run: |solution| {
            let mut machine = Machine::new();
            // No two of them follow each other.
            (0..ENTRIES).for_each(|index| machine.map(index, 1000 - index as u64, 1));
            machine.read_only(100, 50);
            done(solution, &mut machine);
            all_shared(&machine);
        },
    },
    Test {
        asks: "the pages of a folio are counted by one update",
        points: 10,
        run: by_folio,
    },
    Test {
        asks: "so are those of a part of a folio, up to a hole, to the end of the range, or to \
               another folio",
        points: 5,
        run: in_parts,
    },
    Test {
        asks: "a pinned folio is copied, and the parent may write to it as before",
        points: 5,
        run: pinned,
    },
    Test {
        asks: "when there is no memory it ends, and what was shared until then is right",
        points: 5,
        run: out_of_memory,
    },
];

fn done(solution: &Subject, machine: &mut Machine) {
    let result = machine.fork(solution, 0..ENTRIES);
    assert_eq!(result, Ok(()), "there was memory for everything");
}

/// Nothing was copied, and the child has what the parent has.
fn all_shared(machine: &Machine) {
    let copies = machine.copies();
    assert!(
        copies == 0,
        "{copies} pages were copied: all of them may be shared"
    );
    for index in 0..ENTRIES {
        let (parent, child) = (machine.parent(index), machine.child(index));
        assert!(
            parent == child && parent.is_none_or(|entry| !entry.writable),
            "entry {index} of the parent says {parent:?}, of the child {child:?}"
        );
    }
}

pub(super) fn updates(machine: &Machine, wanted: usize) {
    let updates = machine.updates();
    assert!(
        updates == wanted,
        "{updates} updates of references; {wanted} runs of one folio were to be counted"
    );
}

fn complete(solution: &Subject) {
    for range in [0..ENTRIES, 16..48, 20..21, 511..512, 7..7] {
        let mut machine = Machine::new();
        machine.folio(512, 512);
        machine.map(0, 512, ENTRIES);
        assert_eq!(machine.fork(solution, range.clone()), Ok(()));
        for index in 0..ENTRIES {
            let (has, wanted) = (machine.child(index).is_some(), range.contains(&index));
            assert!(has == wanted, "range {range:?}, entry {index}");
        }
    }
}

fn by_folio(solution: &Subject) {
    for pages in [2, 16, 512] {
        let mut machine = Machine::new();
        for index in (0..ENTRIES).step_by(pages) {
            // Each folio lies beside the next one.
            machine.folio(512 + index as u64, pages as u64);
            machine.map(index, 512 + index as u64, pages);
        }
        done(solution, &mut machine);
        all_shared(&machine);
        updates(&machine, ENTRIES / pages);
    }
}

fn in_parts(solution: &Subject) {
    let mut machine = Machine::new();
    machine.folio(64, 64);
    // Two parts with a hole between them; one page at a place of its own; the last part at the end.
    machine.map(10, 64, 20);
    machine.map(31, 85, 3);
    machine.map(34, 120, 1);
    machine.map(500, 100, 12);
    done(solution, &mut machine);
    all_shared(&machine);
    updates(&machine, 4);

    let mut machine = Machine::new();
    machine.folio(64, 64);
    machine.map(0, 64, 64);
    assert_eq!(machine.fork(solution, 8..24), Ok(()));
    updates(&machine, 1);
    assert_eq!(machine.fork(solution, 24..64), Ok(()));
    updates(&machine, 2);
}

/// Three folios, of which a device uses the second.
fn with_a_pin() -> Machine {
    let mut machine = Machine::new();
    for (at, first) in [64, 80, 96].into_iter().enumerate() {
        machine.folio(first, 16);
        machine.map(16 * at, first, 16);
    }
    machine.pin(83);
    machine
}

fn pinned(solution: &Subject) {
    let mut machine = with_a_pin();
    done(solution, &mut machine);
    let copies = machine.copies();
    assert!(
        copies == 16,
        "{copies} pages were copied; the folio that is pinned has 16"
    );
    updates(&machine, 2);
    for index in 0..48 {
        let (parent, child) = (machine.parent(index), machine.child(index));
        let (Some(parent), Some(child)) = (parent, child) else {
            panic!("entry {index} is absent");
        };
        let copied = (16..32).contains(&index);
        assert!(
            (parent.frame != child.frame) == copied && parent.writable == copied,
            "entry {index}: {parent:?}, and in the child {child:?}"
        );
    }
}

fn out_of_memory(solution: &Subject) {
    for pages in 0..16 {
        let mut machine = with_a_pin();
        machine.memory(pages);
        let result = machine.fork(solution, 0..ENTRIES);
        assert_eq!(result, Err(NoMemory), "16 pages are to be copied");
        let copies = machine.copies();
        assert!(copies == pages, "{copies} pages were copied of {pages}");
        updates(&machine, 1);
    }
    let mut machine = with_a_pin();
    machine.memory(16);
    done(solution, &mut machine);
}
