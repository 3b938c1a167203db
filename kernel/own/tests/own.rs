//! The account: every scheme beside a model that knows each reference, each for its own promise.

use own::{
    Account, Book, Digits, FirstOwner, Ids, Meter, MmId, Owner, Paged, Part, PerPage, Total,
    TwoSlot, Unified,
};
use proptest::prelude::*;

#[path = "common/book.rs"]
mod book;
#[path = "common/model.rs"]
mod model;

use book::Sheet;
use model::{Model, Promise};

fn owner(id: u16) -> Owner {
    Owner::new(MmId::new(id).expect("an id"))
}

/// Holders from here on are spaces that share an id.
const COMMON: u16 = MmId::COMMON.get();

/// All settings of the digits scheme.
fn all_digits() -> impl Iterator<Item = Digits> {
    (0..8).map(|bits| Digits {
        stored: bits & 1 != 0,
        exclusive: bits & 2 != 0,
        add: bits & 4 != 0,
        pages: false,
    })
}

/// With counts of single pages in the sections of writers that are alone, and that share.
fn digits_with_pages() -> impl Iterator<Item = Digits> {
    [true, false].into_iter().map(|exclusive| Digits {
        exclusive,
        pages: true,
        ..Digits::default()
    })
}

/// The same test for every scheme and setting, with what it promises.
macro_rules! every_scheme {
    ($test:ident($argument:expr)) => {
        $test(&Unified, Promise::Names, $argument);
        all_digits().for_each(|digits| $test(&digits, Promise::Exact, $argument));
        $test(&TwoSlot, Promise::Two, $argument);
        $test(&FirstOwner, Promise::Owner, $argument);
        $test(&Total, Promise::First, $argument);
        $test(&PerPage, Promise::Pages, $argument);
        $test(&Paged(Total), Promise::First, $argument);
        $test(&Paged(Unified), Promise::Names, $argument);
        digits_with_pages().for_each(|digits| $test(&digits, Promise::Exact, $argument));
    };
}

/// Every way to hold a folio of 1, 2 and 4 pages by three MMs and plain references, up to one more
/// than its pages for each: from nothing to there, and back, where every second reference first
/// waits for a flush.
fn up_and_down(scheme: &impl Account, promise: Promise, ids: [u16; 3]) {
    for order in 0..=2u8 {
        let counts = (1u32 << order) + 2;
        for code in 0..counts.pow(4) {
            let wanted = [0, 1, 2, 3].map(|place| code / counts.pow(place) % counts);
            for begin in (0..3).filter(|begin| wanted[*begin] != 0) {
                up_and_down_once(scheme, promise, order, begin, wanted, ids);
            }
        }
    }
}

fn up_and_down_once(
    scheme: &impl Account,
    promise: Promise,
    order: u8,
    begin: usize,
    wanted: [u32; 4],
    ids: [u16; 3],
) {
    let id = |place: usize| ids.get(place).copied().unwrap_or(0);
    let sheet = Sheet::new(order);
    let mut model = Model::begin(scheme, promise, &sheet, id(begin), 1);
    for (place, &n) in wanted.iter().enumerate() {
        let more = n - u32::from(place == begin);
        if more > 0 {
            model.add(id(place), more);
        }
    }
    for place in (begin..begin + 4).map(|place| place % 4) {
        for n in 0..wanted[place] {
            if n % 2 == 0 {
                model.sub(id(place), 1);
            } else {
                model.pass(id(place), 0, 1);
                model.sub(0, 1);
            }
        }
    }
    model.is_gone();
}

#[test]
fn every_state_of_small_folios() {
    for ids in [
        [1, 2, 3],
        [0x155, 0x12b, MmId::LAST],
        [MmId::LAST, COMMON, COMMON + 1],
    ] {
        every_scheme!(up_and_down(ids));
    }
}

/// Every multiset of up to P references from the ids 0..=`last`, where 0 is plain: each is a larger
/// one's way up and down.
fn multisets(scheme: &impl Account, promise: Promise, (order, last): (u8, u16)) {
    for first in 0..=last {
        let sheet = Sheet::new(order);
        let mut model = Model::begin(scheme, promise, &sheet, first, 1);
        more(&mut model, first, last, (1 << order) - 1);
        model.sub(first, 1);
        model.is_gone();
    }
}

fn more(model: &mut Model<'_, impl Account>, from: u16, last: u16, room: u32) {
    for id in (from..=last).take_while(|_| room > 0) {
        model.add(id, 1);
        more(model, id, last, room - 1);
        model.sub(id, 1);
    }
}

#[test]
fn every_multiset_of_few_ids() {
    for size in [(0, 200), (1, 40), (2, 12), (3, 5)] {
        every_scheme!(multisets(size));
    }
}

/// A step of a walk: which of its ids, how many pages, and what to do with them.
type Step = (usize, u32, u8);

