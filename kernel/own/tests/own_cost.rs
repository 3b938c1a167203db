//! What the account costs: atomic read-modify-writes for each operation, as the schemes themselves
//! count them.

use own::{
    Account, Digits, FirstOwner, Meter, MmId, Owner, Part, PerPage, Total, TwoSlot, Unified,
};

#[path = "common/book.rs"]
mod book;

use book::Sheet;

/// Ids with few bits.
const SMALL: [u16; 2] = [1, 2];
/// Ids with all bits, nearly.
const LARGE: [u16; 2] = [MmId::LAST, MmId::LAST - 1];

/// [`costs_of`] spaces with small ids.
fn costs(scheme: &impl Account, order: u8) -> [u32; 6] {
    costs_of(SMALL, scheme, order)
}

/// Read-modify-writes of: begin, a second MM's mapping, a pin, a zap that waits for its flush, the
/// end of that, an unmap.
fn costs_of(ids: [u16; 2], scheme: &impl Account, order: u8) -> [u32; 6] {
    let [one, two] = ids.map(|id| Owner::new(MmId::new(id).expect("an id")));
    let sheet = Sheet::new(order);
    let mut costs = [0; 6];
    for (step, cost) in costs.iter_mut().enumerate() {
        let mut meter = Meter::default();
        match step {
            0 => scheme.begin(&sheet, &one, Part::ptes(0, 1 << order), &mut meter),
            1 => scheme.add(&sheet, &two, 1 << order, &mut meter),
            2 => scheme.add(&sheet, &Owner::PLAIN, 1, &mut meter),
            3 => scheme.pass(&sheet, &two, &Owner::PLAIN, 1 << order, &mut meter),
            4 => assert!(!scheme.sub(&sheet, &Owner::PLAIN, 1 + (1 << order), &mut meter)),
            _ => assert!(scheme.sub(&sheet, &one, 1 << order, &mut meter)),
        }
        assert_eq!(
            meter.updates, 1,
            "each operation is one update, whatever it covers"
        );
        *cost = meter.rmws;
    }
    assert!(sheet.is_zero());
    costs
}

#[test]
fn unified_takes_one_for_each_update_and_none_to_begin() {
    for order in 0..=15 {
        assert_eq!(costs(&Unified, order), [0, 1, 1, 1, 1, 1], "order {order}");
    }
}

/// Bits of an id in each value of a folio of this order.
fn bits_of_a_value(order: u8, stored: bool) -> u32 {
    let most = match order {
        ..=2 => 24,
        3..=5 => 12,
        6..=9 => 7,
        10 => 6,
        11..=12 => 5,
        _ => 4,
    };
    // Looked up, they are 6 at most, except where there is no room for more than one value.
    if stored || order == 1 {
        most
    } else {
        most.min(6)
    }
}

#[test]
fn digits_takes_one_and_those_of_its_stage() {
    for (ids, bits) in [(SMALL, 2u32), (LARGE, MmId::BITS)] {
        for (stored, add) in [(false, false), (false, true), (true, false), (true, true)] {
            for order in 1..=15 {
                // The references; then the seqcount twice, the total mapcount, the values that have
                // bits of the id.
                let values = bits.div_ceil(bits_of_a_value(order, stored));
                let section = 2 + 1 + values;
                let scheme = |exclusive| Digits {
                    stored,
                    exclusive,
                    add,
                    pages: false,
                };
                let shared = [0, 1 + section, 1, section, 1, 1 + section];
                assert_eq!(costs_of(ids, &scheme(false), order), shared, "{order}");
                // A writer that is alone: the seqcount only.
                let alone = [0, 3, 1, 2, 1, 3];
                assert_eq!(costs_of(ids, &scheme(true), order), alone, "{order}");
            }
        }
    }
    assert_eq!(costs(&Digits::default(), 0), [0, 1, 1, 0, 1, 1]);
}

#[test]
fn the_others() {
    for order in 1..=15 {
        // The references, and the lock.
        assert_eq!(costs(&TwoSlot, order), [0, 2, 1, 1, 1, 2]);
        // The references and the total; the first mapping that is added also sets a bit.
        assert_eq!(costs(&Total, order), [0, 3, 1, 1, 1, 2]);
    }
    for order in 1..=15 {
        // The references and all mappings; another's, too.
        assert_eq!(costs(&FirstOwner, order), [0, 3, 1, 2, 1, 2]);
    }
    assert_eq!(costs(&FirstOwner, 0), [0, 1, 1, 0, 1, 1]);
    assert_eq!(costs(&TwoSlot, 0), [0, 1, 1, 0, 1, 1]);
    assert_eq!(costs(&Total, 0), [0, 1, 1, 0, 1, 1]);
}

#[test]
fn counts_of_single_pages_take_one_or_two_for_each() {
    let [one, two] = SMALL.map(|id| Owner::new(MmId::new(id).expect("an id")));
    for order in 1..=9 {
        let (sheet, pages) = (Sheet::new(order), 1 << order);
        let all = Part::ptes(0, pages);
        let rmws = |operate: &dyn Fn(&mut Meter)| {
            let mut meter = Meter::default();
            operate(&mut meter);
            assert_eq!(meter.updates, 1);
            meter.rmws
        };
        assert_eq!(rmws(&|meter| PerPage.begin(&sheet, &one, all, meter)), 0);
        // The references, and each page.
        let second = |meter: &mut Meter| PerPage.map(&sheet, &two, all, meter);
        assert_eq!(rmws(&second), 1 + pages);
        let first = |meter: &mut Meter| assert!(!PerPage.unmap(&sheet, &one, all, meter));
        assert_eq!(rmws(&first), 1 + pages);
        // The last of them: how many pages are mapped at all changes, too, once for the batch.
        let last = |meter: &mut Meter| assert!(PerPage.unmap(&sheet, &two, all, meter));
        assert_eq!(rmws(&last), 2 + pages);
        assert!(sheet.is_zero());
    }
    assert_eq!(costs(&PerPage, 0), [0, 1, 1, 0, 1, 1]);
}
