//! What the account costs: atomic read-modify-writes for each operation, as the schemes themselves count them.

use own::{Account, Digits, Meter, MmId, Owner, Total, TwoSlot, Unified};

#[path = "common/book.rs"]
mod book;

use book::Sheet;

/// Read-modify-writes of: begin, a second MM's mapping, a pin, a zap that waits for its flush, the end of that, an unmap.
fn costs(scheme: &impl Account, order: u8) -> [u32; 6] {
    let [one, two] = [1, 2].map(|id| Owner::new(MmId::new(id).expect("an id")));
    let sheet = Sheet::new(order);
    let mut costs = [0; 6];
    for (step, cost) in costs.iter_mut().enumerate() {
        let mut meter = Meter::default();
        match step {
            0 => scheme.begin(&sheet, &one, 1 << order, &mut meter),
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

#[test]
fn digits_takes_one_and_those_of_its_stage() {
    // The values of each order from 1 on.
    let stored_values = [1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 5, 5, 6, 6, 6];
    let values = |order: u8, stored: bool| match stored_values[usize::from(order) - 1] {
        least if stored || order == 1 => least,
        least => least.max(4),
    };
    for stored in [false, true] {
        for order in 1..=15 {
            // The references; then the seqcount twice, the total mapcount, the values.
            let shared = |add| Digits {
                stored,
                exclusive: false,
                add,
            };
            let section = 2 + 1 + values(order, stored);
            for add in [false, true] {
                let expected = [0, 1 + section, 1, section, 1, 1 + section];
                assert_eq!(costs(&shared(add), order), expected, "order {order}");
            }
            // A writer that is alone: the seqcount only.
            for add in [false, true] {
                let alone = Digits {
                    stored,
                    exclusive: true,
                    add,
                };
                assert_eq!(costs(&alone, order), [0, 3, 1, 2, 1, 3], "order {order}");
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
    assert_eq!(costs(&TwoSlot, 0), [0, 1, 1, 0, 1, 1]);
    assert_eq!(costs(&Total, 0), [0, 1, 1, 0, 1, 1]);
}
