//! Which scheme of the account the switches choose.

use mm::own::{Account, ChosenScheme, Meter, MmId, Owner, Part};
use mm::switch::{Switch, Switches};

#[path = "../../own/tests/common/book.rs"]
mod book;

use book::Sheet;

fn owner(id: u16) -> Owner {
    Owner::new(MmId::new(id).expect("an id"))
}

/// It shows in what it costs: a second mapping of a folio of order 2, by a space whose id has all
/// bits.
fn cost(switches: &Switches) -> u32 {
    let (sheet, mut meter) = (Sheet::new(2), Meter::default());
    let (account, page) = (ChosenScheme(switches), Part::ptes(0, 1));
    let [one, two] = [MmId::LAST, MmId::LAST - 1].map(owner);
    account.begin(&sheet, &one, page, &mut meter);
    account.map(&sheet, &two, page, &mut meter);
    let cost = meter.rmws;
    assert!(!account.unmap(&sheet, &one, page, &mut meter));
    assert!(account.unmap(&sheet, &two, page, &mut meter));
    assert!(sheet.is_zero());
    cost
}

#[test]
fn the_switches_choose() {
    let switches = Switches::default();
    let set = |switch: Switch, word: &str| {
        switches.set(switch, switch.number(word).expect("a word of it"));
    };
    let costs = ["unified", "two-slot", "owner", "total", "per-page"].map(|word| {
        set(Switch::Account, word);
        cost(&switches)
    });
    assert_eq!(costs, [1, 2, 3, 3, 2]);
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
    let costs = ["none", "atomic", "seqcount"].map(|word| {
        set(Switch::PageCounts, word);
        cost(&switches)
    });
    assert_eq!(costs, [7, 8, 8]);
    set(Switch::Writer, "exclusive");
    assert_eq!(cost(&switches), 3, "the seqcount covers the page's, too");
}
