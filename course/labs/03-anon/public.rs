//! Lab 3: the tests that come with it.

use super::{Entry, Machine, Meanwhile, NoMemory, Subject, Test};

pub const TESTS: &[Test] = &[
    Test {
        asks: "a read maps the page of zeros, and takes no memory",
        points: 5,
        run: |solution| {
            let mut machine = Machine::new(16).folios(2);
            assert_eq!(machine.read(solution, 5), Ok(()));
            expect(&machine, 5, Entry::Zeros);
            assert_eq!(
                (machine.free(), machine.rss()),
                (1000, 0),
                "free pages, and RSS"
            );
        },
    },
    Test {
        asks: "a write maps a page, which is cleared and counted",
        points: 5,
        run: |solution| {
            let mut machine = Machine::new(16);
            assert_eq!(machine.write(solution, 5), Ok(()));
            expect(&machine, 5, Entry::Own);
            assert_eq!(
                (machine.free(), machine.rss()),
                (999, 1),
                "free pages, and RSS"
            );
            assert_eq!(machine.opened(), 1, "how often the lock was open");
        },
    },
    Test {
        asks: "a write to the page of zeros replaces it",
        points: 5,
        run: |solution| {
            let mut machine = Machine::new(16).folios(2);
            assert_eq!(machine.read(solution, 5), Ok(()));
            assert_eq!(machine.write(solution, 5), Ok(()));
            expect(&machine, 5, Entry::Own);
            expect(&machine, 4, Entry::Absent);
            assert_eq!(
                (machine.free(), machine.rss()),
                (999, 1),
                "free pages, and RSS"
            );
        },
    },
    Test {
        asks: "a folio is mapped whole, where the policy has it",
        points: 5,
        run: |solution| {
            for order in 0..=3 {
                let mut machine = Machine::new(16).folios(order);
                assert_eq!(machine.write(solution, 5), Ok(()));
                let frames = machine.frames();
                assert_eq!(
                    frames.len(),
                    1 << order,
                    "pages that are mapped: {frames:x?}"
                );
                assert_eq!(machine.rss(), 1 << order, "RSS");
            }
        },
    },
    Test {
        asks: "where memory is short, a smaller folio will do, and reads need none",
        points: 5,
        run: short,
    },
    Test {
        asks: "another thread was faster: its page stays, and nothing is lost",
        points: 5,
        run: |solution| {
            for order in [0, 2] {
                let script = [Meanwhile::Write(5)];
                let mut machine = Machine::new(16).folios(order).meanwhile(&script);
                assert_eq!(machine.write(solution, 5), Ok(()));
                expect(&machine, 5, Entry::Own);
                assert_eq!(
                    (machine.free(), machine.rss()),
                    (999, 1),
                    "free pages, and RSS"
                );
            }
        },
    },
    Test {
        asks: "another thread changed what is there or beside it",
        points: 5,
        run: disturbed,
    },
];

fn expect(machine: &Machine, page: u64, entry: Entry) {
    let now = machine.entry(page);
    assert!(now == entry, "page {page} is {now:?}, not {entry:?}");
}

fn short(solution: &Subject) {
    let mut machine = Machine::new(16).folios(3).memory(1000, 1);
    assert_eq!(
        machine.write(solution, 5),
        Ok(()),
        "there are folios of order 1"
    );
    assert_eq!(
        machine.frames().len(),
        2,
        "pages that are mapped: two are the most"
    );
    let mut machine = Machine::new(16).folios(3).memory(1, 0);
    assert_eq!(machine.write(solution, 5), Ok(()), "there is a page");
    assert_eq!(
        machine.write(solution, 9),
        Err(NoMemory),
        "there is no page"
    );
    expect(&machine, 9, Entry::Absent);
    assert_eq!(
        machine.read(solution, 9),
        Ok(()),
        "the page of zeros needs none"
    );
    assert_eq!(
        machine.write(solution, 9),
        Err(NoMemory),
        "there is no page"
    );
    expect(&machine, 9, Entry::Zeros);
    assert_eq!(
        (machine.free(), machine.rss()),
        (0, 1),
        "free pages, and RSS"
    );
}

fn disturbed(solution: &Subject) {
    // The page of zeros came, at the page and beside it.
    for (page, own) in [(5, 1), (6, 2), (7, 2), (9, 4)] {
        let script = [Meanwhile::Read(page)];
        let mut machine = Machine::new(16).folios(2).meanwhile(&script);
        assert_eq!(machine.write(solution, 5), Ok(()));
        expect(&machine, 5, Entry::Own);
        assert_eq!(
            machine.frames().len(),
            own,
            "pages, with page {page} in the way"
        );
        assert_eq!(machine.free() + machine.rss(), 1000, "free pages and RSS");
    }
    // The page of zeros went.
    let script = [Meanwhile::Nothing, Meanwhile::Discard(5)];
    let mut machine = Machine::new(16).meanwhile(&script);
    assert_eq!(machine.write(solution, 4), Ok(()));
    assert_eq!(machine.read(solution, 5), Ok(()));
    assert_eq!(machine.write(solution, 5), Ok(()));
    expect(&machine, 5, Entry::Own);
    // The area went.
    let mut machine = Machine::new(16).folios(3).meanwhile(&[Meanwhile::Unmap]);
    assert_eq!(
        machine.write(solution, 5),
        Ok(()),
        "there is nothing to do any more"
    );
    assert_eq!(
        (machine.free(), machine.rss()),
        (1000, 0),
        "free pages, and RSS"
    );
}
