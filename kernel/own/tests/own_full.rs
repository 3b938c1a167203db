//! References that run over: the folio is kept for ever and says so once; nothing wraps into a
//! wrong answer.

use own::sync::Ordering;
use own::{
    Account, Book, Digits, FirstOwner, Ids, Meter, MmId, Owner, Part, Total, TwoSlot, Unified,
};
use std::cell::Cell;

#[path = "common/book.rs"]
mod book;

use book::Sheet;

thread_local! {
    /// Errors that this thread logged.
    static ERRORS: Cell<usize> = const { Cell::new(0) };
}

struct Counter;
impl log::Log for Counter {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        if record.level() == log::Level::Error {
            ERRORS.set(ERRORS.get() + 1);
        }
    }
    fn flush(&self) {}
}

fn owner(id: u16) -> Owner {
    Owner::new(MmId::new(id).expect("an id"))
}

/// A folio that 1 maps, with as many pins as there may be.
fn nearly_full(scheme: &impl Account, order: u8, most: impl Fn(&Sheet)) -> Sheet {
    let (sheet, mut meter) = (Sheet::new(order), Meter::default());
    scheme.begin(&sheet, &owner(1), Part::ptes(0, 1), &mut meter);
    most(&sheet);
    sheet
}

fn runs_over(scheme: &impl Account, order: u8, most: impl Fn(&Sheet)) {
    // The first test that comes installs it, for all.
    let _ = log::set_logger(&Counter);
    log::set_max_level(log::LevelFilter::Error);
    ERRORS.set(0);
    let meter = &mut Meter::default();

    let sheet = nearly_full(scheme, order, &most);
    let before = scheme.references(&sheet);
    scheme.add(&sheet, &Owner::PLAIN, 1, meter);
    assert_eq!(
        scheme.references(&sheet),
        before + 1,
        "there was room for one"
    );
    assert!(!scheme.sub(&sheet, &Owner::PLAIN, 1, meter));
    assert_eq!((scheme.references(&sheet), ERRORS.get()), (before, 0));

    scheme.add(&sheet, &Owner::PLAIN, 2, meter);
    assert_eq!(ERRORS.get(), 1, "it is said");
    let kept = scheme.references(&sheet);
    assert!(kept > before + 2);
    for _ in 0..1000 {
        scheme.add(&sheet, &Owner::PLAIN, 1 << order, meter);
        scheme.add(&sheet, &owner(2), 1, meter);
        scheme.pass(&sheet, &owner(2), &Owner::PLAIN, 1, meter);
        for who in [owner(1), owner(2)] {
            assert!(!scheme.exclusive(&sheet, &who));
        }
        assert_eq!(scheme.owner(&sheet), None);
    }
    // More than ever came: it stays.
    for _ in 0..3000 {
        assert!(!scheme.sub(&sheet, &Owner::PLAIN, 1 << order, meter));
        assert_eq!(scheme.references(&sheet), kept);
    }
    assert_eq!(ERRORS.get(), 1, "and said once");
}

/// Leaves room for one more below half of what a count with this many bits can hold.
fn pins(bits: u32) -> u64 {
    (1 << (bits - 1)) - 3
}

#[test]
fn narrow_words() {
    let meter = &mut Meter::default();
    for order in 0..=4 {
        runs_over(&Unified, order, |sheet| {
            let pins = pins(21) as u32;
            Unified.add(sheet, &Owner::PLAIN, pins, &mut Meter::default())
        });
    }
    // What all address spaces together can bring is below.
    let sheet = Sheet::new(4);
    let spaces = || (2..=Ids::MOST).map(|n| owner(n.min(MmId::COMMON.get().into()) as u16));
    Unified.begin(&sheet, &owner(1), Part::ptes(0, 16), meter);
    spaces().for_each(|who| Unified.add(&sheet, &who, 16, meter));
    assert!(Unified.references(&sheet) < 1 << 20);
    spaces().for_each(|who| assert!(!Unified.sub(&sheet, &who, 16, meter)));
    assert!(Unified.sub(&sheet, &owner(1), 16, meter) && sheet.is_zero());
}

#[test]
fn wide_words() {
    for order in [5, 9, 15] {
        runs_over(&Unified, order, |sheet| {
            // No number of pages is as large: the number of references is the word's last field.
            let word = sheet.words(0).wide();
            let one = word.load(Ordering::Relaxed) >> 88 << 88;
            assert_eq!(one, 1 << 88);
            word.fetch_add(one * u128::from(pins(40)), Ordering::Relaxed);
        });
    }
}

fn counts(scheme: &impl Account) {
    for order in [0, 1, 2, 9, 15] {
        runs_over(scheme, order, |sheet| {
            sheet.words(0).lo().fetch_add(pins(64), Ordering::Relaxed);
        });
    }
}

#[test]
fn counts_of_their_own() {
    counts(&Digits::default());
    counts(&TwoSlot);
    counts(&FirstOwner);
    counts(&Total);
}

/// CPUs that update at the same moment do not move a full word out of its place.
#[test]
fn many_cpus_at_once() {
    let sheet = nearly_full(&Unified, 4, |sheet| {
        Unified.add(sheet, &Owner::PLAIN, pins(21) as u32, &mut Meter::default())
    });
    std::thread::scope(|scope| {
        for up in [true, false, true, false] {
            let sheet = &sheet;
            scope.spawn(move || {
                let meter = &mut Meter::default();
                if up {
                    Unified.add(sheet, &Owner::PLAIN, 16, meter);
                }
                for _ in 0..20_000 {
                    if up {
                        Unified.add(sheet, &owner(3), 16, meter);
                    } else {
                        assert!(!Unified.sub(sheet, &Owner::PLAIN, 1, meter));
                    }
                    assert!(!Unified.exclusive(sheet, &owner(1)));
                }
            });
        }
    });
    assert!(Unified.references(&sheet) > 1 << 19);
}

#[test]
#[should_panic(expected = "are dropped and there were")]
fn one_too_many_is_dropped() {
    let (sheet, mut meter) = (Sheet::new(2), Meter::default());
    Unified.begin(&sheet, &owner(1), Part::ptes(0, 2), &mut meter);
    Unified.sub(&sheet, &owner(1), 3, &mut meter);
}