/// Up to far above P references and back, at random; then all of them go.
fn walk(scheme: &impl Account, promise: Promise, (order, ids, steps): (u8, &[u16; 4], &[Step])) {
    let pages = 1u32 << order;
    let sheet = Sheet::new(order);
    let mut model = Model::begin(scheme, promise, &sheet, ids[0], pages);
    let id = |place: usize| ids.get(place).copied().unwrap_or(0);
    for &(place, n, what) in steps {
        let (one, other) = (id(place), id((place + usize::from(what)) % 5));
        let held = model.held(one) as u32;
        let n = 1 + n % pages;
        match what {
            0..4 => model.add(one, n),
            4..7 if held > 0 => model.pass(one, other, n.min(held)),
            // Not the last of all: the folio would be gone.
            7.. if model.total() > u64::from(held.min(n)) && held > 0 => {
                model.sub(one, held.min(n))
            }
            _ => {}
        }
    }
    for place in 0..5 {
        while let held @ 1.. = model.held(id(place)) as u32 {
            model.sub(id(place), held.min(pages));
        }
    }
    model.is_gone();
}

fn four_ids() -> impl Strategy<Value = [u16; 4]> {
    // Neighbours and far ones: those that share bits are the harder ones.
    let near = (1..=MmId::LAST - 3).prop_map(|id| [id, id + 1, id + 2, id + 3]);
    let bits = (0..12u32).prop_map(|bit| [1, 1 << bit, 2 << bit, 5 << bit]);
    let distinct = |ids: &[u16; 4]| (1..4).all(|i| !ids[..i].contains(&ids[i]));
    prop_oneof![
        any::<[u16; 4]>().prop_map(|ids| ids.map(|id| id.clamp(1, MmId::LAST))),
        near,
        bits,
        (1..=MmId::LAST).prop_map(|id| [id, COMMON, COMMON + 1, COMMON + 2]),
    ]
    .prop_filter("four different ids", distinct)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_walks(
        order in 0..=15u8,
        ids in four_ids(),
        steps in prop::collection::vec((0..5usize, any::<u32>(), 0..10u8), 0..80),
    ) {
        every_scheme!(walk((order, &ids, &steps)));
    }
}

/// The widest ids on all pages of the largest folio of a format, and twice as many again.
#[test]
fn the_fields_are_wide_enough() {
    for order in 0..=15 {
        let pages = 1u32 << order;
        for id in [1, 0x1f, 0xff, 0x7f00, 0x7fe0, 0x7ffe, COMMON] {
            let sheet = Sheet::new(order);
            let mut model = Model::begin(&Unified, Promise::Names, &sheet, id, pages);
            for _ in 0..3 {
                model.add(COMMON, pages);
                model.add(0x5555, pages);
            }
            for _ in 0..3 {
                model.sub(0x5555, pages);
                model.sub(COMMON, pages);
            }
            model.sub(id, pages);
            model.is_gone();
        }
    }
}

/// Every MM that there can be maps all of a folio of each order.
#[test]
fn all_ids_at_once() {
    let mut ids = Ids::new();
    let spaces: Vec<Owner> = std::iter::from_fn(|| ids.take(MmId::LAST))
        .map(Owner::new)
        .collect();
    assert_eq!(spaces.len(), Ids::MOST);
    for order in [4, 9, 15] {
        let sheet = &Sheet::new(order);
        let (pages, mut meter) = (1u32 << order, Meter::default());
        Unified.begin(sheet, &spaces[0], Part::ptes(0, pages), &mut meter);
        for who in &spaces[1..] {
            Unified.add(sheet, who, pages, &mut meter);
        }
        let all = u64::from(pages) * spaces.len() as u64;
        let said = Unified.references(sheet);
        // Carries make it a little more, and it stays below the limit.
        assert!((all..all + all / 16).contains(&said), "{said} of {all}");
        assert!(!spaces.iter().any(|who| Unified.exclusive(sheet, who)));
        for who in spaces[1..].iter().rev() {
            assert!(!Unified.sub(sheet, who, pages, &mut meter));
        }
        assert_eq!(Unified.owner(sheet), MmId::new(1));
        assert!(Unified.sub(sheet, &owner(1), pages, &mut meter));
        assert!(sheet.is_zero());
    }
}

#[test]
fn plain_owner_has_no_id() {
    assert_eq!(Owner::PLAIN.id(), None);
    assert_eq!(owner(7).id(), MmId::new(7));
    assert_eq!([0, 32768].map(MmId::new), [None, None]);
    assert_eq!(MmId::new(32767), Some(MmId::COMMON));
    let common = [0, 1, 32766, 32767].map(|id| MmId::new(id).map(Owner::new));
    let common = common.map(|who| who.unwrap_or(Owner::PLAIN).is_common());
    assert_eq!(common, [false, false, false, true]);
}

