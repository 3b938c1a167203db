//! The seed's colliding vector: its form with eight id bits in a value takes five address spaces
//! for one. Ours does not.

use own::{Account, Digits, FirstOwner, Meter, MmId, Owner, Part, Total, TwoSlot, Unified};

#[path = "common/book.rs"]
mod book;

use book::Sheet;

/// The one that asks, with one page; and the others, with many.
const ASKS: u16 = 0x155;
const OTHERS: [(u16, u32); 4] = [(0x12b, 12), (0x14d, 28), (0x169, 28), (0x1aa, 2)];

fn owner(id: u16) -> Owner {
    Owner::new(MmId::new(id).expect("an id"))
}

/// The sub-id of eight bits: their digits to the base 513, for folios of up to 512 pages, modulo
/// 2^64.
fn eight_bits(bits: u8) -> u64 {
    let place = |i: u32| 513u64.wrapping_pow(i) * u64::from(bits >> i & 1);
    (0..8).map(place).fold(0, u64::wrapping_add)
}

/// The three values of an id of 24 bits.
fn seed_subids(id: u16) -> [u64; 3] {
    [id as u8, (id >> 8) as u8, 0].map(eight_bits)
}

/// The seed's check: each value is the total mapcount times the sub-id of the one that asks.
fn seed_says_exclusive(mapped: &[(u16, u32)], asks: u16, pages: u32) -> bool {
    let mapcount: u32 = mapped.iter().map(|(_, n)| n).sum();
    let mut values = [0u64; 3];
    for (id, n) in mapped {
        for (value, subid) in values.iter_mut().zip(seed_subids(*id)) {
            *value = value.wrapping_add(subid.wrapping_mul((*n).into()));
        }
    }
    let expected = seed_subids(asks).map(|subid| subid.wrapping_mul(mapcount.into()));
    mapcount <= pages && values == expected
}

#[test]
fn the_defective_form_answers_exclusive() {
    let mapped: Vec<_> = OTHERS.into_iter().chain([(ASKS, 1)]).collect();
    // 71 mappings: a folio of order 6 has too few pages for them.
    assert!(!seed_says_exclusive(&mapped, ASKS, 1 << 6));
    for order in 7..=9 {
        assert!(seed_says_exclusive(&mapped, ASKS, 1 << order));
    }
    // One mapping less of any other, and the sums differ.
    for i in 0..OTHERS.len() {
        let mut fewer = mapped.clone();
        fewer[i].1 -= 1;
        assert!(!seed_says_exclusive(&fewer, ASKS, 1 << 9));
    }
}

/// It is the expansion of 2 * (513 - 1)^7 = 2^64 that makes the difference of the sums vanish.
#[test]
fn why_it_collides() {
    assert_eq!(2 * 512u128.pow(7), 1 << 64);
    assert!(513u128.pow(7) < 1 << 64 && 513u128.pow(8) > 1 << 64);
    let binomial = [1i64, -7, 21, -35, 35, -21, 7, -1];
    for (bit, coefficient) in binomial.into_iter().rev().enumerate() {
        let has = |id: u16, n: u32| i64::from(n) * i64::from(id >> bit & 1);
        let sum: i64 = OTHERS.iter().map(|(id, n)| has(*id, *n)).sum();
        // What the others bring to this digit, less 70 times what the one that asks would.
        assert_eq!(sum - has(ASKS, 70), 2 * coefficient, "bit {bit}");
    }
}

fn says_shared(scheme: &impl Account) {
    for order in 7..=9 {
        let (sheet, mut meter) = (Sheet::new(order), Meter::default());
        scheme.begin(&sheet, &owner(ASKS), Part::ptes(0, 1), &mut meter);
        for (id, n) in OTHERS {
            scheme.add(&sheet, &owner(id), n, &mut meter);
        }
        let ids = OTHERS.map(|(id, _)| id).into_iter().chain([ASKS]);
        for id in ids {
            assert!(
                !scheme.exclusive(&sheet, &owner(id)),
                "order {order}, {id:#x}"
            );
        }
        assert_eq!(scheme.owner(&sheet), None);
        for (id, n) in OTHERS {
            assert!(!scheme.sub(&sheet, &owner(id), n, &mut meter));
        }
        assert!(scheme.sub(&sheet, &owner(ASKS), 1, &mut meter) && sheet.is_zero());
    }
}

#[test]
fn ours_say_shared() {
    says_shared(&Unified);
    for bits in 0..8 {
        says_shared(&Digits {
            stored: bits & 1 != 0,
            exclusive: bits & 2 != 0,
            add: bits & 4 != 0,
            pages: false,
        });
    }
    says_shared(&TwoSlot);
    says_shared(&FirstOwner);
    says_shared(&Total);
}
