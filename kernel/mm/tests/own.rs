//! Which scheme of the account the switches choose.

use mm::own::{Account, Chosen, Meter, MmId, Owner};
use mm::switch::{Switch, Switches};

#[path = "../../own/tests/common/book.rs"]
mod book;

use book::Sheet;

fn owner(id: u16) -> Owner {
    Owner::new(MmId::new(id).expect("an id"))
}

/// It shows in what it costs: a second mapping of a folio of order 2, by a space whose id has all bits.
fn cost(switches: &Switches) -> u32 {
    let (sheet, mut meter) = (Sheet::new(2), Meter::default());
    Chosen(switches).begin(&sheet, &owner(MmId::LAST), 1, &mut meter);
    Chosen(switches).add(&sheet, &owner(MmId::LAST - 1), 1, &mut meter);
    let cost = meter.rmws;
    assert!(!Chosen(switches).sub(&sheet, &owner(MmId::LAST), 1, &mut meter));
    assert!(Chosen(switches).sub(&sheet, &owner(MmId::LAST - 1), 1, &mut meter));
    assert!(sheet.is_zero());
    cost
}

#[test]
fn the_switches_choose() {
    let switches = Switches::default();
    let set = |switch: Switch, word: &str| {
        switches.set(switch, switch.number(word).expect("a word of it"));
    };
    let costs = ["unified", "two-slot", "owner", "total"].map(|word| {
        set(Switch::Account, word);
        cost(&switches)
    });
    assert_eq!(costs, [1, 2, 3, 3]);
    set(Switch::Account, "digits");
    let costs = [
        ("exclusive", "stored"),
        ("shared", "stored"),
        ("shared", "lookup"),
    ];
    let costs = costs.map(|(writer, subids)| {
        set(Switch::Writer, writer);
        set(Switch::Subids, subids);
        cost(&switches)
    });
    assert_eq!(costs, [3, 5, 7]);
}
