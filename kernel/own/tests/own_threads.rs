//! The account under real CPUs and the real 128-bit word; the models have every interleaving, this
//! has the hardware's.

use own::{
    Account, Digits, FirstOwner, Meter, MmId, Owner, Paged, Part, PerPage, Total, TwoSlot, Unified,
};

#[path = "common/book.rs"]
mod book;

use book::Sheet;

const ROUNDS: u32 = 20_000;

fn owner(id: u16) -> Owner {
    Owner::new(MmId::new(id).expect("an id"))
}

/// What a space does to a folio that another one keeps: maps it, pins it, asks, lets go in two
/// ways.
fn come_and_go(scheme: &impl Account, sheet: &Sheet, who: &Owner, pages: u32) {
    let meter = &mut Meter::default();
    for round in 0..ROUNDS {
        let n = 1 + round % pages;
        let part = Part::ptes(round % 2 * (pages - n), n);
        scheme.map(sheet, who, part, meter);
        scheme.add(sheet, &Owner::PLAIN, 1, meter);
        assert!(!scheme.exclusive(sheet, who), "the keeper has it, too");
        assert!(!scheme.sub(sheet, &Owner::PLAIN, 1, meter));
        if round % 2 == 0 {
            scheme.pass(sheet, who, &Owner::PLAIN, n, meter);
            assert!(!scheme.unmap(sheet, &Owner::PLAIN, part, meter));
        } else {
            assert!(!scheme.unmap(sheet, who, part, meter));
        }
    }
}

fn three_beside_a_keeper(scheme: &(impl Account + Sync), order: u8) {
    let (sheet, meter) = (&Sheet::new(order), &mut Meter::default());
    let pages = 1u32 << order;
    let keeper = owner(0x2aaa);
    scheme.begin(sheet, &keeper, Part::ptes(0, 1), meter);
    scheme.add(sheet, &Owner::PLAIN, 1, meter);
    std::thread::scope(|scope| {
        for id in [1, 0x5555, MmId::LAST] {
            scope.spawn(move || come_and_go(scheme, sheet, &owner(id), pages));
        }
        for _ in 0..ROUNDS {
            assert!(!scheme.exclusive(sheet, &keeper), "there is a pin");
        }
    });
    assert!(scheme.agrees(sheet, &[(keeper, 1), (Owner::PLAIN, 1)]));
    assert!(!scheme.sub(sheet, &Owner::PLAIN, 1, meter));
    assert!(scheme.unmap(sheet, &keeper, Part::ptes(0, 1), meter) && sheet.is_zero());
}

#[test]
fn unified() {
    [2, 4, 5, 9]
        .into_iter()
        .for_each(|order| three_beside_a_keeper(&Unified, order));
}

#[test]
fn digits() {
    for bits in 0..8 {
        let scheme = Digits {
            stored: bits & 1 != 0,
            exclusive: bits & 2 != 0,
            add: bits & 4 != 0,
            pages: false,
        };
        [2, 9]
            .into_iter()
            .for_each(|order| three_beside_a_keeper(&scheme, order));
    }
}

#[test]
fn two_slot() {
    [2, 9]
        .into_iter()
        .for_each(|order| three_beside_a_keeper(&TwoSlot, order));
}

#[test]
fn first_owner() {
    [2, 9]
        .into_iter()
        .for_each(|order| three_beside_a_keeper(&FirstOwner, order));
}

#[test]
fn per_page() {
    [2, 9]
        .into_iter()
        .for_each(|order| three_beside_a_keeper(&PerPage, order));
}

/// Counts of single pages by read-modify-writes, and under the seqcount.
#[test]
fn pages() {
    for (exclusive, add) in [(false, false), (true, false), (true, true)] {
        let scheme = Digits {
            exclusive,
            add,
            pages: true,
            ..Digits::default()
        };
        [2, 9]
            .into_iter()
            .for_each(|order| three_beside_a_keeper(&scheme, order));
    }
    three_beside_a_keeper(&Paged(Total), 2);
}

#[test]
fn total() {
    [2, 9]
        .into_iter()
        .for_each(|order| three_beside_a_keeper(&Total, order));
}