/// Two spaces that share an id map a folio: neither has it for itself, in any scheme, until it has
/// the last reference.
fn two_with_one_id(scheme: &impl Account, _: Promise, order: u8) {
    let (sheet, meter) = (Sheet::new(order), &mut Meter::default());
    let (common, pages) = (owner(COMMON), 1u32 << order);
    let (all, pins) = (Part::ptes(0, pages), Part::nothing(2));
    scheme.begin(&sheet, &common, all, meter);
    // All of it is one space's, and the account cannot know that there is no second one.
    assert_eq!(scheme.exclusive(&sheet, &common), order == 0);
    assert_eq!(scheme.owner(&sheet), None);
    scheme.map(&sheet, &common, all, meter);
    assert!(!scheme.exclusive(&sheet, &common));
    assert!(!scheme.unmap(&sheet, &common, all, meter));
    for page in 1..pages {
        assert!(!scheme.unmap(&sheet, &common, Part::ptes(page, 1), meter));
    }
    // One reference is the asker's.
    assert!(scheme.exclusive(&sheet, &common));
    assert_eq!(scheme.owner(&sheet), None);
    scheme.map(&sheet, &Owner::PLAIN, pins, meter);
    assert!(!scheme.exclusive(&sheet, &common));
    assert!(!scheme.exclusive_but(&sheet, &common, 1));
    assert!(scheme.exclusive_but(&sheet, &common, 2));
    assert!(!scheme.unmap(&sheet, &Owner::PLAIN, pins, meter));
    assert!(scheme.unmap(&sheet, &common, Part::ptes(0, 1), meter) && sheet.is_zero());
}

#[test]
fn the_common_id_has_what_it_alone_refers_to() {
    for order in [0, 1, 2, 4, 5, 9, 15] {
        every_scheme!(two_with_one_id(order));
    }
}

/// A fork maps a folio by a leaf, the parent's leaf is split, and both go: the pages' counts
/// follow.
#[test]
fn leaves_count_for_every_page() {
    fn counts(scheme: &impl Account) {
        let (sheet, mut meter) = (Sheet::new(9), Meter::default());
        let leaf = Part::leaf(sheet.order());
        let says = |n| (0..512).all(|page| scheme.page_count(&sheet, page) == Some(n));
        scheme.begin(&sheet, &owner(1), leaf, &mut meter);
        assert!(says(1) && scheme.exclusive(&sheet, &owner(1)));
        scheme.split_leaf(&sheet, &mut meter);
        assert!(says(1) && scheme.exclusive(&sheet, &owner(1)));
        // Page by page, to and fro: it is still one's own.
        for page in Part::ptes(0, 512).each() {
            scheme.enter_again(&sheet, &owner(1), page, &mut meter);
        }
        scheme.leave(&sheet, &owner(1), Part::ptes(0, 512), &mut meter);
        assert!(says(1) && scheme.exclusive(&sheet, &owner(1)));
        scheme.map(&sheet, &owner(2), leaf, &mut meter);
        assert!(says(2) && !scheme.exclusive(&sheet, &owner(1)));
        for page in leaf.each().map(|page| Part::ptes(page.first, 1)) {
            assert!(!scheme.unmap(&sheet, &owner(1), page, &mut meter));
        }
        assert!(says(1));
        assert!(scheme.unmap(&sheet, &owner(2), leaf, &mut meter) && sheet.is_zero());
    }
    counts(&PerPage);
    counts(&Paged(Total));
    counts(&Paged(Unified));
    digits_with_pages().for_each(|digits| counts(&digits));
}

/// Batching changes what it costs, and nothing else.
#[test]
fn page_by_page_is_as_good_as_at_once() {
    use own::Batching;
    fn same(scheme: &impl Account, separate: bool) {
        for (refs, maps) in [(false, false), (false, true), (true, false), (true, true)] {
            let by = Batching { refs, maps };
            let (sheet, mut meter) = (Sheet::new(4), Meter::default());
            scheme.begin(&sheet, &owner(1), Part::ptes(0, 16), &mut meter);
            let part = Part::ptes(3, 10);
            let mut came = Meter::default();
            scheme.map_by(by, &sheet, &owner(2), part, &mut came);
            let held = [(owner(1), 16), (owner(2), 10)];
            assert!(scheme.agrees(&sheet, &held));
            assert_eq!(came.updates, if refs { 1 } else { 10 });
            let least = if refs { 1 } else { 10 } + u32::from(separate) * if maps { 1 } else { 10 };
            assert!(came.rmws >= least, "{by:?}: {came:?}");
            assert!(!scheme.unmap_by(by, &sheet, &owner(2), part, &mut meter));
            assert!(scheme.agrees(&sheet, &held[..1]));
            let leaf = Part::leaf(sheet.order());
            scheme.map_by(by, &sheet, &owner(2), leaf, &mut meter);
            assert!(scheme.agrees(&sheet, &[(owner(1), 16), (owner(2), 16)]));
            assert!([None, Some(2)].contains(&scheme.page_count(&sheet, 5)));
            assert!(!scheme.unmap_by(by, &sheet, &owner(2), leaf, &mut meter));
            assert!([None, Some(1)].contains(&scheme.page_count(&sheet, 5)));
            assert!(scheme.unmap_by(by, &sheet, &owner(1), Part::ptes(0, 16), &mut meter));
            assert!(sheet.is_zero());
        }
    }
    same(&Unified, false);
    same(&Total, true);
    same(&TwoSlot, true);
    same(&FirstOwner, true);
    same(&Digits::default(), true);
    same(&PerPage, true);
    same(&Paged(Total), true);
}
