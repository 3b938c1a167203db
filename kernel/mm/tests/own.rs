//! The account: every scheme against a model that knows each reference, each scheme for its own promise.

use mm::own::{Account, Digits, MmId, Owner, Total, TwoSlot, Unified};

#[path = "own/book.rs"]
mod book;
#[path = "own/model.rs"]
mod model;

use book::Sheet;
use model::{Model, Promise};

fn owner(id: u16) -> Owner {
    Owner::new(MmId::new(id).expect("an id"))
}

/// All settings of the digits scheme.
fn all_digits() -> impl Iterator<Item = Digits> {
    (0..8).map(|bits| Digits {
        stored: bits & 1 != 0,
        exclusive: bits & 2 != 0,
        add: bits & 4 != 0,
    })
}

/// Every way to hold a folio of 1, 2 and 4 pages by three MMs and plain references, up to P of each: from nothing to there, and
/// back in every order of the holders.
fn small(scheme: &impl Account, promise: Promise, ids: [u16; 3]) {
    for order in 0..=2u8 {
        let pages = 1u32 << order;
        let most = pages + 1;
        for code in 0..most.pow(4) {
            let count = |place: u32| code / most.pow(place) % most;
            let wanted = [count(0), count(1), count(2), count(3)];
            for begin in 0..3 {
                if wanted[begin] == 0 {
                    continue;
                }
                let sheet = Sheet::new(order);
                let mut model = Model::begin(scheme, promise, &sheet, ids[begin], 1);
                for (place, &n) in wanted.iter().enumerate() {
                    let id = ids.get(place).copied().unwrap_or(0);
                    let n = n - u32::from(place == begin);
                    if n > 0 {
                        model.add(id, n);
                    }
                }
                for step in 0..4 {
                    let place = (begin + step) % 4;
                    let id = ids.get(place).copied().unwrap_or(0);
                    for n in 0..wanted[place] {
                        // Half of them wait for a flush as plain references first.
                        let held_as = if n % 2 == 0 { id } else { 0 };
                        if held_as != id {
                            model.pass(id, 0, 1);
                        }
                        model.sub(held_as, 1);
                    }
                }
                model.is_gone();
            }
        }
    }
}

#[test]
fn unified_small() {
    small(&Unified, Promise::Names, [1, 2, 3]);
    small(&Unified, Promise::Names, [0x1f, 0x3e0, 0x7c00]);
}

#[test]
fn digits_small() {
    for scheme in all_digits() {
        small(&scheme, Promise::Exact, [1, 2, 3]);
    }
}

#[test]
fn two_slot_small() {
    small(&TwoSlot, Promise::NeverWronglyYes, [1, 2, 3]);
}

#[test]
fn total_small() {
    small(&Total, Promise::NeverWronglyYes, [1, 2, 3]);
}

#[test]
fn plain_owner_has_no_id() {
    assert_eq!(Owner::PLAIN.id(), None);
    assert_eq!(owner(7).id(), MmId::new(7));
    assert_eq!([0, 32768].map(MmId::new), [None, None]);
}
